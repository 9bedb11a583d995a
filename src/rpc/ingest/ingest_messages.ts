/** Converts messages of a proxy's connection to the types of the core, and back. Pure. */
import { parsedJson } from "../../base/text/json_text.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type {
  Observed,
  ProxyHello,
  WorkerSettings,
} from "../../dispatch/attempt/state/connected_proxy.ts";
import type {
  Batch,
  Exit,
  FilePiece,
  Hello,
  SealedSteps as SealedMessage,
  SourceBatch,
} from "../../gen/mosaic/v1/ingest_pb.ts";
import type { Chunk } from "../../uploads/take_uploads.ts";
import type { ExitReport } from "../../registry/failure/explain.ts";
import type { IngestBatch } from "../../records/ingest_batch.ts";
import type {
  EpisodeRecord,
  StepColumns,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import { checked, type Sealed } from "../../records/sealed_steps.ts";

export function settingsOf({ environment, resumeFrom, fetch }: WorkerSettings) {
  return { environment, resumeFrom: resumeFrom ?? "", fetch };
}

export function helloOf(hello: Hello): ProxyHello {
  if (hello.runId === "") {
    throw new MosaicError("invalid_argument", "run_id is empty: a proxy belongs to one run");
  }
  return {
    runId: hello.runId,
    attempt: hello.attempt,
    proxy: { pid: Number(hello.proxyPid), identity: hello.proxyIdentity },
    worker: hello.workerPid === 0n
      ? null
      : { pid: Number(hello.workerPid), identity: hello.workerIdentity },
    startsWorker: hello.startsWorker,
    ...(hello.job === ""
      ? {}
      : { place: { host: hello.host, job: hello.job, gpus: [...hello.gpus] } }),
  };
}

const decoder = new TextDecoder();

function parsed<T>(bytes: Uint8Array, field: string, empty: T): T {
  if (bytes.length === 0) return empty;
  try {
    return parsedJson(decoder.decode(bytes)) as T;
  } catch (error) {
    throw new MosaicError("invalid_argument", `${field} is not JSON: ${messageOf(error)}`);
  }
}

function columnsOf(stepsJson: Uint8Array): StepColumns {
  const steps = parsed<StepColumns>(stepsJson, "steps_json", { n: 0 });
  for (const [name, column] of Object.entries(steps)) {
    if (Array.isArray(column) && column.length !== steps.n) {
      throw new MosaicError(
        "invalid_argument",
        `steps_json: column ${name} has ${column.length} of ${steps.n} rows`,
      );
    }
  }
  return steps;
}

export function sealedOf(message: SealedMessage): Sealed {
  const { n, crc, head, hot, raw, body, info, clamped, agentId, workerId, policyLabel, backend } =
    message;
  let read: unknown;
  try {
    read = parsedJson(head);
  } catch (error) {
    throw new MosaicError(
      "invalid_argument",
      `the head of sealed steps is not JSON: ${messageOf(error)}`,
    );
  }
  const [fromNs, toNs, unitNs, cells] = Array.isArray(read) && Array.isArray(read[3])
    ? read
    : ["", "", 0, []];
  const block = { first: 0, n, crc, fromNs, toNs, unitNs, cells, hot, raw, body };
  return { n, labels: { agentId, workerId, policyLabel, backend }, block, info, clamped };
}

/**
 * The batch with its columns. It comes from mosaic's own proxy: the shapes are checked, the values
 * are not.
 */
export function batchOf(message: Batch): IngestBatch {
  const { sealedSteps } = message;
  const steps = sealedSteps === undefined
    ? columnsOf(message.stepsJson)
    : checked(sealedOf(sealedSteps));
  const violations: Record<string, number> = {};
  for (const [rule, count] of Object.entries(message.violations)) violations[rule] = Number(count);
  return {
    from: Number(message.fromPosition),
    to: Number(message.toPosition),
    steps,
    episodes: recordsOf<EpisodeRecord>(message.episodesJson, "episodes_json"),
    events: recordsOf<WorkerEventRecord>(message.eventsJson, "events_json"),
    otherLines: Number(message.otherLines),
    malformedLines: Number(message.malformedLines),
    violations,
  };
}

/** @throws MosaicError `invalid_argument` for an invalid batch */
export function sourceBatchOf({ cursor, episodesJson, eventsJson }: SourceBatch): IngestBatch {
  if (cursor === undefined || cursor.name === "" || cursor.serial < 1n) {
    throw new MosaicError(
      "invalid_argument",
      "a batch of a source has no cursor, or one without a name or a serial",
    );
  }
  const { name, label, state } = cursor;
  const serial = Number(cursor.serial);
  return {
    source: { name, label, state },
    from: serial - 1,
    to: serial,
    steps: { n: 0 },
    episodes: recordsOf<EpisodeRecord>(episodesJson, "episodes_json"),
    events: recordsOf<WorkerEventRecord>(eventsJson, "events_json"),
    otherLines: 0,
    malformedLines: 0,
    violations: {},
  };
}

export function observedOf({ cursors, ...others }: Observed) {
  return {
    ...others,
    cursors: cursors.map((cursor) => ({ ...cursor, serial: BigInt(cursor.serial) })),
  };
}

/** @throws MosaicError `invalid_argument` for anything but an array of objects */
function recordsOf<R extends object>(json: Uint8Array, field: string): R[] {
  const records = parsed<unknown>(json, field, []);
  if (
    Array.isArray(records) &&
    records.every((record) => typeof record === "object" && record !== null)
  ) {
    return records as R[];
  }
  throw new MosaicError("invalid_argument", `${field} is not an array of objects`);
}

export function chunkOf({ path, size, changedAt, offset, data, crc, sha256 }: FilePiece): Chunk {
  return {
    path,
    size: Number(size),
    changedAt: Number(changedAt),
    offset: Number(offset),
    data,
    crc,
    sha256,
  };
}

export function exitOf(exit: Exit): ExitReport {
  return {
    code: exit.code ?? null,
    signal: exit.signal,
    lost: exit.lost,
    finalPosition: Number(exit.finalPosition),
    stderrTail: exit.stderrTail,
    spawnError: exit.spawnError,
    byItself: exit.byItself,
  };
}
