/** The record kind for the name in `type`, `event_type` or `event`. */

export type RecordKind = "step" | "episode" | "event" | "chatter";

const EPISODE = new Set(["episode", "episode_done", "episode_end"]);

/** Replies of interactive workers to their GUI: JSON, but not telemetry and not worth storing. */
const CHATTER = new Set([
  "init",
  "ready",
  "reset_ack",
  "agent_ready",
  "agent_initialized",
  "action",
  "action_selected",
  "waiting_for_human",
  "input_cancelled",
  "pong",
  "stopped",
  "error",
]);

/**
 * Event names look like identifiers; any other value under these keys belongs to a program's own
 * JSON.
 */
const EVENT_NAME = /^[a-z][a-z0-9_.:-]{0,63}$/;

/** @param name in lower case. */
export function kindOf(name: string): RecordKind | undefined {
  if (name === "step") return "step";
  if (EPISODE.has(name)) return "episode";
  if (CHATTER.has(name)) return "chatter";
  return EVENT_NAME.test(name) ? "event" : undefined;
}
