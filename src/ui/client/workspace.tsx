/**
 * The one place for runs: the list on the left, the charts of what is drawn on the right, one
 * filter above both.
 */
import "./parts/common.ts";
import { RUN_STATES, stateWord } from "../../runs/fields/lifecycle_states.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { metricColumn, queryColumn } from "../../runs/query/query_columns.ts";
import { groupsOf } from "../../telemetry/series/groups.ts";
import type { ChartRun } from "./charts/charts.tsx";
import { ManyActions, RunAgain } from "./parts/actions.tsx";
import { columnNames, comparedRuns, now, readColumns, readOnly, runsByIds } from "./parts/api.ts";
import { colorsOfGroups, colorsOfRuns } from "./parts/colors.ts";
import { attempt } from "./parts/dialog.tsx";
import { go } from "./parts/dom.ts";
import { isCrowd, MOST_RUNS } from "./parts/early.ts";
import { alertText } from "./parts/events.tsx";
import { figure, plural, whole } from "./parts/format.ts";
import { isTyping } from "./parts/keys.tsx";
import { Island, Later, lazily, useRedraw, WhenSeen } from "./parts/parts.tsx";
import {
  type ComponentChildren,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "./parts/preact.ts";
import type { DifferencesProps } from "./run/config_diff.tsx";
import type { ComparedRun } from "../api/page_json.ts";
import type { ColumnsProps } from "./runs/choose_columns.tsx";
import type { TrashProps } from "./runs/trash.tsx";
import { drawnOf, toggledEyes } from "./runs/eyes.ts";
import { FilterBox, isCondition } from "./runs/filter_box.tsx";
import { follow, type Live } from "./runs/follow_runs.ts";
import { HostStrip } from "./runs/host_strip.tsx";
import {
  isFurther,
  isWhole,
  type ListAddress,
  type Pane,
  PANES,
  readAddress,
  writeAddress,
} from "./runs/list_address.ts";
import { RunPicker } from "./runs/run_picker.tsx";
import { plainValue, RunsModel } from "./runs/runs_model.ts";
import { type Column, GROUP, RunsTable, type ShownRow, USUAL_COLUMNS } from "./runs/runs_table.ts";
import { Splitter } from "./runs/splitter.tsx";

const Charts = lazily(
  async () => (await import("./charts/charts.tsx")).Charts,
  <p class="empty awaited">Loading …</p>,
);
const ParametersAndResults = lazily(async () => (await import("./insight/insight.tsx")).Insight);

const usual = USUAL_COLUMNS.map(({ name }) => name);
/** Interval, in ticks, at which charts are read again if one of their runs has changed. */
const TICKS = 3;
const PANE_WORDS: Record<Pane, string> = { list: "List", both: "Both", charts: "Charts" };

/** `param.lr` → "lr", `metric.loss:min` → "loss min", `metric.loss` → "loss". */
function labelOf(id: string): string {
  const column = queryColumn(id, "param");
  return column.type === "metric" && column.aggregate !== "last"
    ? `${column.name} ${column.aggregate}`
    : column.name;
}

/** The list as it was left, for those who come back to it. */
let left: { key: string; selected: string[]; scrollTop: number } | undefined;

const keyOf = (model: RunsModel, { eyes: _, pane: __, ...list }: ListAddress) =>
  JSON.stringify([
    { ...list, opened: [...list.opened] },
    { ...model.filter, states: [...model.filter.states] },
    ...[model.sort, model.direction],
  ]);

/** If names are equal, the id distinguishes the runs. */
function namesOf(runs: readonly RunJson[]): Map<string, string> {
  const seen = Map.groupBy(runs, ({ name }) => name);
  return new Map(
    runs.map((
      { run_id, name },
    ) => [run_id, seen.get(name)!.length === 1 ? name : `${name} (${run_id.slice(-6)})`]),
  );
}

export function Workspace() {
  const redraw = useRedraw();
  const [model, first] = useMemo(() => {
    const made = new RunsModel();
    return [made, readAddress(made)] as const;
  }, []);
  const state =
    useRef<Live>({ loading: true, host: undefined, stepsPerSecond: 0, trash: 0, trouble: "" })
      .current;
  const search = useRef<HTMLInputElement>(null);
  const [evaluations, setEvaluations] = useState(false);
  const [managed, setManaged] = useState(false);
  const [trash, setTrash] = useState(false);
  const [names, setNames] = useState<string[]>([]);
  const [changes, setChanges] = useState(0);
  /** What the person has typed, until it is the filter of the address. */
  const [typed, setTyped] = useState(() => textOf(model));
  const [list, setList] = useState(first);
  const latest = useRef(list);
  const { only, columns, groupBy, opened, eyes, pane } = latest.current = list;
  const further = columns.filter(isFurther);
  /** Parameters and metrics of the conditions: read, and not shown. */
  const named = model.conditions().columns;
  const drawnNow = useRef<ReadonlySet<string>>(new Set());

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
  const change = (part: Partial<ListAddress>) => {
    const next = { ...latest.current, ...part };
    latest.current = next;
    setList(next);
    writeAddress(model, next);
  };
  const changed = () => {
    writeAddress(model, latest.current);
    table.element.scrollTop = 0;
    draw();
  };
  const colors = useRef<ReadonlyMap<string, string>>(new Map());
  const table = useMemo(() =>
    new RunsTable({
      selectable: !readOnly,
      alertOf: (id) => {
        const event = model.alerts.get(id);
        return event && alertText(event.data);
      },
      onselect: redraw,
      eyeOf: (id) => ({ shown: drawnNow.current.has(id), color: colors.current.get(id) ?? "" }),
      oneye(ids, shown) {
        const { eyes } = latest.current;
        change({
          eyes: ids === undefined
            ? { base: shown ? "all" : "none", on: new Set(), off: new Set() }
            : toggledEyes(eyes, ids, shown),
        });
      },
      onfold(label) {
        const next = new Set(latest.current.opened);
        if (!next.delete(label)) next.add(label);
        change({ opened: next });
      },
      onwidths: (widths) => change({ widths }),
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
    if (isFurther(model.sort) && !ids.includes(model.sort)) model.sort = "submitted";
    change({ columns: ids });
  };
  const find = (text: string) => {
    setTyped(text);
    [model.filter.text, model.filter.where] = isCondition(text) ? ["", text] : [text, ""];
    changed();
  };

  useEffect(() => {
    const main = document.getElementById("main")!;
    main.classList.add("fixed");
    const key = keyOf(model, latest.current);
    let place = left?.key === key ? left.scrollTop : 0;
    if (left?.key === key) { for (const id of left.selected) table.selected.add(id); }
    // Outside of the document it has no place any more.
    let scrolled = 0;
    const onScroll = () => void (table.element.isConnected && (scrolled = table.element.scrollTop));
    table.element.addEventListener("scroll", onScroll, { passive: true });
    let touched = new Set<string>();
    let ticks = 0;
    const stop = follow(model, state, {
      only: only?.slice(0, MOST_RUNS),
      drawn: () => drawnNow.current,
      removed: (id) => table.selected.delete(id),
      changed() {
        draw();
        // Rows come page by page.
        const top = place;
        if (top > 0) {
          requestAnimationFrame(() => requestAnimationFrame(() => table.element.scrollTop = top));
        }
        if (!state.loading) place = 0;
      },
      ticked(since) {
        touched = touched.union(since);
        if (++ticks % TICKS !== 0) return;
        if ([...touched].some((id) => drawnNow.current.has(id))) setChanges((n) => n + 1);
        touched = new Set();
      },
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
      } else if (
        event.key === "Escape" && event.target === search.current && !event.defaultPrevented
      ) {
        table.element.focus();
        find("");
      }
    };
    // Rows depend on the room that the list has.
    const room = new ResizeObserver(draw);
    room.observe(table.element);
    addEventListener("mosaic-second", draw);
    addEventListener("keydown", onKey);
    return () => {
      left = {
        key: keyOf(model, latest.current),
        selected: [...table.selected],
        scrollTop: scrolled,
      };
      stop();
      clearInterval(queue);
      room.disconnect();
      removeEventListener("mosaic-second", draw);
      removeEventListener("keydown", onKey);
      main.classList.remove("fixed");
    };
  }, []);

  useEffect(() =>
    void attempt(async () => {
      const { parameters, metrics } = await columnNames();
      setNames([
        ...parameters.map((name) => `param.${name}`),
        ...metrics.flatMap((name) =>
          ["last", "min", "max"].map((figure) => metricColumn(name, figure))
        ),
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
    table.setWidths(latest.current.widths);
    const read = () =>
      readColumns([
        ...new Set([...further, ...(groupBy.startsWith("param.") ? [groupBy] : []), ...named]),
      ]).then(
        (read) => {
          if (latest.current.columns !== columns || latest.current.groupBy !== groupBy) return;
          model.setColumns(read);
          draw();
        },
      );
    attempt(read);
    const timer = setInterval(() => {
      // The page already shows the state of the connection.
      if (
        further.length + named.length > 0 && !document.hidden &&
        model.countByState().has("EXECUTING")
      ) {
        read().catch(() => {});
      }
    }, 5000);
    return () => clearInterval(timer);
  }, [columns, groupBy, named.join("\n")]);

  const at = now();
  const shown = model.shown(at);
  const groups = labelsOf(model, shown, groupBy);
  const rows = grouped(shown, groups, opened);
  const byRow = rows.filter((row) => row.group !== undefined || groups.length === 0)
    .map((row) => (row.group?.members ?? [row]).map((r) => r.run_id));
  // Which runs are drawn follows the list's order only when what the list shows is another.
  const drawnKey = JSON.stringify([
    ...[
      eyes.base,
      [...eyes.on],
      [...eyes.off],
      shown.length,
      groupBy,
      groups.length,
      state.loading,
    ],
    ...[
      model.sort,
      model.direction,
      model.filter.text,
      model.filter.where,
      model.filter.tag,
      model.filter.kind,
    ],
    [...model.filter.states],
  ]);
  const drawn = useMemo(() => {
    const ids = drawnOf(byRow, eyes, MOST_RUNS);
    if (only === undefined) return ids.sort();
    const there = new Set(ids);
    return only.filter((id) => there.has(id));
  }, [drawnKey]);
  drawnNow.current = useMemo(() => new Set(drawn), [drawn]);
  const label = new Map(shown.map((r, i) => [r.run_id, groups[i]]));
  const drawnRuns = drawn.flatMap((id) => model.runs.get(id) ?? []);
  const charted = useCharted(drawnRuns, label, groups);
  colors.current = new Map(charted.map((r) => [r.run_id, r.color]));
  useLayoutEffect(() => {
    table.element.hidden = shown.length === 0;
    table.show(rows, model.sort, model.direction, at);
  });
  useEffect(() => {
    if (groupBy !== "parameters") return;
    const unknown = shown.filter((r) => !model.parameters.has(r.run_id)).map((r) => r.run_id).slice(
      0,
      MOST_RUNS,
    );
    if (unknown.length === 0) return;
    attempt(async () => {
      model.keepParameters(await comparedRuns(unknown));
      draw();
    });
  }, [groupBy, shown.length]);
  useEffect(
    () => void (document.title = only === undefined ? "Runs · mosaic" : "Compare · mosaic"),
    [],
  );
  if (!evaluations && model.hasEvaluations()) setEvaluations(true);
  const { filter } = model;
  const all = model.runs.size;
  const none = all === 0 && !state.loading && !state.trouble && only === undefined;
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
      : (shown.length === all
        ? plural(all, "run")
        : `${whole(shown.length)} of ${whole(all)} runs`) +
        (groups.length > 0 ? ", mean ± sd" : ""));
  const parameters = names.filter((n) => n.startsWith("param."));
  const gone = only === undefined || state.loading ? 0 : Math.min(only.length, MOST_RUNS) - all;
  const pick = (ids: string[]) => {
    change({
      only: ids.length > 0 ? ids : undefined,
      eyes: { base: "all", on: new Set(), off: new Set() },
    });
    go(location.pathname + location.search);
  };
  const toTrash = state.trash > 0 && (
    <button type="button" onClick={() => setTrash(true)}>
      {`Deleted runs (${whole(state.trash)}) …`}
    </button>
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
        <FilterBox
          text={typed}
          names={offeredNames(names)}
          wrong={wrong}
          input={search}
          change={find}
        />
        <div class="narrowing">
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
            <Choice
              label="Filter by tag"
              value={filter.tag}
              change={(tag) => {
                filter.tag = tag;
                changed();
              }}
              of={[["", "All tags"], ...tags.map((t) => [t, t] as const)]}
            />
          )}
          {evaluations && (
            <Choice
              label="Filter by kind"
              value={filter.kind}
              change={(kind) => {
                filter.kind = kind;
                changed();
              }}
              of={[["", "Training and evaluations"], ["train", "Training only"], [
                "eval",
                "Evaluations only",
              ]]}
            />
          )}
          <Choice
            label="Group by"
            value={groupBy}
            change={(by) => change({ groupBy: by, opened: new Set() })}
            of={[
              ["", "No groups"],
              ["name", "By name without seed"],
              ["parameters", "By all parameters but the seed"],
              ["tags", "By tags"],
              ...[...new Set([...parameters, ...(groupBy.startsWith("param.") ? [groupBy] : [])])]
                .map((id) => [id, `By ${labelOf(id)}`] as const),
            ]}
          />
          {only !== undefined && (
            <>
              <button
                type="button"
                class="picked"
                aria-label={`${plural(only.length, "chosen run")} ×: show all runs again`}
                onClick={() => pick([])}
              >
                <span>{`${plural(only.length, "chosen run")}`}</span> ×
              </button>
              {only.length < MOST_RUNS && (
                <RunPicker
                  label="Add a run"
                  without={only}
                  onpick={(run) => pick([...only, run.run_id])}
                />
              )}
            </>
          )}
          {toTrash}
        </div>
        <span class="total" role="status">{total}</span>
        {pane !== "list" && !state.loading && (
          <span class="total" title="The runs whose eye is open">
            {`${whole(drawn.length)} drawn`}
          </span>
        )}
        <button type="button" onClick={() => setManaged(true)}>Columns …</button>
        <div class="segments" role="group" aria-label="What is shown">
          {PANES.map((one) => (
            <button
              key={one}
              type="button"
              data-pane={one}
              aria-pressed={one === pane ? "true" : "false"}
              onClick={() => change({ pane: one })}
            >
              {PANE_WORDS[one]}
            </button>
          ))}
        </div>
        {managed && (
          <Later
            view="Columns"
            props={{
              all: [...new Set([...further, ...names])].map((name) => ({
                name,
                label: labelOf(name),
                title: name,
              })),
              usual: USUAL_COLUMNS,
              shown: isWhole(columns)
                ? columns.filter((c) => c !== "name")
                : [...further, ...usual],
              change: (ids) => choose(ids === undefined ? [] : ["name", ...ids]),
              done: () => setManaged(false),
            } satisfies ColumnsProps}
          />
        )}
      </div>
      {only !== undefined && only.length > MOST_RUNS && (
        <p class="said" role="status">
          {`The first ${MOST_RUNS} of ${only.length} runs are compared.`}
        </p>
      )}
      {gone > 0 && <p class="said" role="status">{`${plural(gone, "run")} no longer there.`}</p>}
      {chosen.length > 0 && (
        <div class="selection">
          <strong role="status">{`${whole(chosen.length)} selected`}</strong>
          <ManyActions runs={chosen} done={redraw} />
          {chosen.length === 1 && <RunAgain key={chosen[0]!.run_id} id={chosen[0]!.run_id} />}
          {chosen.length >= 2 && (
            <a
              class="button"
              href={`/?runs=${chosen.map((r) => r.run_id).join(",")}`}
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
      <div class="workspace" data-pane={pane} hidden={none}>
        <div class="pane runs-pane" hidden={pane === "charts"}>
          <Island of={table.element} />
          {shown.length === 0 && !state.loading && !none && (
            <p class="empty">No run passes these filters.</p>
          )}
        </div>
        {pane === "both" && <Splitter />}
        {pane !== "list" && (
          <div class="pane charts-pane" tabIndex={-1}>
            {drawn.length > 0
              ? (
                <Drawn
                  model={model}
                  runs={drawnRuns}
                  charted={charted}
                  changes={changes}
                  groups={drawn.map((id) => label.get(id) ?? "")}
                  grouped={groups.length > 0}
                />
              )
              : !state.loading && (
                <p class="empty">Nothing is drawn: open the eye of a run in the list.</p>
              )}
          </div>
        )}
      </div>
      {trash && <Later view="Trash" props={{ done: () => setTrash(false) } satisfies TrashProps} />}
      {none && <Later view="Start" props={{}} />}
      {none && <p class="empty">{toTrash}</p>}
    </>
  );
}

/** The text of the box for the filter of an address, which may have both a name and conditions. */
function textOf({ filter }: RunsModel): string {
  if (filter.text === "" || filter.where === "") return filter.text || filter.where;
  filter.where = `name ~ ${JSON.stringify(filter.text)} and (${filter.where})`;
  filter.text = "";
  return filter.where;
}

const OWN_COLUMNS = [
  "state",
  "name",
  "tags",
  "reward",
  "steps",
  "elapsed",
  "submitted",
  "note",
  "attempt",
  "rate",
];

/** What the filter's words may be: columns of the run, parameters by their names alone, metrics. */
function offeredNames(names: readonly string[]): string[] {
  const own = new Set(OWN_COLUMNS);
  return [
    ...OWN_COLUMNS,
    ...names.map((id) => id.startsWith("param.") && !own.has(id.slice(6)) ? id.slice(6) : id),
  ];
}

interface ChoiceProps {
  label: string;
  value: string;
  of: readonly (readonly [value: string, text: string])[];
  change(value: string): void;
}

function Choice({ label, value, of, change }: ChoiceProps) {
  return (
    <select aria-label={label} value={value} onChange={(e) => change(e.currentTarget.value)}>
      {of.map(([one, text]) => <option key={one} value={one}>{text}</option>)}
    </select>
  );
}

/** The runs as charts take them; the same array as long as nothing of it has changed. */
function useCharted(
  runs: RunJson[],
  label: ReadonlyMap<string, string | undefined>,
  groups: readonly string[],
): ChartRun[] {
  const before = useRef<{ key: string; charted: ChartRun[] }>({ key: "", charted: [] });
  const key = JSON.stringify(
    runs.map((r) => [r.run_id, r.name, r.started_at, label.get(r.run_id)]),
  );
  if (before.current.key === key) return before.current.charted;
  const names = namesOf(runs);
  const own = groups.length > 0 ? undefined : colorsOfRuns(runs);
  const places = colorsOfGroups(groups);
  const charted = runs.map((r): ChartRun => {
    const group = label.get(r.run_id);
    return {
      ...{ run_id: r.run_id, name: names.get(r.run_id)!, started_at: r.started_at },
      color: own?.get(r.run_id) ?? places.get(group ?? "") ?? "var(--muted)",
      ...(group === undefined ? {} : { group }),
    };
  });
  before.current = { key, charted };
  return charted;
}

interface DrawnProps {
  model: RunsModel;
  runs: RunJson[];
  charted: ChartRun[];
  changes: number;
  groups: string[];
  grouped: boolean;
}

/** The charts, and below them what several runs can be compared by. */
function Drawn({ model, runs, charted, changes, groups, grouped }: DrawnProps): ComponentChildren {
  return (
    <>
      <Charts runs={charted} changes={changes} />
      {runs.length > 1 && (
        <WhenSeen
          of={() => (
            <Insight
              model={model}
              charted={charted}
              runs={runs}
              groups={grouped ? groups : []}
              changes={changes}
            />
          )}
        />
      )}
    </>
  );
}

/** What the runs' parameters have to do with their results. */
function Insight(
  { model, charted, runs, groups, changes }: Omit<DrawnProps, "grouped">,
) {
  const redraw = useRedraw();
  const unknown = runs.filter((r) => !model.parameters.has(r.run_id)).map((r) => r.run_id);
  useEffect(() => {
    if (unknown.length === 0) return;
    attempt(async () => {
      model.keepParameters(await comparedRuns(unknown));
      redraw();
    });
  }, [unknown.join()]);
  const compared = useMemo(
    () =>
      charted.map(({ run_id, name, color }, i): ComparedRun & { color: string } => ({
        ...runs[i]!,
        ...{ name, color, parameters: model.parameters.get(run_id) ?? [] },
      })),
    [charted, unknown.length],
  );
  if (unknown.length > 0) return <p class="empty insight">Loading …</p>;
  return (
    <div class="insight">
      <h2>Parameters and results</h2>
      <ParametersAndResults runs={compared} groups={groups} changes={changes} />
      {!isCrowd(runs) && (
        <>
          <h2>Where the configs differ</h2>
          <WhenSeen
            of={() => (
              <Later
                view="ConfigDifferences"
                props={{ runs: compared } satisfies DifferencesProps}
              />
            )}
          />
        </>
      )}
    </div>
  );
}

/** The label of each run's group; empty without groups. */
function labelsOf(model: RunsModel, runs: RunJson[], by: string): string[] {
  if (by === "") return [];
  const name = by.startsWith("param.") ? by.slice("param.".length) : undefined;
  return groupsOf(
    runs.map((run) => ({
      ...run,
      parameters: name === undefined
        ? model.parameters.get(run.run_id) ?? []
        : [{ name, value: model.value(by, run) ?? "–" }],
    })),
    name === undefined ? by : `parameter:${name}`,
  );
}

/**
 * The runs under their groups, in the order of each group's first run; only open groups show
 * theirs.
 */
function grouped(
  runs: RunJson[],
  labels: readonly string[],
  opened: ReadonlySet<string>,
): ShownRow[] {
  if (labels.length === 0) return runs;
  const groups = Map.groupBy(runs, (_, i) => labels[i]!);
  return [...groups].flatMap(([label, members]) => {
    const open = opened.has(label);
    return [
      { ...members[0]!, run_id: GROUP + label, group: { label, members, open } },
      ...(open ? members : []),
    ];
  });
}
