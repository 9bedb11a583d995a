/** Parameters against results: one point or line per run, and the table behind it. */
import { metricColumn, queryColumn } from "../../../runs/query/query_columns.ts";
import { columnNames, readColumns } from "../parts/api.ts";
import { colorsOfGroups, colorsOfRuns } from "../parts/colors.ts";
import { attempt } from "../parts/dialog.tsx";
import { go, toAddress } from "../parts/dom.ts";
import { natural } from "../../../base/text/natural_order.ts";
import { ticksOf } from "../../../base/time/ticks.ts";
import { figure, plural } from "../parts/format.ts";
import { ScrollTable } from "../parts/parts.tsx";
import { useEffect, useState } from "../parts/preact.ts";
import { plainValue } from "../runs/runs_model.ts";

interface ScatterRun {
  run_id: string;
  name: string;
  parameters: readonly { name: string; value: unknown }[];
}

export interface ScatterProps {
  runs: ScatterRun[];
  groups: string[];
  result?: string;
}

const SIZE = { width: 720, height: 380, left: 64, right: 32, top: 16, bottom: 44 };
/** Axes of the parallel coordinates besides the result. */
const MOST_AXES = 10;

/** Free share of an axis at each end, so that points are not on the frame. */
const FREE = 0.05;
const inside = (share: number) => FREE + share * (1 - 2 * FREE);

interface Scale {
  /** 0 to 1. */
  at(value: number | string): number;
  ticks: { at: number; text: string }[];
  note: string;
}

/** Numbers by size (logarithmic if they span two decades), texts in their order. */
function scaleOf(values: readonly (number | string)[]): Scale {
  const numbers = values.filter((v) => typeof v === "number" && Number.isFinite(v)) as number[];
  if (numbers.length < values.length || values.length === 0) {
    const texts = [...new Set(values.map(String))].sort(natural);
    const place = (i: number) => inside(texts.length < 2 ? 0.5 : i / (texts.length - 1));
    return {
      at: (v) => place(texts.indexOf(String(v))),
      ticks: texts.length > 12 ? [] : texts.map((text, i) => ({ at: place(i), text })),
      note: "",
    };
  }
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const log = low > 0 && high / low >= 100;
  const to = log ? Math.log10 : (n: number) => n;
  const span = to(high) - to(low);
  const at = (n: number) => inside(span === 0 ? 0.5 : (n - to(low)) / span);
  const free = span * FREE;
  const ticks = log
    ? ticksOf(to(low) - free, to(high) + free, 6).filter(Number.isInteger)
    : ticksOf(low - free, high + free, 5);
  return {
    at: (v) => at(to(v as number)),
    ticks: ticks.map((n) => ({ at: at(n), text: figure(log ? 10 ** n : n) })),
    note: log ? " (logarithmic)" : "",
  };
}

const label = (id: string) => {
  const column = queryColumn(id, "param");
  if (column.type !== "metric" || column.aggregate === "last") return column.name;
  return `${column.name}, ${column.aggregate === "min" ? "lowest" : "highest"}`;
};

