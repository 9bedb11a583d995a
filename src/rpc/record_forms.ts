/** The forms in which stored records go to subscribers: framed messages, rendered from rows. */
import { create, toBinary } from "@bufbuild/protobuf";
import { RunEpisodeSchema } from "../gen/gymgui/trainer_pb.ts";
import { jsonLines } from "../telemetry/public_json.ts";
import type { StoredEpisode, StoredOf, StoredStep, TelemetryKind } from "../telemetry/types.ts";
import { FrameWriter } from "../wire/frames.ts";
import { episodeMessage } from "./step_records.ts";

export interface Form<K extends TelemetryKind> {
  name: string;
  kind: K;
  render(runId: string, rows: readonly StoredOf[K][]): Uint8Array;
}

const frames = new FrameWriter();

/** `mosaic.v1.TelemetryBatch`: all rows in one message. */
export function telemetryBatch<K extends TelemetryKind>(kind: K): Form<K> {
  return {
    name: "TelemetryBatch",
    kind,
    render: (runId, rows) =>
      frames.written(() => {
        frames.begin();
        frames.text(1, jsonLines(runId, kind, rows));
        frames.uint(2, rows[0]!.seq);
        frames.uint(3, rows[rows.length - 1]!.seq);
        frames.end();
      }),
  };
}

/** The original's RunStep: a message for each row. */
export const RUN_STEPS: Form<"steps"> = {
  name: "RunStep",
  kind: "steps",
  render: (runId, rows) => frames.written(() => rows.forEach((row) => writeStep(runId, row))),
};

function writeStep(runId: string, step: StoredStep): void {
  frames.begin();
  frames.text(1, runId);
  frames.uint(2, step.episode);
  frames.uint(3, step.step);
  frames.text(4, step.actionJson);
  frames.text(5, step.observationJson);
  frames.double(6, step.reward);
  frames.bool(7, step.terminated);
  frames.bool(8, step.truncated);
  frames.timestamp(9, step.tsNs);
  frames.text(10, step.policyLabel);
  frames.text(11, step.backend);
  frames.uint(12, step.seq);
  frames.text(13, step.agentId);
  frames.text(14, step.renderHintJson);
  frames.text(15, step.frameRef);
  frames.uint(16, step.payloadVersion);
  frames.text(17, step.renderPayloadJson);
  frames.uint(18, step.episodeSeed);
  frames.text(19, step.workerId);
  frames.end();
}

/** The original's RunEpisode. There are few, so the library may take its time. */
export const RUN_EPISODES: Form<"episodes"> = {
  name: "RunEpisode",
  kind: "episodes",
  render: (runId, rows: readonly StoredEpisode[]) =>
    frames.written(() => {
      for (const row of rows) {
        frames.message(toBinary(RunEpisodeSchema, create(RunEpisodeSchema, episodeMessage(runId, row))));
      }
    }),
};
