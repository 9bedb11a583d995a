// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.

import { numberOnWire } from "./step_columns.ts";
import type { EpisodeRecord, StepRecord, WorkerEventRecord } from "./record_types.ts";

/**
 * Names that some dialect gives a meaning, and a number for each; every other field is a record's
 * further information.
 */
export const SLOT = {
  type: 0,
  event_type: 1,
  event: 2,
  run_id: 3,
  episode_id: 4,
  episode_number: 5,
  ts_unix_ns: 6,
  ts: 7,
  timestamp: 8,
  metadata: 9,
  metadata_json: 10,
  payload: 11,
  episode_index: 12,
  episode: 13,
  step_index: 14,
  step: 15,
  time_step: 16,
  action: 17,
  action_json: 18,
  observation: 19,
  observation_json: 20,
  reward: 21,
  terminated: 22,
  truncated: 23,
  agent_id: 24,
  worker_id: 25,
  policy_label: 26,
  backend: 27,
  render_hint: 28,
  render: 29,
  render_hint_json: 30,
  render_payload: 31,
  render_payload_json: 32,
  frame_ref: 33,
  payload_version: 34,
  episode_seed: 35,
  seed: 36,
  total_reward: 37,
  episode_return: 38,
  episode_reward: 39,
  r: 40,
  steps: 41,
  num_steps: 42,
  episode_length: 43,
  episode_steps: 44,
  l: 45,
} as const;

/** What a proxy knows better than the worker's lines. */
export interface LineContext {
  /** For records that name no agent. */
  agentId: string;
  /** Wins over what a record says; "" lets the record speak. */
  workerId: string;
}

/**
 * Takes values from the fields of a line; what is taken is not among the record's further fields.
 */
export interface FieldTaker<F> {
  episode(fields: F, metadata: unknown): number | undefined;
  index(fields: F, slots: readonly number[]): number | undefined | "absent";
  number(fields: F, slots: readonly number[], absent: number): number | undefined;
  flag(fields: F, slot: number): boolean;
  label(fields: F, slot: number): string;
  time(fields: F): string;
  json(fields: F, encoded: number, plain: readonly number[]): string;
  payload(fields: F): string;
}

const STEP_STEP_INDEX = [SLOT.step_index, SLOT.step, SLOT.time_step];
const STEP_ACTION = [SLOT.action];
const STEP_OBSERVATION = [SLOT.observation];
const STEP_REWARD = [SLOT.reward];
const STEP_RENDER_HINT = [SLOT.render_hint, SLOT.render];
const STEP_PAYLOAD_VERSION = [SLOT.payload_version];
const STEP_EPISODE_SEED = [SLOT.episode_seed, SLOT.seed];

/** Without the record's further fields, or why the line is malformed. */
export function stepOfLine<F>(fields: F, take: FieldTaker<F>, own: LineContext, metadata: unknown): StepRecord | string {
  const episode = take.episode(fields, metadata);
  if (episode === undefined) return "episode is no number";
  const step = take.index(fields, STEP_STEP_INDEX);
  if (step === undefined) return "step_index is no number";
  const reward = take.number(fields, STEP_REWARD, 0);
  if (reward === undefined) return "reward is no number";
  const agentId = take.label(fields, SLOT.agent_id);
  const workerId = take.label(fields, SLOT.worker_id);
  const payloadVersion = take.index(fields, STEP_PAYLOAD_VERSION);
  const episodeSeed = take.index(fields, STEP_EPISODE_SEED);
  return {
    episode,
    step: step === "absent" ? 0 : step,
    actionJson: take.json(fields, SLOT.action_json, STEP_ACTION),
    observationJson: take.json(fields, SLOT.observation_json, STEP_OBSERVATION),
    reward,
    terminated: take.flag(fields, SLOT.terminated),
    truncated: take.flag(fields, SLOT.truncated),
    tsNs: take.time(fields),
    agentId: agentId === "" ? own.agentId : agentId,
    workerId: own.workerId === "" ? workerId : own.workerId,
    policyLabel: take.label(fields, SLOT.policy_label),
    backend: take.label(fields, SLOT.backend),
    renderHintJson: take.json(fields, SLOT.render_hint_json, STEP_RENDER_HINT),
    renderPayloadJson: take.payload(fields),
    frameRef: take.label(fields, SLOT.frame_ref),
    payloadVersion: typeof payloadVersion === "number" ? payloadVersion : 0,
    episodeSeed: typeof episodeSeed === "number" ? episodeSeed : 0,
    infoJson: "",
  };
}

const EPISODE_TOTAL_REWARD = [SLOT.total_reward, SLOT.reward, SLOT.episode_return, SLOT.episode_reward, SLOT.r];
const EPISODE_STEPS = [SLOT.steps, SLOT.num_steps, SLOT.episode_length, SLOT.episode_steps, SLOT.l];

/** Without the record's further fields, or why the line is malformed. */
export function episodeOfLine<F>(fields: F, take: FieldTaker<F>, own: LineContext, metadata: unknown): EpisodeRecord | string {
  const episode = take.episode(fields, metadata);
  if (episode === undefined) return "episode is no number";
  const totalReward = take.number(fields, EPISODE_TOTAL_REWARD, NaN);
  if (totalReward === undefined) return "total_reward is no number";
  const steps = take.index(fields, EPISODE_STEPS);
  if (steps === undefined) return "steps is no number";
  const agentId = take.label(fields, SLOT.agent_id);
  const workerId = take.label(fields, SLOT.worker_id);
  return {
    episode,
    totalReward: numberOnWire(totalReward),
    steps: steps === "absent" ? 0 : steps,
    terminated: take.flag(fields, SLOT.terminated),
    truncated: take.flag(fields, SLOT.truncated),
    tsNs: take.time(fields),
    agentId: agentId === "" ? own.agentId : agentId,
    workerId: own.workerId === "" ? workerId : own.workerId,
    metadataJson: "",
  };
}


/** Without the record's further fields. */
export function workerEventOfLine<F>(fields: F, take: FieldTaker<F>, name: string): WorkerEventRecord {
  return {
    kind: name,
    tsNs: take.time(fields),
    dataJson: "",
  };
}
