/**
 * Summarizes a run's files: their amount, the run's parameters, and a digest that identifies the
 * content.
 */
import { sha256 } from "../../base/node_modules.ts";
import { MosaicError } from "../../base/errors.ts";
import { openRegular } from "../../os/files/untrusted.ts";
import type { Problem } from "../format/format_reader.ts";
import type { RunRecord } from "../format/tracker_records.ts";
import { MAX_METRICS } from "../../telemetry/commit/series_writer.ts";
import type { FoundRun } from "./find.ts";
import { type Counts, Lines } from "./record_lines.ts";
import { MAX_PARAMETER_BYTES, Parameters } from "./parameters.ts";
import { baseName, recordsOfSource, sourcesOf } from "./read.ts";
import { parentOf } from "../../os/files/files.ts";
import { GROUP } from "../files/source_records.ts";

export interface ScannedRun extends FoundRun {
  /**
   * Derived from the files' content: the same content has the same id, wherever it is stored. "":
   * it has no files.
   */
  runId: string;
  counts: Counts;
  parameters: Record<string, unknown>;
  /** The tracker's information about the run. */
  tracker: { id: string; name: string; project: string; group: string; tags: string[] };
  leftOut: string[];
}

const RECORDS_BETWEEN = 1000;
const CHUNK_BYTES = 1 << 20;
/** Crockford's base 32, as in every run id. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ID_LENGTH = 26;

/** @throws MosaicError for a missing file or anything but a regular file */
export function scanRun(run: FoundRun, onRecords: (read: number) => void = () => {}): ScannedRun {
  const lines = new Lines(MAX_METRICS);
  const parameters = new Parameters();
  const tracker = { id: "", name: "", project: "", group: "", tags: [] as string[] };
  const onProblem = (path: string, problem: Problem) => lines.problem(baseName(path), problem);
  let read = 0;
  for (const source of sourcesOf(run.files)) {
    for (const record of recordsOfSource(source, onProblem)) {
      if (++read % RECORDS_BETWEEN === 0) onRecords(read);
      if (record.kind === "params") parameters.add(record);
      else if (record.kind === "run") learn(tracker, record);
      lines.add(record, source.label);
    }
    lines.flush();
  }
  if (tracker.group !== "") {
    const values = { [GROUP]: tracker.group };
    parameters.add({ kind: "params", origin: "config", wallTime: undefined, values, removed: [] });
  }
  const { values, leftOut } = parameters.values();
  return {
    ...run,
    runId: run.files.length === 0 ? "" : runIdOf(run.files),
    counts: lines.counts,
    parameters: values,
    tracker,
    leftOut: [
      ...lines.leftOut(),
      ...leftOut.map((name) =>
        `parameter ${name}: all together are more than ${MAX_PARAMETER_BYTES >> 10} KiB`
      ),
    ],
  };
}

/** A later record states only some fields. */
function learn(
  tracker: ScannedRun["tracker"],
  { id, name, project, group, tags }: RunRecord,
): void {
  tracker.id = id || tracker.id;
  tracker.name = name || tracker.name;
  tracker.project = project || tracker.project;
  tracker.group = group || tracker.group;
  if (tags.length > 0) tracker.tags = tags;
}

/** The id of a program that has no files of its own, from that of its first trial. */
export function programIdOf(firstTrial: string): string {
  return idOfDigest(sha256().update(`mosaic import of a program 1\n${firstTrial}`).digest());
}

/** By the files' names and content. */
export function runIdOf(files: readonly string[]): string {
  const hash = sha256().update("mosaic import 1\n");
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (const path of files) {
    using file = openRegular(path, parentOf(path));
    if (file === undefined) throw new MosaicError("not_found", `${path}: there is no such file`);
    const { size } = file.stat();
    hash.update(`${JSON.stringify(baseName(path))} ${size}\n`);
    for (let at = 0; at < size;) {
      const read = file.readSync(at, buffer.subarray(0, Math.min(buffer.length, size - at)));
      if (read === 0) break;
      hash.update(buffer.subarray(0, read));
      at += read;
    }
  }
  return idOfDigest(hash.digest());
}

/** The first 128 bits as a ULID. */
function idOfDigest(digest: Uint8Array): string {
  let bits = digest.subarray(0, 16).reduce((n, byte) => (n << 8n) | BigInt(byte), 0n);
  let id = "";
  for (let i = 0; i < ID_LENGTH; i++, bits >>= 5n) id = ALPHABET[Number(bits & 31n)] + id;
  return id;
}
