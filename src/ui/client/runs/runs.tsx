/** The list of all runs: live, filtered, sorted, with actions on several. */
import type { EventJson, HostJson } from "../../../runs/fields/host_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { ManyActions, RunAgain } from "../parts/actions.tsx";
import {
  answer,
  api,
  columnNames,
  heardTime,
  listRuns,
  live,
  now,
  readColumns,
  readOnly,
  runsByIds,
} from "../parts/api.ts";
import { attempt, notice } from "../parts/dialog.tsx";
import { alertText } from "../parts/events.tsx";
import { figure, plural, whole } from "../parts/format.ts";
import { groupsOf } from "../../../telemetry/series/groups.ts";
import { HostStrip } from "./host_strip.tsx";
import { isTyping } from "../parts/keys.tsx";
import { Island, Later, useRedraw } from "../parts/parts.tsx";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../parts/preact.ts";
import type { ColumnsProps } from "./choose_columns.tsx";
import type { TrashProps } from "./trash.tsx";
import { metricColumn, queryColumn } from "../../../runs/query/query_columns.ts";
import { plainValue, RunsModel } from "./runs_model.ts";
import { type Column, GROUP, RunsTable, type ShownRow, USUAL_COLUMNS } from "./runs_table.ts";
import { RUN_STATES, stateWord } from "../../../runs/fields/lifecycle_states.ts";

const PAGE = 500;
/** Alerts per answer. */
const ALERTS = 1000;
/** Columns offered at once; typing narrows them. */
const OFFERED = 100;

const usual = USUAL_COLUMNS.map(({ name }) => name);

/** `param.lr` → "lr", `metric.loss:min` → "loss min", `metric.loss` → "loss". */
function labelOf(id: string): string {
  const column = queryColumn(id, "param");
  return column.type === "metric" && column.aggregate !== "last" ? `${column.name} ${column.aggregate}` : column.name;
}

/**
 * The columns in the address are parameters and metrics, which stand before the usual columns; or all columns in their
 * order, if the name is one of them.
 */
const isWhole = (columns: readonly string[]) => columns.includes("name");
const isFurther = (id: string) => /^(?:param|metric)\./.test(id);

/** The list as it was left, for those who come back to the same address. */
let left: { address: string; selected: string[]; scrollTop: number } | undefined;

/** The page keeps at most this many runs; the oldest are left out. */
const MOST_RUNS = 20_000;

interface Live {
  loading: boolean;
  host: HostJson | undefined;
  stepsPerSecond: number;
  /** Runs in the trash. */
  trash: number;
  /** Why the runs cannot be read. */
  trouble: string;
}

/** Keeps `model` equal to the daemon's runs, and calls `changed` after each change. @returns ends it */
function follow(model: RunsModel, state: Live, removed: (id: string) => void, changed: () => void): () => void {
  let close = () => {};
  let mounted = true;
  let generation = 0;
  let mismatches = 0;
  const remove = (id: string) => {
    model.remove(id);
    removed(id);
  };
  /** Reads all runs again, page by page; the first page is shown at once. */
  const load = async (): Promise<number | undefined> => {
    const mine = ++generation;
    state.loading = true;
    let token = "";
    let head: number | undefined;
    const seen = new Set<string>();
    do {
      const page = await listRuns({ limit: String(PAGE), ...(token && { token }) });
      if (mine !== generation || !mounted) return;
      head ??= page.head;
      model.put(page.runs);
      for (const run of page.runs) seen.add(run.run_id);
      token = page.next_token ?? "";
      changed();
    } while (token !== "" && seen.size < MOST_RUNS);
    for (const id of model.runs.keys()) if (!seen.has(id)) remove(id);
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
        model.put(data.runs);
        data.deleted.forEach(remove);
        changed();
      },
      alerts: ({ alerts }: { alerts: EventJson[] }) => {
        for (const event of alerts) {
          if (model.alert(event)) notice(`Alert: ${event.run_name}: ${alertText(event.data)}`, "error");
        }
        changed();
      },
      tick: (data: { at: number; runs: RunJson[]; host: HostJson; total: number; trash: number }) => {
        heardTime(data.at);
        model.put(data.runs);
        state.host = data.host;
        state.trash = data.trash;
        state.stepsPerSecond = data.runs.reduce((n, r) => n + r.telemetry.steps_per_second, 0);
        // Another daemon's database, or changes that the page has missed: the total shows it.
        const differs = !state.loading && data.total !== model.runs.size && model.runs.size < MOST_RUNS;
        mismatches = differs ? mismatches + 1 : 0;
        if (mismatches >= 2) {
          mismatches = 0;
          attempt(load);
        }
        changed();
      },
      restarted: () => attempt(load),
    });
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

