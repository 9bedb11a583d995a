/** Buttons that change runs, for one run and for many. */
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { answer, api, keepsDeleted, param, readOnly, runApi } from "./api.ts";
import { ask, attempt, notice, type Question } from "./dialog.tsx";
import { plural } from "./format.ts";
import { Later } from "./parts.tsx";
import { useState } from "./preact.ts";
import { isEnded } from "./states.tsx";

interface Action {
  id: string;
  label: string;
  class?: string;
  can(run: RunJson): boolean;
  ask?(what: string): Question;
  body?(text: string): Record<string, unknown>;
}

export const deleteForGood = (what: string): Question => ({
  title: "Delete for good?",
  text: `Telemetry, logs and files of ${what} are removed from this machine.`,
  confirm: "Delete",
  danger: true,
});

/** Offers to bring back what was just deleted. */
function deleted(what: string, run_ids: string[]): void {
  const restore = () =>
    attempt(async () => {
      await actOn("restore", run_ids);
      notice(`Restored ${what}.`);
    });
  notice(`Deleted ${what}.`, "info", keepsDeleted ? restore : undefined);
}

/** Each run by itself. @throws Refused with the first reason if no run could be changed */
export async function actOn(
  action: string,
  run_ids: string[],
  more: Record<string, unknown> = {},
): Promise<string[]> {
  const { done, failed } = await answer(
    api.runs.actions.$post({ json: { action, run_ids, ...more } }),
  );
  if (failed.length > 0) {
    notice(`${failed.length} of ${done + failed.length} failed: ${failed[0]?.message}`, "error");
  }
  return run_ids.filter((id) => failed.every((one) => one.run_id !== id));
}

const lives = (r: RunJson) => !isEnded(r) && !r.cancel_requested;

const ACTIONS: Action[] = [
  {
    id: "pause",
    label: "Pause",
    can: (r) => lives(r) && !r.pause_requested && ["READY", "EXECUTING"].includes(r.state),
  },
  {
    id: "resume",
    label: "Resume",
    can: (r) => lives(r) && (r.state === "PAUSED" || r.pause_requested),
  },
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
        `The worker of ${what} is stopped and started again, from the checkpoint named here or, without one, from the beginning.`,
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
    // From the trash it can be had back.
    ...keepsDeleted ? {} : { ask: deleteForGood },
  },
];

/** A checkpoint belongs to one run. */
const FOR_MANY = ACTIONS.filter(({ id }) => id !== "reset");

/** Submits another run with changes. */
export function RunAgain({ id }: { id: string }) {
  const [opened, setOpened] = useState(false);
  const props = { id, done: () => setOpened(false) } satisfies { id: string; done(): void };
  return (
    <>
      <button type="button" data-action="again" onClick={() => setOpened(true)}>Run again …</button>
      {opened && <Later view="Again" props={props} />}
    </>
  );
}

/** Buttons for what the run's state allows. */
export function Actions({ run, done }: { run: RunJson; done(action: string): void }) {
  const take = async ({ id, ask: question, body }: Action) => {
    const text = question ? await ask(question(`"${run.name}"`)) : "";
    if (text === undefined) return;
    await attempt(async () => {
      const { id: runId } = param(run.run_id).param;
      await answer(
        runApi[":action"].$post({ param: { id: runId, action: id }, json: body?.(text) ?? {} }),
      );
      if (id === "delete") deleted(`"${run.name}"`, [run.run_id]);
      done(id);
    });
  };
  return (
    <div class="actions">
      {!readOnly && <RunAgain id={run.run_id} />}
      {!readOnly &&
        ACTIONS.filter((a) => a.can(run)).map((a) => (
          <button
            key={a.id}
            type="button"
            class={a.class}
            data-action={a.id}
            onClick={() => take(a)}
          >
            {a.label}
          </button>
        ))}
    </div>
  );
}

/** Buttons for what the states of some of many runs allow, beside their other actions. */
export function ManyActions({ runs, done }: { runs: RunJson[]; done(): void }) {
  return FOR_MANY.filter((a) => runs.some(a.can)).map((a) => (
    <button
      key={a.id}
      type="button"
      class={a.class}
      data-action={a.id}
      onClick={() => attempt(() => actOnMany(a, runs)).then(done)}
    >
      {a.label}
    </button>
  ));
}

/** Bound on runs per request. */
const MANY = 1000;

async function actOnMany(action: Action, runs: RunJson[]): Promise<void> {
  const possible = runs.filter(action.can);
  if (possible.length === 0) {
    return notice(`None of the ${runs.length} selected runs can take "${action.label}" now.`);
  }
  const what = possible.length === 1 ? `"${possible[0]?.name}"` : `${possible.length} runs`;
  const isUndoable = action.id === "delete" && keepsDeleted;
  const question = action.ask?.(what) ??
    { title: `${action.label}?`, text: `${action.label}: ${what}.`, confirm: action.label };
  const text = isUndoable ? "" : await ask(question);
  if (text === undefined) return;
  const done: string[] = [];
  for (let i = 0; i < possible.length; i += MANY) {
    const run_ids = possible.slice(i, i + MANY).map((r) => r.run_id);
    done.push(...await actOn(action.id, run_ids, action.body?.(text)));
  }
  if (done.length === 0) return;
  if (action.id === "delete") deleted(done.length === 1 ? what : plural(done.length, "run"), done);
  else notice(`${action.label}: ${plural(done.length, "run")}.`);
}
