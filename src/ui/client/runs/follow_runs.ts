/** Keeps a model equal to the daemon's runs: all of them, or those that were chosen. */
import type { EventJson, HostJson } from "../../../runs/fields/host_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { answer, api, comparedRuns, heardTime, listRuns, live, runsByIds } from "../parts/api.ts";
import { attempt, notice } from "../parts/dialog.tsx";
import { alertText } from "../parts/events.tsx";
import { isEnded } from "../parts/states.tsx";
import type { RunsModel } from "./runs_model.ts";

const PAGE = 500;
/** Alerts per answer. */
const ALERTS = 1000;
/** The page keeps at most this many runs; the oldest are left out. */
const MOST_RUNS = 20_000;
/** Bound of the daemon on runs that are asked for by their ids. */
const MOST_BY_ID = 200;

export interface Live {
  loading: boolean;
  host: HostJson | undefined;
  stepsPerSecond: number;
  /** Runs in the trash. */
  trash: number;
  /** Why the runs cannot be read. */
  trouble: string;
}

/** These are not drawn, and change without a new point. */
function withoutRates({ telemetry, ...run }: RunJson): string {
  return JSON.stringify([run, {
    ...telemetry,
    steps_per_second: 0,
    last_output_at: null,
    journal_size: 0,
  }]);
}

export interface Following {
  /** The ids of the chosen runs; undefined: all runs. */
  only: readonly string[] | undefined;
  /** The runs whose changes matter most: those in the charts. */
  drawn(): ReadonlySet<string>;
  removed(id: string): void;
  /** Something is different. */
  changed(): void;
  /**
   * A second has passed; with the runs of which something was recorded or decided since the last.
   */
  ticked(touched: ReadonlySet<string>): void;
}

/** Calls back after each change. @returns ends it */
export function follow(
  model: RunsModel,
  state: Live,
  { only, drawn, removed, changed, ticked }: Following,
): () => void {
  let close = () => {};
  let mounted = true;
  let generation = 0;
  let mismatches = 0;
  const chosen = only === undefined ? undefined : new Set(only);
  let touched = new Set<string>();
  const put = (runs: readonly RunJson[]) => {
    const wanted = chosen === undefined ? runs : runs.filter((r) => chosen.has(r.run_id));
    for (const run of wanted) {
      const before = model.runs.get(run.run_id);
      if (before === undefined || withoutRates(before) !== withoutRates(run)) {
        touched.add(run.run_id);
      }
    }
    model.put(wanted);
  };
  const remove = (id: string) => {
    model.remove(id);
    removed(id);
  };
  /** Reads all runs again, page by page; the first page is shown at once. */
  const loadAll = async (mine: number): Promise<number | undefined> => {
    let token = "";
    let head: number | undefined;
    const seen = new Set<string>();
    do {
      const page = await listRuns({ limit: String(PAGE), ...(token && { token }) });
      if (mine !== generation || !mounted) return;
      head ??= page.head;
      put(page.runs);
      for (const run of page.runs) seen.add(run.run_id);
      token = page.next_token ?? "";
      changed();
    } while (token !== "" && seen.size < MOST_RUNS);
    for (const id of model.runs.keys()) if (!seen.has(id)) remove(id);
    return head;
  };
  const loadChosen = async (mine: number, ids: readonly string[]): Promise<number | undefined> => {
    const compared = ids.length === 0 ? [] : comparedRuns([...ids]);
    // Read first, so that changes during the reading are sent again.
    const [{ head }, runs] = await Promise.all([listRuns({ limit: "1" }), compared]);
    if (mine !== generation || !mounted) return;
    model.keepParameters(runs);
    put(runs);
    const there = new Set(runs.map((r) => r.run_id));
    for (const id of model.runs.keys()) if (!there.has(id)) remove(id);
    return head;
  };
  const load = async (): Promise<number | undefined> => {
    const mine = ++generation;
    state.loading = true;
    const head = only === undefined ? await loadAll(mine) : await loadChosen(mine, only);
    if (mine !== generation || !mounted) return;
    state.loading = false;
    state.trouble = "";
    changed();
    for (let since = 0, more = true; more && mine === generation;) {
      const query = { kinds: "alert", since: String(since), limit: String(ALERTS) };
      const { events } = await answer(api.events.$get({ query }));
      for (const event of events as EventJson[]) model.alert(event);
      since = events.at(-1)?.seq ?? since;
      more = events.length === ALERTS;
    }
    changed();
    return head;
  };
  const begin = async () => {
    // From before the list was read, so that changes during the reading are sent again.
    const head = await load();
    if (!mounted || head === undefined) return;
    close = live("/api/live", head, {
      runs: (data: { runs: RunJson[]; deleted: string[] }) => {
        put(data.runs);
        data.deleted.forEach(remove);
        changed();
      },
      alerts: ({ alerts }: { alerts: EventJson[] }) => {
        for (const event of alerts) {
          if (model.alert(event)) {
            notice(`Alert: ${event.run_name}: ${alertText(event.data)}`, "error");
          }
        }
        changed();
      },
      tick: (
        data: { at: number; runs: RunJson[]; host: HostJson; total: number; trash: number },
      ) => {
        heardTime(data.at);
        put(data.runs);
        state.host = data.host;
        state.trash = data.trash;
        state.stepsPerSecond = data.runs.reduce((n, r) => n + r.telemetry.steps_per_second, 0);
        readUnsent(new Set(data.runs.map((r) => r.run_id)));
        // Another daemon's database, or changes that the page has missed: the total shows it.
        const known = model.runs.size;
        const differs = only === undefined && !state.loading && data.total !== known &&
          known < MOST_RUNS;
        mismatches = differs ? mismatches + 1 : 0;
        if (mismatches >= 2) {
          mismatches = 0;
          attempt(load);
        }
        const since = touched;
        touched = new Set();
        ticked(since);
        changed();
      },
      restarted: () => attempt(load),
    });
  };
  let reading = false;
  /** A tick has a bound on its runs: those in the charts that it leaves out are asked for. */
  const readUnsent = async (sent: ReadonlySet<string>) => {
    const missing = [...drawn()].filter((id) => {
      const run = model.runs.get(id);
      return run !== undefined && run.started_at !== null && !isEnded(run) && !sent.has(id);
    });
    if (missing.length === 0 || reading) return;
    reading = true;
    try {
      put(await runsByIds(missing.slice(0, MOST_BY_ID)));
    } catch {
      // The page already shows the state of the connection.
    } finally {
      reading = false;
    }
  };
  const start = () =>
    begin().catch((error) => {
      if (!mounted) return;
      // An empty table would be misleading: show why there is none.
      state.trouble = `The runs cannot be read, trying again: ${error.message}`;
      changed();
      setTimeout(() => mounted && start(), 2000);
    });
  start();
  return () => {
    mounted = false;
    close();
  };
}
