/** An episode line of any dialect (episode, episode_done, episode_end) as an EpisodeRecord. */
import type { EpisodeRecord } from "../batch.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import {
  type LineContext,
  parsedMetadata,
  takeEpisode,
  takeFlag,
  takeIndex,
  takeLabel,
  takeNumber,
  takeTime,
} from "./step.ts";
import { withoutNonFinite } from "./tolerant.ts";

/** Last Gymnasium's names for both, which a worker passes on as its wrapper gives them. */
const TOTAL_REWARD = [SLOT.total_reward, SLOT.reward, SLOT.episode_return, SLOT.episode_reward, SLOT.r];
const STEPS = [SLOT.steps, SLOT.num_steps, SLOT.episode_length, SLOT.episode_steps, SLOT.l];

/** Non-finite numbers travel as text: JSON has none. */
export function numberOnWire(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

/** The worker's metadata object verbatim with the record's further fields folded in; metadata wins. */
function takeMetadata(fields: Fields, metadata: Record<string, unknown> | undefined, slot: number): string {
  if (metadata === undefined) return `{${fields.leftovers()}}`;
  fields.take(slot);
  const value = fields.value(slot);
  const text = typeof value === "string" ? withoutNonFinite(value).trim() : fields.text(slot);
  const leftovers = fields.leftovers(metadata);
  if (leftovers === "") return text;
  return Object.keys(metadata).length === 0
    ? `{${leftovers}}`
    : `${text.slice(0, text.lastIndexOf("}"))},${leftovers}}`;
}

/** @returns The record, or why the line is malformed. */
export function readEpisode(fields: Fields, context: LineContext): EpisodeRecord | string {
  fields.take(SLOT.run_id);
  const encoded = parsedMetadata(fields.value(SLOT.metadata_json));
  const metadata = encoded ?? parsedMetadata(fields.value(SLOT.metadata));
  const episode = takeEpisode(fields, metadata);
  if (episode === undefined) return "episode is no number";
  const totalReward = takeNumber(fields, TOTAL_REWARD);
  if (totalReward === undefined) return "total_reward is no number";
  const steps = takeIndex(fields, STEPS);
  if (steps === undefined) return "steps is no number";
  const agentId = takeLabel(fields, SLOT.agent_id);
  const workerId = takeLabel(fields, SLOT.worker_id);
  const terminated = takeFlag(fields, SLOT.terminated);
  const truncated = takeFlag(fields, SLOT.truncated);
  const tsNs = takeTime(fields);
  return {
    episode,
    totalReward: numberOnWire(totalReward),
    steps: steps === "absent" ? 0 : steps,
    terminated,
    truncated,
    metadataJson: takeMetadata(fields, metadata, encoded === undefined ? SLOT.metadata : SLOT.metadata_json),
    tsNs,
    agentId: agentId === "" ? context.agentId : agentId,
    workerId: context.workerId === "" ? workerId : context.workerId,
  };
}
