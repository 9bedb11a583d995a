/**
 * Parameters against results of any runs: a scatter, parallel coordinates in which ranges choose
 * runs, the best so far, and which parameters matter; with the table behind it.
 */
import "../parts/common.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { metricColumn, queryColumn } from "../../../runs/query/query_columns.ts";
import { isSeed } from "../../../telemetry/series/groups.ts";
import { natural } from "../../../base/text/natural_order.ts";
import { columnNames, readColumns } from "../parts/api.ts";
import { colorsOfGroups, colorsOfRuns } from "../parts/colors.ts";
import { ask, attempt } from "../parts/dialog.tsx";
import { go, toAddress } from "../parts/dom.ts";
import { figure, plural, whole } from "../parts/format.ts";
import { ScrollTable } from "../parts/parts.tsx";
import { useEffect, useState } from "../parts/preact.ts";
import { plainValue } from "../runs/runs_model.ts";
import { BestSoFar } from "./best_so_far.tsx";
import { ImportanceOf } from "./importance.tsx";
import { Parallel } from "./parallel.tsx";
import { Points, ShadeLegend } from "./points.tsx";
import {
  isWithin,
  type Range,
  rangeOf,
  rangesFrom,
  rangesText,
  rangeText,
  type Scale,
  scaleOf,
  shadeAt,
} from "./scales.ts";

export interface InsightRun {
  run_id: string;
  name: string;
  parameters: readonly { name: string; value: unknown }[];
  /** RFC 3339. */
  started_at: string | null;
  finished_at: string | null;
  /** Of its line in charts. */
  color?: string;
  /** Of a run of a list. */
  telemetry?: Pick<RunJson["telemetry"], "objective" | "mean_reward_100" | "reported_reward">;
}

export interface InsightProps {
  runs: InsightRun[];
  /** Of each run, or none: shown by colour. */
  groups: string[];
  /** What is shown first, as `metric.reward`. */
  result?: string;
  /**
   * Which results are better, if that is known: then the best so far and the importance are shown
   * elsewhere.
   */
  goal?: "max" | "min";
  /** Another value when results have changed, which are then read again. */
  changes: number | string;
}

const KINDS = {
  points: "Scatter",
  lines: "Parallel coordinates",
  best: "Best so far",
  importance: "Importance of parameters",
} as const;
type Kind = keyof typeof KINDS;

/** Axes of the parallel coordinates besides the result. */
const MOST_AXES = 10;
/** Marks that a drawing has at most. */
const MOST_DRAWN = 2000;
/** Runs that a comparison takes in its address. */
const MOST_COMPARED = 1000;

/** Colours by run, or by group. */
const BY_RUN = "";

const label = (id: string) => {
  const column = queryColumn(id, "param");
  if (column.type !== "metric" || column.aggregate === "last") return column.name;
  return `${column.name}, ${column.aggregate === "min" ? "lowest" : "highest"}`;
};

/** The metric that the first run with one shows as its reward. */
function rewardIn(runs: readonly InsightRun[]): string {
  for (const { telemetry } of runs) {
    if (telemetry?.objective) return telemetry.objective.name;
    if (telemetry?.mean_reward_100 === null && telemetry.reported_reward) {
      return telemetry.reported_reward.name;
    }
  }
  return "episode_reward";
}