/** @param groups of each run, or none: shown by colour @param result what is shown first, as `metric.reward` */
export function Scatter({ runs, groups, result }: ScatterProps) {
  const query = new URLSearchParams(location.search);
  const values = runs.map((r) => new Map(r.parameters.map(({ name, value }) => [`param.${name}`, plainValue(value)])));
  const differing = [...new Set(values.flatMap((v) => [...v.keys()]))].sort(natural)
    .filter((id) => new Set(values.map((v) => v.get(id))).size > 1);
  const [kind, setKind] = useState(query.get("plot") === "lines" ? "lines" : "points");
  const [x, setX] = useState(query.get("px") ?? "");
  const [y, setY] = useState(query.get("py") ?? result ?? "metric.episode_reward");
  const [metrics, setMetrics] = useState<string[]>([]);
  const [read, setRead] = useState<Record<string, Record<string, unknown>>>({});
  const chosenX = x || differing[0] || y;
  useEffect(() => void attempt(async () => setMetrics((await columnNames()).metrics)), []);
  const ids = [...new Set([chosenX, y])].filter((id) => !id.startsWith("param.")).join("\n");
  useEffect(() => {
    let current = true;
    attempt(async () => {
      const columns = await readColumns(ids.split("\n").filter((id) => id !== ""));
      if (current) setRead(Object.fromEntries(columns.map(({ id, values }) => [id, values])));
    });
    return () => current = false;
  }, [ids]);
  const of = (id: string, i: number) =>
    id.startsWith("param.") ? values[i]!.get(id) : plainValue(read[id]?.[runs[i]!.run_id]);
  const axes = kind === "points" ? [chosenX, y] : [...differing.slice(0, MOST_AXES), y];
  const known = runs.map((_, i) => i).filter((i) => axes.every((id) => of(id, i) !== undefined));
  const scales = axes.map((id) => scaleOf(known.map((i) => of(id, i)!)));
  const places = colorsOfGroups(groups);
  const own = colorsOfRuns(runs);
  const color = (i: number) => groups.length === 0 ? own.get(runs[i]!.run_id)! : places.get(groups[i]!)!;
  const { width, height, left, top, bottom } = SIZE;
  const right = kind === "points" ? SIZE.right : SIZE.left;
  const px = (share: number) => left + share * (width - left - right);
  const py = (share: number) => height - bottom - share * (height - top - bottom);
  const titleOf = (i: number) =>
    `${runs[i]!.name}: ${axes.map((id) => `${label(id)} ${figure(of(id, i)!)}`).join(", ")}`;
  const open = (i: number) => () => go(`/runs/${encodeURIComponent(runs[i]!.run_id)}`);
  const choose = (set: (v: string) => void, name: string) => (e: { currentTarget: HTMLSelectElement }) => {
    set(e.currentTarget.value);
    toAddress({ [name]: e.currentTarget.value });
  };
  const results = metrics.flatMap((m) => ["last", "min", "max"].map((figure) => metricColumn(m, figure)));
  const missing = runs.length - known.length;
  const name = kind === "points"
    ? `${label(y)} against ${label(chosenX)}: ${plural(known.length, "run")}`
    : `Parameters and ${label(y)}: ${plural(known.length, "run")}`;
  const last = scales.at(-1)!;
  return (
    <section class="scatter" aria-label="Parameters and results">
      <div class="chart-tools">
        <select aria-label="Kind of plot" value={kind} onChange={choose(setKind, "plot")}>
          <option value="points">Scatter</option>
          <option value="lines">Parallel coordinates</option>
        </select>
        {kind === "points" && (
          <label>
            X{" "}
            <select value={chosenX} onChange={choose(setX, "px")}>
              <optgroup label="Parameters">
                {differing.map((id) => <option key={id} value={id}>{label(id)}</option>)}
              </optgroup>
              <optgroup label="Metrics">
                {results.map((id) => <option key={id} value={id}>{label(id)}</option>)}
              </optgroup>
            </select>
          </label>
        )}
        <label>
          Result{" "}
          <select value={y} onChange={choose(setY, "py")}>
            {[...new Set([y, ...results])].map((id) => <option key={id} value={id}>{label(id)}</option>)}
          </select>
        </label>
        <span class="hint">
          {[
            missing > 0 && ids.split("\n").every((id) => id === "" || id in read) &&
            `${plural(missing, "run")} without a value not shown`,
            kind === "lines" && differing.length > MOST_AXES &&
            `the first ${MOST_AXES} of ${differing.length} parameters`,
          ].filter(Boolean).join(", ")}
        </span>
      </div>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={name}>
        {kind === "points"
          ? (
            <>
              {scales[0]!.ticks.map(({ at, text }) => (
                <g key={`x${at}`}>
                  <line x1={px(at)} x2={px(at)} y1={py(0)} y2={py(1)} />
                  <text x={px(at)} y={py(0) + 16} text-anchor="middle">{text}</text>
                </g>
              ))}
              {last.ticks.map(({ at, text }) => (
                <g key={`y${at}`}>
                  <line x1={px(0)} x2={px(1)} y1={py(at)} y2={py(at)} />
                  <text x={left - 8} y={py(at) + 4} text-anchor="end">{text}</text>
                </g>
              ))}
              <text x={px(0.5)} y={height - 8} text-anchor="middle">{label(chosenX) + scales[0]!.note}</text>
              {known.map((i) => (
                <circle
                  key={runs[i]!.run_id}
                  cx={px(scales[0]!.at(of(chosenX, i)!))}
                  cy={py(last.at(of(y, i)!))}
                  r="5"
                  fill={color(i)}
                  onClick={open(i)}
                >
                  <title>{titleOf(i)}</title>
                </circle>
              ))}
            </>
          )
          : (
            <>
              {known.map((i) => (
                <polyline
                  key={runs[i]!.run_id}
                  points={axes.map((id, a) =>
                    `${px(axes.length < 2 ? 0.5 : a / (axes.length - 1))},${py(scales[a]!.at(of(id, i)!))}`
                  ).join(" ")}
                  stroke={color(i)}
                  stroke-opacity={0.2 + 0.8 * last.at(of(y, i)!)}
                  onClick={open(i)}
                >
                  <title>{titleOf(i)}</title>
                </polyline>
              ))}
              {axes.map((id, a) => {
                const at = px(axes.length < 2 ? 0.5 : a / (axes.length - 1));
                return (
                  <g key={id}>
                    <line class="axis" x1={at} x2={at} y1={py(0)} y2={py(1)} />
                    <text x={at} y={height - 8} text-anchor="middle">{label(id) + scales[a]!.note}</text>
                    {scales[a]!.ticks.map((t) => (
                      <text key={t.at} class="tick" x={at + 4} y={py(t.at) + 4}>{t.text}</text>
                    ))}
                  </g>
                );
              })}
            </>
          )}
      </svg>
      {groups.length > 0 && (
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
      )}
      <details>
        <summary>Table</summary>
        <ScrollTable label="Parameters and results, as a table" kind="records" headings={["Run", ...axes.map(label)]}>
          {known.map((i) => (
            <tr key={runs[i]!.run_id}>
              <td>
                <a href={`/runs/${encodeURIComponent(runs[i]!.run_id)}`}>{runs[i]!.name}</a>
              </td>
              {axes.map((id) => <td key={id} class="num">{figure(of(id, i)!)}</td>)}
            </tr>
          ))}
        </ScrollTable>
      </details>
    </section>
  );
}
