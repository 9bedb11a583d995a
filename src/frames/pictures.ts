/**
 * Pictures of an environment: the records of a range with a picture, with their payload as the
 * worker wrote it.
 */
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import type { z } from "zod";
import { type FrameKind, renderPayloadOf } from "../records/render_payload.ts";
import type { StoredEpisode, StoredStep } from "../gen/records/record_types.ts";
import { finiteOrText, parsed } from "../records/json_values.ts";
import type { PageFrame } from "../registry/contract.ts";

type Frame = z.infer<typeof PageFrame>;

/** Records read for one answer. */
const SCAN_RECORDS = 2000;

/**
 * At most `limit` frames after seq `since`, of steps or of episodes. `next` is the seq after which
 * to continue: it advances even when no record of the range has a picture.
 */
export function framesOf(
  core: { records: TelemetryReader },
  runId: string,
  kind: FrameKind,
  since: number,
  limit: number,
) {
  const frames: Frame[] = [];
  let next = since;
  while (frames.length < limit && next - since < SCAN_RECORDS) {
    const records = core.records.read(runId, kind, next, Math.min(256, limit * 4));
    if (records.length === 0) break;
    for (const record of records) {
      next = record.seq;
      const payload = renderPayloadOf(record);
      if (payload === "") continue;
      const { seq, episode } = record;
      frames.push({ seq, episode, ...placeOf(record), payload: parsed(payload) });
      if (frames.length === limit) break;
    }
  }
  return { frames, next, head: core.records.head(runId, kind) };
}

/** Step, reward and action shown with a frame; for an episode, its length and total reward. */
export function placeOf(
  record: StoredStep | StoredEpisode,
): Pick<Frame, "step" | "reward" | "action"> {
  return "step" in record
    ? { step: record.step, reward: finiteOrText(record.reward), action: parsed(record.actionJson) }
    : { step: record.steps, reward: finiteOrText(record.totalReward), action: null };
}