export function Insight({ runs, groups, result, goal, changes }: InsightProps) {
  const query = new URLSearchParams(location.search);
  const values = runs.map((r) =>
    new Map(r.parameters.map(({ name, value }) => [`param.${name}`, plainValue(value)]))
  );
  const differing = [...new Set(values.flatMap((v) => [...v.keys()]))].sort(natural)
    .filter((id) => new Set(values.map((v) => v.get(id))).size > 1);
  const kinds = (Object.keys(KINDS) as Kind[]).filter((one) =>
    goal === undefined || one === "points" || one === "lines"
  );
  const [kind, setKind] = useState(kinds.find((one) => one === query.get("plot")) ?? "points");
  const [x, setX] = useState(query.get("px") ?? "");
  const [chosenY, setY] = useState(query.get("py") ?? "");
  const [chosenShade, setShade] = useState(query.get("pc"));
  const [better, setBetter] = useState(query.get("better") ?? "");
  const [ranges, setRanges] = useState(() => rangesFrom(query.get("ranges") ?? ""));
  const [metrics, setMetrics] = useState<string[]>([]);
  const [read, setRead] = useState<Record<string, Record<string, unknown>>>({});
  const y = chosenY || result || `metric.${rewardIn(runs)}`;
  const shade = chosenShade ?? (goal === undefined ? BY_RUN : y);
  const chosenX = x || differing[0] || y;
  useEffect(() => void attempt(async () => setMetrics((await columnNames()).metrics)), []);
  const ids = [...new Set([chosenX, y, shade])].filter((id) =>
    id !== BY_RUN && !id.startsWith("param.")
  ).join("\n");
  useEffect(() => {
    let current = true;
    attempt(async () => {
      const columns = await readColumns(ids.split("\n").filter((id) => id !== ""));
      if (current) setRead(Object.fromEntries(columns.map(({ id, values }) => [id, values])));
    });
    return () => current = false;
  }, [ids, changes]);
  const of = (id: string, i: number) =>
    id.startsWith("param.") ? values[i]!.get(id) : plainValue(read[id]?.[runs[i]!.run_id]);
  const isRead = ids.split("\n").every((id) => id === "" || id in read);

  // A seed is not chosen, so it is no axis; it can be one of the scatter.
  const axes = kind === "lines"
    ? [...differing.filter((id) => !isSeed(label(id))).slice(0, MOST_AXES), y]
    : kind === "points"
    ? [chosenX, y]
    : [y];
  const known = runs.map((_, i) => i).filter((i) => axes.every((id) => of(id, i) !== undefined));
  const scales = new Map<string, Scale>();
  const scale = (id: string) => {
    const found = scales.get(id) ?? scaleOf(known.flatMap((i) => of(id, i) ?? []));
    scales.set(id, found);
    return found;
  };
  const places = colorsOfGroups(groups);
  const own = colorsOfRuns(runs);
  const color = (i: number) => {
    if (shade === BY_RUN) {
      return groups.length === 0
        ? runs[i]!.color ?? own.get(runs[i]!.run_id)!
        : places.get(groups[i]!)!;
    }
    const value = of(shade, i);
    return value === undefined ? "var(--muted)" : shadeAt(scale(shade).at(value));
  };
  const inRanges = [...ranges].filter(([id]) => kind === "lines" && axes.includes(id));
  const isChosen = (i: number) => inRanges.every(([id, range]) => isWithin(range, of(id, i)!));
  const chosen = known.filter(isChosen);
  const drawn = known.slice(0, MOST_DRAWN);
  const titleOf = (i: number) =>
    `${runs[i]!.name}: ${axes.map((id) => `${label(id)} ${figure(of(id, i)!)}`).join(", ")}`;
  const open = (i: number) => () => go(`/runs/${encodeURIComponent(runs[i]!.run_id)}`);
  const choose =
    (set: (v: string) => void, name: string) => (e: { currentTarget: HTMLSelectElement }) => {
      set(e.currentTarget.value);
      toAddress({ [name]: e.currentTarget.value });
    };
  const chooseRange = (id: string, range: Range | undefined) => {
    const next = new Map([...ranges].filter(([one]) => one !== id));
    if (range !== undefined) next.set(id, range);
    setRanges(next);
    toAddress({ ranges: rangesText(next) });
  };

  /** The same by keys. */
  const askRange = async (select: HTMLSelectElement) => {
    const id = select.value;
    select.value = "";
    const isNumeric = known.every((i) => typeof of(id, i) === "number");
    const text = await ask({
      title: `Range of ${label(id)}`,
      text: isNumeric
        ? "The lowest and the highest value, with a space between; nothing for any."
        : "Values, with commas between.",
      confirm: "Choose",
      field: {
        label: "Range",
        value: ranges.has(id) ? rangeText(ranges.get(id)!).replace(" to ", " ") : "",
      },
    });
    if (text === undefined) return;
    chooseRange(id, text.trim() === "" ? undefined : rangeOf(text, isNumeric));
  };

  const results = metrics.flatMap((m) =>
    ["last", "min", "max"].map((figure) => metricColumn(m, figure))
  );
  const options = (of: readonly string[]) =>
    of.map((id) => <option key={id} value={id}>{label(id)}</option>);
  const columns = (given: string) => (
    <>
      <optgroup label="Parameters">{options(differing)}</optgroup>
      <optgroup label="Metrics">
        {options([...new Set([...given.startsWith("metric.") ? [given] : [], ...results])])}
      </optgroup>
    </>
  );
  const goalNow = goal ??
    (better === "min" || (better === "" && y.endsWith(":min")) ? "min" : "max");
  const missing = runs.length - known.length;
  const hints = [
    missing > 0 && isRead && kind !== "importance" &&
    `${plural(missing, "run")} without a value not shown`,
    kind === "lines" && differing.length > MOST_AXES &&
    `the first ${MOST_AXES} of ${differing.length} parameters`,
    drawn.length < known.length && kind !== "best" && kind !== "importance" &&
    `${whole(drawn.length)} of ${plural(known.length, "run")} drawn`,
    kind === "lines" && inRanges.length === 0 && "drag along an axis to choose runs",
  ];
  const ends = () =>
    known.flatMap((i) => {
      const { run_id, name, finished_at } = runs[i]!;
      const result = of(y, i);
      return finished_at === null || typeof result !== "number"
        ? []
        : [{ run_id, name, at: Date.parse(finished_at), result }];
    });
  return (
    <section class="scatter" aria-label="Parameters and results">
      <div class="chart-tools">
        <select
          aria-label="Kind of plot"
          value={kind}
          onChange={choose((v) => setKind(v as Kind), "plot")}
        >
          {kinds.map((one) => <option key={one} value={one}>{KINDS[one]}</option>)}
        </select>
        {kind === "points" && (
          <label>
            X <select value={chosenX} onChange={choose(setX, "px")}>{columns(chosenX)}</select>
          </label>
        )}
        <label>
          {kind === "points" ? "Y " : "Result "}
          <select value={y} onChange={choose(setY, "py")}>
            {kind === "points" ? columns(y) : options([...new Set([y, ...results])])}
          </select>
        </label>
        {(kind === "points" || kind === "lines") && (
          <label>
            Colour{" "}
            <select value={shade} onChange={choose(setShade, "pc")}>
              <option value={BY_RUN}>{groups.length > 0 ? "Groups" : "Runs"}</option>
              {columns(shade)}
            </select>
          </label>
        )}
        {kind === "best" && goal === undefined && (
          <label>
            Better{" "}
            <select value={goalNow} onChange={choose(setBetter, "better")}>
              <option value="max">higher</option>
              <option value="min">lower</option>
            </select>
          </label>
        )}
        {kind === "lines" && (
          <select
            aria-label="Choose a range"
            value=""
            onChange={(e) => attempt(() => askRange(e.currentTarget))}
          >
            <option value="">Range …</option>
            {options(axes)}
          </select>
        )}
        <span class="hint">{hints.filter(Boolean).join(", ")}</span>
      </div>
      {kind === "best" && isRead && (
        <BestSoFar
          ends={ends()}
          begun={Math.min(
            ...runs.flatMap(({ started_at: at }) => at === null ? [] : [Date.parse(at)]),
          )}
          goal={goalNow}
        />
      )}
      {kind === "importance" && isRead && (
        <ImportanceOf
          outcomes={known.flatMap((i) => {
            const result = of(y, i);
            const named = runs[i]!.parameters.filter(({ name }) => !isSeed(name));
            const parameters = Object.fromEntries(named.map(({ name, value }) => [name, value]));
            return typeof result === "number" ? [{ parameters, result }] : [];
          })}
        />
      )}
      {kind === "points" && (
        <Points
          name={`${label(y)} against ${label(chosenX)}: ${plural(known.length, "run")}`}
          x={{ label: label(chosenX), scale: scale(chosenX) }}
          y={{ label: label(y), scale: scale(y) }}
          points={drawn.map((i) => ({
            ...{ key: runs[i]!.run_id, title: titleOf(i), color: color(i), open: open(i) },
            x: scale(chosenX).at(of(chosenX, i)!),
            y: scale(y).at(of(y, i)!),
          }))}
        />
      )}
      {kind === "lines" && (
        <>
          <Parallel
            name={`Parameters and ${label(y)}: ${plural(known.length, "run")}`}
            axes={axes.map((id) => ({ id, label: label(id), scale: scale(id) }))}
            lines={drawn.map((i) => ({
              ...{
                key: runs[i]!.run_id,
                title: titleOf(i),
                color: color(i),
                open: open(i),
                chosen: isChosen(i),
              },
              places: axes.map((id) => scale(id).at(of(id, i)!)),
            }))}
            ranges={ranges}
            choose={chooseRange}
          />
          {inRanges.length > 0 && (
            <div class="filters" role="status">
              <span>{`${whole(chosen.length)} of ${plural(known.length, "run")}`}</span>
              {inRanges.map(([id, range]) => (
                <button
                  key={id}
                  type="button"
                  class="picked"
                  aria-label={`Leave out ${label(id)}: ${rangeText(range)}`}
                  onClick={() => chooseRange(id, undefined)}
                >
                  <span>{`${label(id)}: ${rangeText(range)}`}</span> ×
                </button>
              ))}
              {chosen.length > 1 && chosen.length <= MOST_COMPARED && chosen.length < runs.length &&
                <a href={`/?runs=${chosen.map((i) => runs[i]!.run_id).join(",")}`}>Compare them</a>}
            </div>
          )}
        </>
      )}
      {(kind === "points" || kind === "lines") && (
        shade !== BY_RUN
          ? <ShadeLegend name={label(shade)} values={known.flatMap((i) => of(shade, i) ?? [])} />
          : groups.length > 0 && (
            <div class="legend">
              {[...places].map(([group, color]) => (
                <span key={group}>
                  <svg class="dot" viewBox="0 0 10 10" aria-hidden="true">
                    <circle cx="5" cy="5" r="5" fill={color} />
                  </svg>
                  {group}
                </span>
              ))}
            </div>
          )
      )}
      {kind !== "importance" && (
        <details>
          <summary>Table</summary>
          <ScrollTable
            label="Parameters and results, as a table"
            kind="records"
            headings={["Run", ...axes.map(label)]}
          >
            {chosen.map((i) => (
              <tr key={runs[i]!.run_id}>
                <td>
                  <a href={`/runs/${encodeURIComponent(runs[i]!.run_id)}`}>{runs[i]!.name}</a>
                </td>
                {axes.map((id) => <td key={id} class="num">{figure(of(id, i)!)}</td>)}
              </tr>
            ))}
          </ScrollTable>
        </details>
      )}
    </section>
  );
}
