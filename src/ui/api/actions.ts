/** Actions on runs from the page; each is one call of the core. */
import { isPlainObject } from "../../base/text/exact_numbers.ts";
import { parsedJson } from "../../base/text/json_text.ts";
import { presentConfig } from "../../config/present_config.ts";
import type { Core, Edit, SweepJson } from "../../dispatch/core/core.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { notOwn } from "../../wire/tokens.ts";
import type { Logger } from "../../base/log.ts";
import type { Identity } from "../http/viewer.ts";
import { runDetailJson, runJson } from "../../runs/fields/run_json.ts";
import { type Changes, repeatedConfig } from "../../runs/repeated_config.ts";

const MANY_LIMIT = 1000;

type Body = Record<string, unknown>;

const ACTIONS: Record<string, (core: Core, runId: string, body: Body, actor: Actor) => unknown> = {
  again,
  cancel: (core, runId, body) =>
    core.cancel(runId, {
      reason: "user_cancel",
      ...(body.grace_seconds === undefined ? {} : { graceSeconds: amount(body, "grace_seconds") }),
    }),
  pause: (core, runId) => core.pause(runId),
  resume: (core, runId) => core.resume(runId),
  throttle: (core, runId, body) => core.throttle(runId, amount(body, "max_rate_hz")),
  retry: (core, runId) => core.retry(runId),
  reset: (core, runId, body) =>
    core.reset(runId, typeof body.from_checkpoint === "string" ? body.from_checkpoint : ""),
  edit: (core, runId, body) => core.edit(runId, editOf(body)),
  delete: (core, runId, body) => core.delete(runId, body.forever === true),
  restore: (core, runId) => core.restore(runId),
};

/**
 * Submits another run like this one: `{"name"?, "tags"?, "set"?: {PARAMETER: text}}`. Its code is
 * what is there now.
 * @throws MosaicError as `submit`; `permission_denied` for a config with secrets, unless the role
 * is admin: another command line could print them
 */
function again(
  core: Core,
  runId: string,
  body: Body,
  { identity, submitter }: Actor,
): { runId: string } {
  const row = core.runs.require(runId);
  if (!identity.admin && presentConfig(row.configJson, false).hidden > 0) {
    const message =
      `the config has secrets, which ${identity.name} may not use in another run: that needs the role admin`;
    throw new MosaicError("permission_denied", message);
  }
  const { name, tags, set = {}, ...others } = body;
  const text = (v: unknown) => typeof v === "string";
  const [unknown] = Object.keys(others);
  const isRight = unknown === undefined && (name === undefined || text(name)) &&
    (tags === undefined || Array.isArray(tags) && tags.every(text)) && isPlainObject(set) &&
    Object.values(set).every(text);
  if (!isRight) {
    const rule = "another run has name, a text, tags, a list of texts, and set, an object of texts";
    throw new MosaicError(
      "invalid_argument",
      `${unknown === undefined ? "" : `${unknown} is unknown; `}${rule}`,
    );
  }
  const known = runDetailJson(core.whole(row)).parameters.map((parameter) => parameter.name);
  const changes = { name, tags, set: Object.entries(set) } as Changes;
  return core.submit(repeatedConfig(row.configJson, runId, changes, known), undefined, submitter);
}

/** @throws MosaicError `invalid_argument` for an unknown field, or one of another type */
function editOf(body: Body): Edit {
  const text = (v: unknown) => typeof v === "string";
  const texts = (v: unknown) => Array.isArray(v) && v.every(text);
  const fields: Record<string, (v: unknown) => boolean> = {
    name: text,
    notes: text,
    add_tags: texts,
    remove_tags: texts,
  };
  for (const [field, value] of Object.entries(body)) {
    if (Object.hasOwn(fields, field) && fields[field]!(value)) continue;
    const rule =
      "an edit has name and notes, which are texts, and add_tags and remove_tags, which are lists of texts";
    throw new MosaicError(
      "invalid_argument",
      `${field} is ${JSON.stringify(value)?.slice(0, 200)}; ${rule}`,
    );
  }
  const { name, notes, add_tags: addTags = [], remove_tags: removeTags = [] } = body as Record<
    string,
    never
  >;
  return { name, notes, addTags, removeTags };
}

function amount(body: Body, field: string): number {
  const value = body[field];
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw new MosaicError(
      "invalid_argument",
      `${field} is ${JSON.stringify(value)}; must be a number, at least 0`,
    );
  }
  return value;
}

