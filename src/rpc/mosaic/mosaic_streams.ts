/** StreamTelemetry and StreamEvents of `mosaic.v1`. */
import type {
  EventSchema,
  EventsRequest,
  TelemetryBatchSchema,
  TelemetryRequest,
} from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import { TELEMETRY_KINDS, type TelemetryKind } from "../../records/record_fields.ts";
import { isOver, recordChunks, sinceOf } from "../records/cursors.ts";
import { telemetryBatch } from "../records/record_forms.ts";
import type { SharedEncodings } from "../records/shared_encodings.ts";
import { eventMessage } from "../../runs/fields/host_json.ts";
import type { Caller, Outgoing } from "../call/handlers.ts";
import { turn } from "../call/turns.ts";
import { firstOf } from "../../wire/http/waiting.ts";

const EVENTS_A_READ = 256;

function kindOf(text: string): TelemetryKind {
  const kind = TELEMETRY_KINDS.find((k) => k === text);
  if (kind === undefined) {
    throw new MosaicError(
      "invalid_argument",
      `kind is "${text}": give one of ${TELEMETRY_KINDS.join(", ")}`,
    );
  }
  return kind;
}

export async function streamTelemetry(
  core: Core,
  encodings: SharedEncodings,
  request: TelemetryRequest,
  out: Outgoing<typeof TelemetryBatchSchema>,
  caller: Caller,
): Promise<void> {
  const kind = kindOf(request.kind);
  const row = core.runs.resolve(request.run);
  caller.follows(row.runId);
  using run = core.records.follow(row.runId);
  const chunks = recordChunks(core, run, encodings, telemetryBatch(kind), {
    since: sinceOf(request.sinceSeq),
    signal: caller.signal,
    follow: request.follow ? "until_ended" : "to_head",
    limit: request.limit === 0n ? undefined : Number(request.limit),
  });
  for await (const { framed } of chunks) await out.sendFrames(framed);
}

export async function streamEvents(
  core: Core,
  request: EventsRequest,
  out: Outgoing<typeof EventSchema>,
  caller: Caller,
): Promise<void> {
  const { runs } = core;
  const runId = request.run === "" ? undefined : runs.resolve(request.run).runId;
  if (runId !== undefined) caller.follows(runId);
  const filter = { runId, kinds: request.kinds };
  let cursor = request.sinceSeq === 0n && request.tail > 0
    ? runs.seqBeforeNewest(request.tail, filter)
    : sinceOf(request.sinceSeq);
  const closed = core.activity.subscribers.opened(
    "grpc",
    "event_log",
    () => runs.eventHead() - cursor,
  );
  try {
    while (!caller.signal.aborted) {
      const head = runs.eventHead();
      const seen = runs.transitionHead();
      // Read before the events: if the run has ended here, the event of its end is among them.
      const over = runId !== undefined && isOver(core, runId);
      const events = runs.eventsSince(cursor, { ...filter, limit: EVENTS_A_READ });
      if (events.length > 0) {
        for (const event of events) {
          await out.send(eventMessage(event));
          cursor = event.seq;
        }
        await turn();
        continue;
      }
      // There are no more requested events up to here.
      cursor = Math.max(cursor, head);
      if (!request.follow || over) return;
      await firstOf(
        caller.signal,
        (stop) => runs.waitEventsBeyond(head, stop),
        (stop) => runs.waitTransitionsBeyond(seen, stop),
      );
    }
  } finally {
    closed();
  }
}
