/** Names that some dialect gives a meaning, and a number for each; every other field is a record's further information. */
export const SLOT = {
  type: 0,
  event_type: 1,
  event: 2,
  run_id: 3,
  agent_id: 4,
  worker_id: 5,
  episode: 6,
  episode_index: 7,
  episode_id: 8,
  episode_number: 9,
  step_index: 10,
  step: 11,
  time_step: 12,
  action: 13,
  action_json: 14,
  observation: 15,
  observation_json: 16,
  reward: 17,
  total_reward: 18,
  episode_return: 19,
  episode_reward: 20,
  steps: 21,
  num_steps: 22,
  episode_length: 23,
  episode_steps: 24,
  terminated: 25,
  truncated: 26,
  policy_label: 27,
  backend: 28,
  frame_ref: 29,
  render: 30,
  render_hint: 31,
  render_hint_json: 32,
  render_payload: 33,
  render_payload_json: 34,
  payload_version: 35,
  episode_seed: 36,
  seed: 37,
  ts_unix_ns: 38,
  ts: 39,
  timestamp: 40,
  metadata: 41,
  metadata_json: 42,
  payload: 43,
  r: 44,
  l: 45,
} as const;

export const SLOTS = Object.keys(SLOT).length;

const byName = new Map<string, number>(Object.entries(SLOT));

/** -1 for a name without a meaning. */
export function slotOf(name: string): number {
  return byName.get(name) ?? -1;
}