function parseBody(text: string): Body {
  if (text.trim() === "") return {};
  try {
    const value: unknown = parsedJson(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Body;
  } catch {
    // The error below covers this.
  }
  throw new MosaicError("invalid_argument", "the body of the request must be a JSON object");
}

/** The person who acts. */
export interface Actor {
  identity: Identity;
  /** Whose a run is that this person submits: a token's name, or uid:N; "" if neither is known. */
  submitter: string;
  log: Logger;
  /** Writes to the audit log. */
  entered: (what: { action: string; run: string; outcome: string; message?: string }) => void;
}

/**
 * @throws MosaicError `permission_denied` for a token that may change only what it has submitted
 */
function requireOwn(
  { identity, submitter }: Actor,
  what: "run" | "sweep",
  ownerOf: () => string,
): void {
  if (!identity.own) return;
  const owner = ownerOf();
  if (owner !== submitter) throw notOwn(identity.name, what, owner);
}

async function apply(
  core: Core,
  runId: string,
  action: string,
  body: Body,
  actor: Actor,
): Promise<unknown> {
  if (!Object.hasOwn(ACTIONS, action)) {
    throw new MosaicError("not_found", `there is no action "${action}"`);
  }
  const entry = { action: `page/${action}`, run: runId };
  let result: unknown;
  try {
    const { admin, own = false } = actor.identity;
    if (["delete", "restore"].includes(action) && !admin && !own) {
      throw new MosaicError(
        "permission_denied",
        `${actor.identity.name} may not ${action} runs: that needs the role admin, or a token for one's own runs (--own)`,
      );
    }
    // Running another's run again makes a run of one's own.
    if (action !== "again") {
      requireOwn(actor, "run", () => (core.runs.known(runId) ?? core.runs.require(runId)).owner);
    }
    result = await ACTIONS[action]!(core, runId, body, actor);
  } catch (error) {
    const outcome = error instanceof MosaicError ? error.code : "internal";
    actor.entered({ ...entry, outcome, message: messageOf(error) });
    throw error;
  }
  actor.entered({ ...entry, outcome: "ok" });
  actor.log.info({ run_id: runId, action }, "action from the page");
  return result;
}

/**
 * The run's line after the action, that of the new run if it was to run again; null if it was
 * deleted.
 */
export async function applyToRun(
  core: Core,
  runId: string,
  action: string,
  bodyText: string,
  actor: Actor,
) {
  const made = await apply(core, runId, action, parseBody(bodyText), actor);
  const row = core.runs.get(action === "again" ? (made as { runId: string }).runId : runId);
  return { run: row === undefined ? null : runJson(core.detail(row)) };
}

/**
 * `{"action", "run_ids"}`: each run by itself, so that a refused run does not affect the others.
 */
export async function applyToMany(core: Core, bodyText: string, actor: Actor) {
  const { action, run_ids: ids, ...rest } = parseBody(bodyText);
  if (
    typeof action !== "string" || !Array.isArray(ids) || ids.some((id) => typeof id !== "string")
  ) {
    throw new MosaicError(
      "invalid_argument",
      'the body must be {"action": text, "run_ids": [text, …]}',
    );
  }
  if (ids.length > MANY_LIMIT) {
    throw new MosaicError(
      "invalid_argument",
      `${ids.length} runs were named; at most ${MANY_LIMIT} go in one request`,
    );
  }
  const failed: { run_id: string; message: string }[] = [];
  for (const runId of ids as string[]) {
    try {
      await apply(core, runId, action, rest, actor);
    } catch (error) {
      if (!(error instanceof MosaicError) || error.code === "internal") throw error;
      failed.push({ run_id: runId, message: messageOf(error) });
    }
  }
  return { done: ids.length - failed.length, failed };
}

/**
 * @param bodyText of `extend`, `{"seeds", "winner"}`: further seeds for all points, or for the best
 * one
 * @throws MosaicError as the core does; both outcomes are in the audit log
 */
export async function changeSweep(
  core: Core,
  sweep: string,
  action: string,
  bodyText: string,
  actor: Actor,
): Promise<SweepJson> {
  const entry = { action: `page/sweep_${action}`, run: sweep };
  try {
    requireOwn(actor, "sweep", () => core.ownerOfSweep(sweep));
    const { seeds, winner } = action === "extend" ? parseBody(bodyText) : {};
    const changed = action === "extend"
      ? await core.moreSeeds(sweep, String(seeds ?? ""), winner === true)
      : await core.changeSweep(sweep, action, "");
    actor.entered({ ...entry, outcome: "ok" });
    return changed;
  } catch (error) {
    actor.entered({
      ...entry,
      outcome: error instanceof MosaicError ? error.code : "internal",
      message: messageOf(error),
    });
    throw error;
  }
}
