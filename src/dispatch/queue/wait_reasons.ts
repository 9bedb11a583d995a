/**
 * Why a run waits, as text that follows "waits for": in `list`, `show`, on the page and in the API.
 * Pure.
 */
import { type AfterWhen, SWEEP } from "../../config/queue_fields.ts";

export type WaitReason =
  /** @property more further runs that live */
  | { t: "after"; run: { runId: string; name: string }; when: AfterWhen; more: number }
  | { t: "never"; run: { runId: string; name: string; how: string }; when: AfterWhen }
  /** Unix milliseconds. */
  | { t: "begin"; at: number }
  /** @property before how many runs are before it in the queue */
  | { t: "place"; maxRuns: number; before: number }
  | { t: "start" }
  /** More than the host has. */
  | { t: "gpus_of_host"; wanted: number; total: number }
  | { t: "gpus_unknown"; wanted: number }
  /** `--max-gpus-per-user` @property used how many the owner has */
  | {
    t: "limit_of_user";
    wanted: number;
    what?: string;
    owner: string;
    used: number;
    limit: number;
  }
  /** `--max-runs-per-user` */
  | { t: "runs_of_user"; owner: string; limit: number }
  /** `--max-disk-per-user` */
  | { t: "disk_of_user"; how: string }
  /** Nobody knows yet whether the free ones are used by others. */
  | { t: "gpus_asked"; wanted: number; what?: string }
  /**
   * @property behind runs before it want GPUs @property holders who has the others, by run
   * @property used what others than runs use, as text (src/dispatch/gpus/foreign_use.ts)
   */
  | {
    t: "gpus";
    wanted: number;
    /** Of a run that shares cards: what it declares, as text (src/dispatch/gpus/sharing.ts). */
    what?: string;
    free: number;
    behind: number;
    holders: readonly Holder[];
    used: readonly string[];
  };

export interface Holder {
  runId: string;
  name: string;
  /** Cards; of shared ones, parts. */
  gpus: number;
}

/** Runs that a text names; the others are counted. */
const NAMED = 3;

export function waitText(reason: WaitReason): string {
  switch (reason.t) {
    case "after": {
      const further = reason.more === 0 ? "" : ` and ${more(reason.more)}`;
      return `${idText(reason.run)}${further} to end${
        reason.when === "any" ? "" : HOW[reason.when]
      }`;
    }
    case "never":
      return `${idText(reason.run)} to end${
        HOW[reason.when]
      }, but it ${reason.run.how} (dependency never satisfied)`;
    case "begin":
      return `its time to begin, ${new Date(reason.at).toISOString()}`;
    case "place": {
      const behind = reason.before === 0 ? "" : `, behind ${runs(reason.before)}`;
      return `a place among the ${reason.maxRuns} runs that may run at once${behind}`;
    }
    case "start":
      return "its turn to start";
    case "gpus_of_host":
      return `${gpus(reason.wanted)}, and this host has ${reason.total}`;
    case "gpus_unknown":
      return `${gpus(reason.wanted)} (those of this host cannot be entered into the registry yet)`;
    case "limit_of_user":
      return `${reason.what ?? gpus(reason.wanted)} (${reason.owner} has ${
        rounded(reason.used)
      }, and may have ${reason.limit} at a time)`;
    case "runs_of_user":
      return `an end of ${reason.owner}'s runs, of which ${runs(reason.limit)} may run at a time`;
    case "disk_of_user":
      return `room on the disk: ${reason.how}`;
    case "gpus_asked":
      return `${reason.what ?? gpus(reason.wanted)} (the driver is asked whether they are free)`;
    case "gpus": {
      const what = reason.what ?? gpus(reason.wanted);
      if (reason.behind > 0) {
        return `${what} (${runs(reason.behind)} before it ${
          reason.behind === 1 ? "wants" : "want"
        } GPUs too)`;
      }
      const [shown, rest] = [reason.holders.slice(0, NAMED), reason.holders.slice(NAMED)];
      const held = shown.map((holder) => `${rounded(holder.gpus)} with ${named(holder)}`);
      if (rest.length > 0) {
        held.push(
          `${rounded(rest.reduce((n, { gpus }) => n + gpus, 0))} with ${more(rest.length)}`,
        );
      }
      const used = reason.used.slice(0, NAMED);
      if (reason.used.length > NAMED) used.push(`${reason.used.length - NAMED} more in use`);
      return `${what} (${[[`${reason.free} free`, ...held].join(", "), ...used].join("; ")})`;
    }
  }
}

const HOW: Record<AfterWhen, string> = { ok: " well", failed: " without success", any: "" };

/** "run train-a 01BX5ZZKBK", "sweep lr". */
export function idText({ runId, name }: { runId: string; name: string }): string {
  return runId.startsWith(SWEEP)
    ? `sweep ${name || runId.slice(SWEEP.length)}`
    : `run ${named({ runId, name })}`;
}

/** "train-a 01BX5ZZKBK". */
function named({ runId, name }: { runId: string; name: string }): string {
  return name === "" ? runId : `${name} ${runId}`;
}

const rounded = (gpus: number) => Math.round(gpus * 100) / 100;

function runs(count: number): string {
  return count === 1 ? "1 run" : `${count} runs`;
}

function more(count: number): string {
  return count === 1 ? "1 more run" : `${count} more runs`;
}

function gpus(count: number): string {
  return count === 1 ? "1 GPU" : `${count} GPUs`;
}