export function Runs() {
  const redraw = useRedraw();
  const model = useMemo(() => readAddress(new RunsModel()), []);
  const state = useRef<Live>({ loading: true, host: undefined, stepsPerSecond: 0, trash: 0, trouble: "" }).current;
  const search = useRef<HTMLInputElement>(null);
  const [evaluations, setEvaluations] = useState(false);
  const [columns, setColumns] = useState(columnsOfAddress);
  const further = columns.filter(isFurther);
  const [managed, setManaged] = useState(false);
  const [trash, setTrash] = useState(false);
  const [names, setNames] = useState<string[]>([]);
  const [typed, setTyped] = useState("");
  const [groupBy, setGroupBy] = useState(() => new URLSearchParams(location.search).get("group") ?? "");
  const opened = useMemo(() => new Set(new URLSearchParams(location.search).getAll("open")), []);
  /** Parameters and metrics of the conditions: read, and not shown. */
  const named = model.conditions().columns;
  const latest = useRef(columns);
  latest.current = columns;
  const grouping = useRef(groupBy);
  grouping.current = groupBy;

  /** At most once per frame, and not at all while the page is hidden. */
  const draw = useMemo(() => {
    let scheduled = false;
    return () => {
      if (scheduled) return;
      scheduled = true;
      requestAnimationFrame(() => {
        scheduled = false;
        redraw();
      });
    };
  }, []);
  const changed = () => {
    writeAddress(model, latest.current, grouping.current, opened);
    table.element.scrollTop = 0;
    draw();
  };
  const table = useMemo(() =>
    new RunsTable({
      selectable: !readOnly,
      alertOf: (id) => {
        const event = model.alerts.get(id);
        return event && alertText(event.data);
      },
      onselect: redraw,
      onfold(label) {
        opened.has(label) ? opened.delete(label) : opened.add(label);
        writeAddress(model, latest.current, grouping.current, opened);
        redraw();
      },
      onsort(id) {
        if (model.sort === id) model.direction = model.direction === 1 ? -1 : 1;
        else {
          model.sort = id;
          model.direction = ["name", "state", "queue", "note"].includes(id) ? 1 : -1;
        }
        changed();
      },
    }), []);
  const choose = (ids: string[]) => {
    setColumns(ids);
    if (isFurther(model.sort) && !ids.includes(model.sort)) model.sort = "submitted";
    writeAddress(model, ids, groupBy, opened);
  };
  const find = (text: string) => {
    model.filter.text = text;
    changed();
  };

  useEffect(() => {
    document.title = "Runs · mosaic";
    const main = document.getElementById("main")!;
    main.classList.add("fixed");
    const address = listAddress = location.pathname + location.search;
    let place = left?.address === address ? left.scrollTop : 0;
    if (left?.address === address) { for (const id of left.selected) table.selected.add(id); }
    // Outside of the document it has no place any more.
    let scrolled = 0;
    const onScroll = () => void (table.element.isConnected && (scrolled = table.element.scrollTop));
    table.element.addEventListener("scroll", onScroll, { passive: true });
    const stop = follow(model, state, (id) => table.selected.delete(id), () => {
      draw();
      // Rows come page by page.
      const top = place;
      if (top > 0) requestAnimationFrame(() => requestAnimationFrame(() => table.element.scrollTop = top));
      if (!state.loading) place = 0;
    });
    const queue = setInterval(async () => {
      const waiting = table.inSight().filter((r) => r.state === "INIT").map((r) => r.run_id);
      if (waiting.length === 0 || document.hidden) return;
      try {
        model.put(await runsByIds(waiting));
        draw();
      } catch {
        // The page already shows the state of the connection.
      }
    }, 3000);
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "/" && !isTyping(event)) {
        event.preventDefault();
        search.current?.focus();
      } else if (event.key === "Escape" && event.target === search.current) {
        table.element.focus();
        find("");
      }
    };
    addEventListener("mosaic-second", draw);
    addEventListener("resize", draw);
    addEventListener("keydown", onKey);
    return () => {
      left = { address: listAddress, selected: [...table.selected], scrollTop: scrolled };
      stop();
      clearInterval(queue);
      removeEventListener("mosaic-second", draw);
      removeEventListener("resize", draw);
      removeEventListener("keydown", onKey);
      main.classList.remove("fixed");
    };
  }, []);

  useEffect(() =>
    void attempt(async () => {
      const { parameters, metrics } = await columnNames();
      setNames([
        ...parameters.map((name) => `param.${name}`),
        ...metrics.flatMap((name) => ["last", "min", "max"].map((figure) => metricColumn(name, figure))),
      ]);
    }), []);
  useEffect(() => {
    const shown = further.map((id): Column => ({
      name: id,
      label: labelOf(id),
      title: id,
      class: "num",
      value: (run) => plainValue(model.value(id, run)) ?? null,
      text: (run) => {
        const value = plainValue(model.value(id, run));
        return value === undefined ? "" : figure(value);
      },
      figure,
    }));
    table.setColumns(shown, isWhole(columns) ? columns : undefined);
    const read = () =>
      readColumns([...new Set([...further, ...(groupBy.startsWith("param.") ? [groupBy] : []), ...named])]).then(
        (read) => {
          if (latest.current !== columns || grouping.current !== groupBy) return;
          model.setColumns(read);
          draw();
        },
      );
    attempt(read);
    const timer = setInterval(() => {
      // The page already shows the state of the connection.
      if (further.length + named.length > 0 && !document.hidden && model.countByState().has("EXECUTING")) {
        read().catch(() => {});
      }
    }, 5000);
    return () => clearInterval(timer);
  }, [columns, groupBy, named.join("\n")]);

  const at = now();
  const shown = model.shown(at);
  const rows = grouped(model, shown, groupBy, opened);
  useLayoutEffect(() => {
    table.element.hidden = shown.length === 0;
    table.show(rows, model.sort, model.direction, at);
  });
  if (!evaluations && model.hasEvaluations()) setEvaluations(true);
  const { filter } = model;
  const all = model.runs.size;
  const none = all === 0 && !state.loading && !state.trouble;
  const counts = model.countByState();
  const tags = model.tags();
  const chosen = [...table.selected].map((id) => model.runs.get(id)).filter((r) => r !== undefined);
  const { wrong } = model.conditions();
  const misspelt = named.find((id) => id.startsWith("param.") && !names.includes(id));
  const unknown = misspelt !== undefined && shown.length === 0 && names.length > 0
    ? `no run has the parameter "${labelOf(misspelt)}"`
    : "";
  const total = state.trouble || (!state.loading && (wrong || unknown)) ||
    (state.loading
      ? `Loading ${whole(all)} …`
      : (shown.length === all ? plural(all, "run") : `${whole(shown.length)} of ${whole(all)} runs`) +
        (rows.some((r) => r.group !== undefined) ? ", mean ± sd" : ""));
  const toTrash = state.trash > 0 && (
    <button type="button" onClick={() => setTrash(true)}>{`Deleted runs (${whole(state.trash)}) …`}</button>
  );
  return (
    <>
      <h1 class="unseen">Runs</h1>
      <HostStrip
        host={state.host}
        stepsPerSecond={state.stepsPerSecond}
        nameOf={(id) => model.runs.get(id)?.name ?? id}
      />
      <div class="filters" role="search" hidden={none}>
        <input
          type="search"
          placeholder="Name or id"
          aria-label="Filter by name or id"
          ref={search}
          value={filter.text}
          onInput={(e) => find(e.currentTarget.value)}
        />
        <div class="chips" role="group" aria-label="Filter by state">
          {RUN_STATES.filter((s) => counts.has(s) || filter.states.has(s)).map((s) => (
            <button
              key={s}
              type="button"
              class="chip"
              data-state={s}
              aria-pressed={filter.states.has(s) ? "true" : "false"}
              onClick={() => {
                filter.states.has(s) ? filter.states.delete(s) : filter.states.add(s);
                changed();
              }}
            >
              {stateWord(s)}
              <span class="count">{whole(counts.get(s) ?? 0)}</span>
            </button>
          ))}
        </div>
        {tags.length > 0 && (
          <select
            aria-label="Filter by tag"
            value={filter.tag}
            onChange={(e) => {
              filter.tag = e.currentTarget.value;
              changed();
            }}
          >
            <option value="">All tags</option>
            {tags.map((t) => <option key={t} value={t}>{t}</option>)}
          </select>
        )}
        {evaluations && (
          <select
            aria-label="Filter by kind"
            value={filter.kind}
            onChange={(e) => {
              filter.kind = e.currentTarget.value;
              changed();
            }}
          >
            <option value="">Training and evaluations</option>
            <option value="train">Training only</option>
            <option value="eval">Evaluations only</option>
          </select>
        )}
        {names.length > 0 && (
          <>
            <input
              type="search"
              list="columns"
              placeholder="Add a column …"
              aria-label="Add a column"
              value={typed}
              onInput={(e) => {
                const id = e.currentTarget.value;
                if (!names.includes(id)) return setTyped(id);
                setTyped("");
                if (!columns.includes(id)) choose([...columns, id]);
              }}
            />
            <datalist id="columns">
              {names.filter((id) => id.toLowerCase().includes(typed.toLowerCase())).slice(0, OFFERED)
                .map((id) => <option key={id} value={id} />)}
            </datalist>
          </>
        )}
        <select
          aria-label="Group by"
          value={groupBy}
          onChange={(e) => {
            setGroupBy(e.currentTarget.value);
            opened.clear();
            writeAddress(model, columns, e.currentTarget.value, opened);
          }}
        >
          <option value="">No groups</option>
          <option value="name">Group by name without seed</option>
          <option value="tags">Group by tags</option>
          {names.filter((n) => n.startsWith("param.")).map((id) => (
            <option key={id} value={id}>{`Group by ${labelOf(id)}`}</option>
          ))}
        </select>
        {further.map((id) => (
          <button
            key={id}
            type="button"
            class="picked"
            aria-label={`Leave out the column ${labelOf(id)}`}
            onClick={() => choose(columns.filter((c) => c !== id))}
          >
            <span>{labelOf(id)}</span> ×
          </button>
        ))}
        <button type="button" onClick={() => setManaged(true)}>Columns …</button>
        {!none && toTrash}
        {managed && (
          <Later
            view="Columns"
            props={{
              all: [
                ...further.map((name) => ({ name, label: labelOf(name) })),
                ...USUAL_COLUMNS,
              ],
              shown: isWhole(columns) ? columns.filter((c) => c !== "name") : [...further, ...usual],
              change: (ids) => choose(ids === undefined ? further : ["name", ...ids]),
              done: () => setManaged(false),
            } satisfies ColumnsProps}
          />
        )}
        <input
          type="search"
          placeholder="lr>0.01 and env=CartPole-v1"
          aria-label="Conditions on columns"
          value={filter.where}
          onInput={(e) => {
            filter.where = e.currentTarget.value;
            changed();
          }}
        />
        <span class="grow" />
        <span class="total" role="status">{total}</span>
      </div>
      {chosen.length > 0 && (
        <div class="selection">
          <strong role="status">{`${whole(chosen.length)} selected`}</strong>
          <ManyActions runs={chosen} done={redraw} />
          {chosen.length === 1 && <RunAgain key={chosen[0]!.run_id} id={chosen[0]!.run_id} />}
          {chosen.length >= 2 && (
            <a
              class="button"
              href={`/compare?runs=${chosen.map((r) => r.run_id).join(",")}`}
            >
              Compare
            </a>
          )}
          <button
            type="button"
            onClick={() => {
              table.selected.clear();
              redraw();
            }}
          >
            Clear
          </button>
        </div>
      )}
      <Island of={table.element} />
      {trash && <Later view="Trash" props={{ done: () => setTrash(false) } satisfies TrashProps} />}
      {none && <Later view="Start" props={{}} />}
      {none && <p class="empty">{toTrash}</p>}
      {shown.length === 0 && !state.loading && !none && (
        <p class="empty">
          No run passes these filters.
        </p>
      )}
    </>
  );
}

