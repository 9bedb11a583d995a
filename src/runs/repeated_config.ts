/** The config of another run like one that there is. Pure. */
import { MosaicError } from "../base/errors.ts";
import { type JsonObject, type JsonValue, writeJson } from "../config/lossless_json.ts";
import { configObject, moveConfig, objectIn, setParameters } from "./moved_config.ts";

export interface Changes {
  /** Undefined: that of the run. */
  name?: string | undefined;
  /** Undefined: those of the run. */
  tags?: readonly string[] | undefined;
  /** Parameters and their new values, as a command line has them. */
  set?: readonly [name: string, value: string][] | undefined;
}

/**
 * A config to submit, with the code that is there now.
 * @param known names of the run's parameters, for the message about an unknown one
 * @throws MosaicError `invalid_argument` for a parameter that the run does not have
 */
export function repeatedConfig(
  configJson: string,
  runId: string,
  { name, tags, set = [] }: Changes,
  known: readonly string[],
): string {
  const config = configObject(configJson);
  setParameters(config, set, known);
  renew(config, runId, name);
  if (tags !== undefined) objectIn(config, "metadata").set("tags", [...tags] satisfies JsonValue[]);
  leaveCopy(config);
  return writeJson(config, { nonFinite: "bare" });
}

/** Renews everything by which a config belongs to one run. */
export function renew(config: JsonObject, runId: string, name: string | undefined): void {
  const metadata = objectIn(config, "metadata");
  const submission = objectIn(metadata, "submission");
  submission.set("nonce", crypto.randomUUID());
  submission.set("rerun_of", runId);
  const own = objectIn(metadata, "worker").get("config");
  if (own instanceof Map) own.delete("run_id");
  // Its predecessors have ended, or are gone.
  const queue = metadata.get("queue");
  if (queue instanceof Map) queue.delete("after");
  if (name !== undefined) config.set("run_name", name);
  leaveSweep(metadata, submission);
}

/**
 * What is run again is no trial: its sweep neither counts nor controls it. Its environment stays,
 * for its program.
 */
function leaveSweep(metadata: JsonObject, submission: JsonObject): void {
  const sweep = submission.get("sweep");
  if (typeof sweep !== "string") return;
  submission.delete("sweep");
  submission.delete("trial");
  submission.set("by", "mosaic rerun");
  const tags = metadata.get("tags");
  if (Array.isArray(tags)) metadata.set("tags", tags.filter((tag) => tag !== `sweep:${sweep}`));
  const parameters = metadata.get("parameters");
  if (parameters instanceof Map && parameters.get("sweep") === sweep) parameters.delete("sweep");
}

/** The copy of the code that the run had, and what it is a copy of. */
export function copiedOf(config: JsonObject): { from?: string; to?: string } {
  const copied = objectIn(objectIn(config, "metadata"), "submission").get("copied");
  const [from, to] = copied instanceof Map ? [copied.get("from"), copied.get("to")] : [];
  return typeof from === "string" && typeof to === "string" ? { from, to } : {};
}

/**
 * The run may have had a copy of its own, which goes with it: the config names what was copied
 * again.
 */
export function leaveCopy(config: JsonObject): void {
  const { from, to } = copiedOf(config);
  if (from === undefined || to === undefined) return;
  objectIn(objectIn(config, "metadata"), "submission").delete("copied");
  moveConfig(config, to, from, () => true);
}

/** `name=value`, one a line. */
export function parameterLines(parameters: readonly { name: string; value: unknown }[]): string {
  return parameters.map(({ name, value }) => {
    const text = typeof value === "string" && !value.includes("\n") ? value : JSON.stringify(value);
    return `${name}=${text}`;
  }).join("\n");
}

/**
 * What differs from `before` in lines that a person has edited. @throws MosaicError
 * `invalid_argument` with the line
 */
export function changedLines(before: string, after: string): Record<string, string> {
  const known = parsed(before);
  const now = parsed(after);
  const removed = [...known.keys()].find((name) => !now.has(name));
  if (removed !== undefined) {
    throw new MosaicError(
      "invalid_argument",
      `the line of ${removed} is missing: parameters are changed, not removed`,
    );
  }
  return Object.fromEntries([...now].filter(([name, value]) => known.get(name) !== value));
}

function parsed(text: string): Map<string, string> {
  const values = new Map<string, string>();
  for (const line of text.split("\n").map((line) => line.trim()).filter((line) => line !== "")) {
    const at = line.indexOf("=");
    if (at < 1) {
      throw new MosaicError("invalid_argument", `"${line.slice(0, 80)}" is not NAME=VALUE`);
    }
    values.set(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  return values;
}
