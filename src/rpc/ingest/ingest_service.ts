/**
 * `mosaic.v1.Ingest`: one stream per proxy. A batch is acknowledged only when it is committed.
 * While nothing can be stored (the disk is full), the daemon keeps the batch and reads no further
 * message, and the rest of the journal waits on disk.
 */
import type { Bounds } from "../../base/load_limits.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import type { Ingest, ProxyMessage } from "../../gen/mosaic/v1/ingest_pb.ts";
import { SEALED_FORM } from "../../records/sealed_steps.ts";
import { checkIngestProtocol, INGEST_PROTOCOL } from "../../wire/ingest_protocol.ts";
import { fetchCheckpoint } from "./fetch_checkpoint.ts";
import type { Caller, Handlers, Incoming } from "../call/handlers.ts";
import { helloOf, observedOf, settingsOf } from "./ingest_messages.ts";
import { StreamLink, type ToProxy } from "./proxy_link.ts";
import { ProxyStream } from "./proxy_stream.ts";
import { firstWindow } from "./proxy_window.ts";

/**
 * Most runs that are remembered because their proxies sent an invalid block; the oldest is
 * forgotten.
 */
const MOST_WITHOUT_BLOCKS = 1000;

type IngestBounds = Pick<Bounds, "windowBytes" | "uploadRateBytes">;

export function ingestHandlers(core: Core, bounds: IngestBounds): Handlers<typeof Ingest> {
  const withoutBlocks = new Set<string>();
  return {
    deliver: (incoming, out, caller) => deliver(core, bounds, withoutBlocks, incoming, out, caller),
    fetch: (request, out) => fetchCheckpoint(core, request, out),
    async reportCode(record) {
      if (record.attempt === 0) {
        throw new MosaicError("invalid_argument", "attempt is 0: a proxy serves one from 1");
      }
      await core.recordCode(record);
      return {};
    },
  };
}

async function deliver(
  core: Core,
  { windowBytes, uploadRateBytes }: IngestBounds,
  withoutBlocks: Set<string>,
  incoming: Incoming<ProxyMessage>,
  out: ToProxy,
  { signal }: Caller,
): Promise<void> {
  const [first, ...others] = (await incoming.take()).map(({ message }) => message);
  if (first === undefined) return;
  if (first.case !== "hello") {
    throw new MosaicError(
      "failed_precondition",
      `the first message is "${first.case}": a proxy must send hello first`,
    );
  }
  checkIngestProtocol(first.value.protocol);

  const { runId } = first.value;
  const session = core.openProxy(helloOf(first.value), new StreamLink(incoming, out));
  const connected = { journalSize: session.journalPosition, position: session.journalPosition };
  try {
    await out.send({
      message: {
        case: "welcome",
        value: {
          protocol: INGEST_PROTOCOL,
          journalPosition: BigInt(session.journalPosition),
          windowBytes: BigInt(firstWindow(windowBytes)),
          control: session.control,
          ...(session.observed === undefined ? {} : { observed: observedOf(session.observed) }),
          sealedForm: withoutBlocks.has(runId) ? "" : SEALED_FORM,
          ...(session.workerSettings === undefined
            ? {}
            : { worker: settingsOf(session.workerSettings) }),
          ...(session.takesFiles ? { files: { rate: BigInt(uploadRateBytes) } } : {}),
        },
      },
    });
    core.activity.proxies.add(connected);
    const onBadBlock = () => remember(withoutBlocks, runId);
    const onFailure = (failure: Error) => incoming.interrupt(failure);
    const proxy = new ProxyStream({
      core,
      runId,
      session,
      connected,
      out,
      windowBytes,
      signal,
      onBadBlock,
      onFailure,
    });
    for (const message of others) await proxy.take(message);
    for (;;) {
      const messages = await incoming.take();
      if (messages.length === 0) return await proxy.settled();
      for (const { message } of messages) await proxy.take(message);
    }
  } finally {
    core.activity.proxies.delete(connected);
    session.closed();
  }
}

function remember(runs: Set<string>, runId: string): void {
  runs.add(runId);
  if (runs.size > MOST_WITHOUT_BLOCKS) runs.delete(runs.keys().next().value!);
}
