/** Actions on runs from the page; each is one call of the core. */
import type { Core } from "../dispatch/core/core.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { runLine } from "./page_json.ts";

const MANY_LIMIT = 1000;

type Body = Record<string, unknown>;

const ACTIONS: Record<string, (core: Core, runId: string, body: Body) => unknown> = {
  cancel: (core, runId, body) =>
    core.cancel(runId, {
      reason: "user_cancel",
      ...(body.grace_seconds === undefined ? {} : { graceSeconds: amount(body, "grace_seconds") }),
    }),
  pause: (core, runId) => core.pause(runId),
  resume: (core, runId) => core.resume(runId),
  throttle: (core, runId, body) => core.throttle(runId, amount(body, "max_rate_hz")),
  retry: (core, runId) => core.retry(runId),
  reset: (core, runId, body) => core.reset(runId, typeof body.from_checkpoint === "string" ? body.from_checkpoint : ""),
  delete: (core, runId) => core.delete(runId),
};

function amount(body: Body, field: string): number {
  const value = body[field];
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw new MosaicError("invalid_argument", `${field} is ${JSON.stringify(value)}; must be a number, at least 0`);
  }
  return value;
}

function parseBody(text: string): Body {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Body;
  } catch {
    // Said below, with the same words.
  }
  throw new MosaicError("invalid_argument", "the body of the request must be a JSON object");
}

async function apply(core: Core, runId: string, action: string, body: Body, log: Logger): Promise<void> {
  if (!Object.hasOwn(ACTIONS, action)) throw new MosaicError("not_found", `there is no action "${action}"`);
  await ACTIONS[action]!(core, runId, body);
  log.info({ run_id: runId, action }, "action from the page");
}

/** The run's line after the action; null when it is deleted. */
export async function applyToRun(core: Core, runId: string, action: string, bodyText: string, log: Logger) {
  await apply(core, runId, action, parseBody(bodyText), log);
  const row = core.runs.get(runId);
  return { run: row === undefined ? null : runLine(core.detail(row)) };
}

/** `{"action", "run_ids"}`: each run by itself, so that one that cannot does not hold up the others. */
export async function applyToMany(core: Core, bodyText: string, log: Logger) {
  const { action, run_ids: ids, ...rest } = parseBody(bodyText);
  if (typeof action !== "string" || !Array.isArray(ids) || ids.some((id) => typeof id !== "string")) {
    throw new MosaicError("invalid_argument", 'the body must be {"action": text, "run_ids": [text, …]}');
  }
  if (ids.length > MANY_LIMIT) {
    throw new MosaicError("invalid_argument", `${ids.length} runs were named; at most ${MANY_LIMIT} go in one request`);
  }
  const failed: { run_id: string; message: string }[] = [];
  for (const runId of ids as string[]) {
    try {
      await apply(core, runId, action, rest, log);
    } catch (error) {
      if (!(error instanceof MosaicError) || error.code === "internal") throw error;
      failed.push({ run_id: runId, message: messageOf(error) });
    }
  }
  return { done: ids.length - failed.length, failed };
}
