// @ts-check
/** Buttons that change runs, for one run and for many. */
import { post, readOnly, runPath } from "./api.js";
import { ask, attempt, notice } from "./dialog.js";
import { h } from "./dom.js";
import { isEnded } from "./states.js";
/** @typedef {import("../page_json.ts").RunLine} RunLine */

/** @typedef {{id: string, label: string, class?: string, can: (run: RunLine) => boolean, ask?: (what: string) => Parameters<typeof ask>[0], body?: (text: string) => Record<string, unknown>}} Action */

/** @param {RunLine} r */
const lives = (r) => !isEnded(r) && !r.cancel_requested;

/** @type {Action[]} */
export const ACTIONS = [
  {
    id: "pause",
    label: "Pause",
    can: (r) => lives(r) && !r.pause_requested && ["READY", "EXECUTING"].includes(r.state),
  },
  { id: "resume", label: "Resume", can: (r) => lives(r) && (r.state === "PAUSED" || r.pause_requested) },
  {
    id: "throttle",
    label: "Throttle",
    can: (r) => lives(r) && ["READY", "EXECUTING", "PAUSED"].includes(r.state),
    ask: (what) => ({
      title: "Limit the rate of steps",
      text: `At most this many steps per second for ${what}; 0 lifts the limit.`,
      confirm: "Set limit",
      field: { label: "Steps per second", value: "0" },
    }),
    body: (text) => ({ max_rate_hz: Number(text) }),
  },
  { id: "retry", label: "Retry", can: isEnded },
  {
    id: "reset",
    label: "Reset",
    can: (r) => lives(r) && r.state !== "INIT",
    ask: (what) => ({
      title: "Start anew?",
      text:
        `The worker of ${what} is stopped and started again, from the checkpoint named here or, without one, from its seed.`,
      confirm: "Start anew",
      danger: true,
      field: { label: "Checkpoint (an artifact's path, or another; may be empty)", value: "" },
    }),
    body: (text) => ({ from_checkpoint: text }),
  },
  {
    id: "cancel",
    label: "Cancel",
    class: "danger",
    can: lives,
    ask: (what) => ({
      title: "Cancel?",
      text: `The worker of ${what} is stopped. What was recorded so far stays.`,
      confirm: "Cancel it",
      danger: true,
    }),
  },
  {
    id: "delete",
    label: "Delete",
    class: "danger",
    can: isEnded,
    ask: (what) => ({
      title: "Delete for good?",
      text: `Telemetry, logs and files of ${what} are removed from this machine.`,
      confirm: "Delete",
      danger: true,
    }),
  },
];

/** Buttons of one run; redrawn when what it allows changes.
 * @param {HTMLElement} root @param {RunLine} run @param {(action: string) => void} done */
export function drawActions(root, run, done) {
  if (readOnly) return;
  const possible = ACTIONS.filter((a) => a.can(run));
  const key = possible.map((a) => a.id).join();
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.replaceChildren(...possible.map((action) =>
    h("button", {
      type: "button",
      class: action.class,
      "data-action": action.id,
      onclick: async () => {
        const text = action.ask ? await ask(action.ask(`"${run.name}"`)) : "";
        if (text === undefined) return;
        await attempt(async () => {
          await post(runPath(run.run_id, `/${action.id}`), action.body?.(text) ?? {});
          done(action.id);
        });
      },
    }, action.label)
  ));
}

const MANY = 1000;

/** @param {string} id @param {RunLine[]} runs */
export async function actOnMany(id, runs) {
  const action = /** @type {Action} */ (ACTIONS.find((a) => a.id === id));
  const possible = runs.filter(action.can);
  if (possible.length === 0) return notice(`None of the ${runs.length} selected runs can take "${action.label}" now.`);
  const what = possible.length === 1 ? `"${possible[0]?.name}"` : `${possible.length} runs`;
  const question = action.ask?.(what) ??
    { title: `${action.label}?`, text: `${action.label}: ${what}.`, confirm: action.label };
  if (await ask(question) === undefined) return;
  await attempt(async () => {
    let done = 0;
    const failed = [];
    for (let i = 0; i < possible.length; i += MANY) {
      const answer = await post("/api/runs/actions", {
        action: id,
        run_ids: possible.slice(i, i + MANY).map((r) => r.run_id),
      });
      done += answer.done;
      failed.push(...answer.failed);
    }
    if (failed.length > 0) notice(`${failed.length} of ${possible.length} failed: ${failed[0].message}`, "error");
    else notice(`${action.label}: ${done} ${done === 1 ? "run" : "runs"}.`);
  });
}
