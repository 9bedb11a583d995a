/** The encodings of stored records for subscribers: framed messages, made from rows. */
import { writeEpisode, writeStep } from "../../gen/records/run_frames.ts";
import { jsonLines } from "../../records/public_json.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import type { StoredOf } from "../../records/stored.ts";
import { FrameWriter } from "../../wire/message_frames.ts";

export interface Form<K extends TelemetryKind> {
  name: string;
  kind: K;
  encode(runId: string, rows: readonly StoredOf[K][]): Uint8Array;
}

const frames = new FrameWriter();

/** `mosaic.v1.TelemetryBatch`: all rows in one message. */
export function telemetryBatch<K extends TelemetryKind>(kind: K): Form<K> {
  return {
    name: "TelemetryBatch",
    kind,
    encode: (runId, rows) =>
      frames.written(() => {
        frames.begin();
        frames.text(1, jsonLines(runId, kind, rows));
        frames.uint(2, rows[0]!.seq);
        frames.uint(3, rows[rows.length - 1]!.seq);
        frames.end();
      }),
  };
}

/** The original's RunStep: one message per row. */
export const RUN_STEPS: Form<"steps"> = {
  name: "RunStep",
  kind: "steps",
  encode: (runId, rows) =>
    frames.written(() => rows.forEach((row) => writeStep(frames, runId, row))),
};

/** The original's RunEpisode. */
export const RUN_EPISODES: Form<"episodes"> = {
  name: "RunEpisode",
  kind: "episodes",
  encode: (runId, rows) =>
    frames.written(() => rows.forEach((row) => writeEpisode(frames, runId, row))),
};