/** The runs under their groups, in the order of each group's first run; only open groups show theirs. */
function grouped(model: RunsModel, runs: RunJson[], by: string, opened: ReadonlySet<string>): ShownRow[] {
  if (by === "") return runs;
  const name = by.startsWith("param.") ? by.slice("param.".length) : undefined;
  const labels = groupsOf(
    runs.map((run) => ({
      ...run,
      parameters: name === undefined ? [] : [{ name, value: model.value(by, run) ?? "–" }],
    })),
    name === undefined ? by : `parameter:${name}`,
  );
  const groups = Map.groupBy(runs, (_, i) => labels[i]!);
  return [...groups].flatMap(([label, members]) => {
    const open = opened.has(label);
    return [{ ...members[0]!, run_id: GROUP + label, group: { label, members, open } }, ...(open ? members : [])];
  });
}

function columnsOfAddress(): string[] {
  const named = [...new Set(new URLSearchParams(location.search).getAll("column"))];
  const known = named.filter((id) => id === "name" || isFurther(id) || usual.includes(id));
  const unknown = named.find((id) => !known.includes(id));
  if (unknown !== undefined) notice(`The list has no column "${unknown}", which the address names.`);
  return known;
}

/** The filters are in the address, so that a view can be kept and shared. */
function readAddress(model: RunsModel): RunsModel {
  const query = new URLSearchParams(location.search);
  const { filter } = model;
  filter.text = query.get("name") ?? "";
  filter.tag = query.get("tag") ?? "";
  filter.where = query.get("where") ?? "";
  const kind = query.get("kind") ?? "";
  filter.kind = kind === "train" || kind === "eval" ? kind : "";
  filter.states = new Set((query.get("state") ?? "").split(",").filter((s) => RUN_STATES.some((k) => k === s)));
  model.sort = query.get("sort") ?? "submitted";
  model.direction = query.get("dir") === "asc" ? 1 : -1;
  return model;
}

function writeAddress(
  { filter, sort, direction }: RunsModel,
  columns: readonly string[],
  group: string,
  opened: ReadonlySet<string>,
): void {
  const query = new URLSearchParams(columns.map((id) => ["column", id]));
  for (const label of opened) query.append("open", label);
  if (group) query.set("group", group);
  if (filter.where) query.set("where", filter.where);
  if (filter.text) query.set("name", filter.text);
  if (filter.tag) query.set("tag", filter.tag);
  if (filter.kind) query.set("kind", filter.kind);
  if (filter.states.size > 0) query.set("state", [...filter.states].join(","));
  if (sort !== "submitted" || direction !== -1) {
    query.set("sort", sort);
    query.set("dir", direction === 1 ? "asc" : "desc");
  }
  const search = query.toString();
  listAddress = search ? `/?${search}` : "/";
  history.replaceState(null, "", listAddress);
}
/** When the list is left, the address is already that of the next view. */
let listAddress = "";
