/** All charts of one run, or of several laid over each other, kept up to date while they are in sight. */
import { answer, param, runApi, seriesOf } from "./api.ts";
import { Chart, type ChartStyle, type DataSet, type XMode } from "./chart.ts";
import { natural } from "../../base/natural_order.ts";
import { figure, plural } from "./format.ts";
import { type Band, BANDS } from "../../telemetry/groups.ts";
import { Island, Terms, useRedraw } from "./parts.tsx";
import { useEffect, useRef, useState } from "./preact.ts";

export interface ChartRun {
  run_id: string;
  name: string;
  started_at: number | null;
  /** The group that it is drawn as one with. */
  group?: string;
}

const COLORS = 8;
const FIRST = ["episode_reward", "episode_length", "reward"];
const TITLES: Record<string, string> = {
  episode_reward: "Episode reward",
  episode_length: "Episode length",
  reward: "Step reward",
};
/** Names in one request; the daemon answers no more at once. */
const NAMES_PER_REQUEST = 12;
/** With more charts than this, a filter by name is offered. */
const MANY = 6;

/** The usual ones first, then by name, numbers by their size. */
function byImportance(a: string, b: string): number {
  const rank = (name: string) => FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length;
  return rank(a) - rank(b) || natural(a, b);
}

const USUAL: ChartStyle = { x: "index", smoothing: 0.6, log: false, band: "sd", overwritten: true };

function stored<T>(key: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** What the address says, else as a person last chose it. */
function savedStyle(): ChartStyle {
  const style = { ...USUAL, ...stored("mosaic-charts", {}) };
  const query = new URLSearchParams(location.search);
  const { x = style.x, band = style.band, smoothing, log, overwritten } = Object.fromEntries(query);
  return {
    x: ["index", "relative", "wall"].includes(x) ? x as XMode : "index",
    band: Object.hasOwn(BANDS, band) ? band as Band : "sd",
    smoothing: Math.min(0.99, Math.max(0, Number(smoothing ?? style.smoothing) || 0)),
    log: log === undefined ? style.log : log === "1",
    overwritten: overwritten === undefined ? style.overwritten : overwritten === "1",
  };
}

/** Writes values into the address, so that it is a link to what one sees; an empty one is left out. */
export function toAddress(values: Record<string, string | string[]>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    query.delete(name);
    for (const one of [value].flat()) if (one !== "") query.append(name, one);
  }
  const search = query.toString().replaceAll("%2C", ",");
  history.replaceState(null, "", `${location.pathname}${search && `?${search}`}${location.hash}`);
}

/** The section of a metric: what stands before the first "/" of its name. */
const sectionOf = (name: string) => name.includes("/") ? name.slice(0, name.indexOf("/")) : "";

/** Reads series of runs and hands them to charts; Preact draws what is around those. */
class ChartReader {
  readonly charts = new Map<string, Chart>();
  /** What was said once is a value, not a line: of each run. */
  single: [name: string, values: (number | null | undefined)[]][] = [];
  names: string[] = [];
  /** What there is has been read once. */
  known = false;
  style = savedStyle();
  pinned = stored<string[]>("mosaic-pinned", []);
  folded = stored<string[]>("mosaic-folded", []);
  runs: ChartRun[] = [];
  /** Some points were overwritten by a later attempt. */
  rewound = false;
  #sets = new Map<string, DataSet[]>();
  #inSight = new Set<string>();
  #gone = new AbortController();
  #busy = false;
  #again = false;
  #observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const name = (target as HTMLElement).dataset.series ?? "";
      isIntersecting ? this.#inSight.add(name) : this.#inSight.delete(name);
    }
    this.refresh();
  }, { rootMargin: "200px" });

  constructor(readonly redraw: () => void) {
    addEventListener("mosaic-theme", this.#onTheme);
  }

  #onTheme = () => {
    for (const chart of this.charts.values()) chart.restyle();
    this.refresh();
  };

  chart(name: string): Chart {
    let chart = this.charts.get(name);
    if (chart === undefined) {
      const unit = name.startsWith("episode_") && FIRST.includes(name) ? "episode" : "step";
      chart = new Chart(TITLES[name] ?? name, unit, () => this.#zoomed(), () => this.pin(name));
      chart.range = this.#zoomOf(name);
      chart.element.toggleAttribute("data-zoomed", chart.range !== undefined);
      chart.ownAxis = name.startsWith("system/");
      chart.pinned(this.pinned.includes(name));
      chart.element.dataset.series = name;
      this.charts.set(name, chart);
      this.#observer.observe(chart.element);
    }
    return chart;
  }

  /** The address as `zoom=NAME:FIRST-LAST`, once a chart that is zoomed. */
  #zoomOf(name: string): [number, number] | undefined {
    const its = new URLSearchParams(location.search).getAll("zoom").find((z) => z.startsWith(`${name}:`));
    const [first, last] = its?.slice(name.length + 1).split("-").map(Number) ?? [];
    return Number.isInteger(first) && Number.isInteger(last) ? [first!, last!] : undefined;
  }

  #zoomed(): void {
    const zooms = [...this.charts].flatMap(([name, { range }]) => range ? [`${name}:${range.join("-")}`] : []);
    toAddress({ zoom: zooms });
    this.refresh();
  }

  /** Takes down all charts but these. */
  keep(names: readonly string[]): void {
    for (const [name, chart] of this.charts) {
      if (names.includes(name)) continue;
      this.#observer.unobserve(chart.element);
      this.#inSight.delete(name);
      chart.destroy();
      this.charts.delete(name);
    }
  }

  pin(name: string): void {
    const on = !this.pinned.includes(name);
    this.pinned = on ? [...this.pinned, name] : this.pinned.filter((n) => n !== name);
    localStorage.setItem("mosaic-pinned", JSON.stringify(this.pinned));
    this.charts.get(name)?.pinned(on);
    this.redraw();
  }

  fold(section: string, folded: boolean): void {
    this.folded = [...this.folded.filter((s) => s !== section), ...(folded ? [section] : [])];
    localStorage.setItem("mosaic-folded", JSON.stringify(this.folded));
  }

  restyle(change: Partial<ChartStyle>): void {
    this.style = { ...this.style, ...change };
    localStorage.setItem("mosaic-charts", JSON.stringify(this.style));
    const { x, band, smoothing, log, overwritten } = this.style;
    toAddress({
      x,
      band: this.runs.some((r) => r.group !== undefined) ? band : "",
      smoothing: String(smoothing),
      log: log ? "1" : "0",
      overwritten: this.rewound ? (overwritten ? "1" : "0") : "",
    });
    for (const [name, chart] of this.charts) chart.show(this.#sets.get(name) ?? [], this.style);
    this.redraw();
  }

  /** Reads what is in sight again; calls while it reads are one more reading afterwards. */
  async refresh(): Promise<void> {
    this.#again = true;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#again && !this.#gone.signal.aborted) {
        this.#again = false;
        await this.#read();
      }
    } catch {
      // The page already shows the state of the connection; the next tick tries again.
    } finally {
      this.#busy = false;
    }
  }

  async #read(): Promise<void> {
    const names = new Set<string>();
    const single = new Map<string, (number | null | undefined)[]>();
    await Promise.all(this.runs.map(async (run, r) => {
      const init = { signal: this.#gone.signal };
      const { series } = await answer(runApi.series.$get({ ...param(run.run_id), query: {} }, { init }));
      for (const one of series) {
        if (!("points" in one)) continue;
        const { name, points, last } = one;
        // Each attempt reports its settings again.
        if (FIRST.includes(name) || points > 1 && !name.startsWith("config.")) names.add(name);
        else if (points > 0) single.set(name, Object.assign(single.get(name) ?? [], { [r]: last }));
      }
    }));
    for (const name of names) single.delete(name);
    const found = [...names].sort(byImportance);
    const values = [...single].sort(([a], [b]) => natural(a, b));
    if (!this.known || JSON.stringify([found, values]) !== JSON.stringify([this.names, this.single])) {
      this.known = true;
      this.names = found;
      this.single = values;
      this.redraw();
    }
    const wanted = [...this.charts].filter(([name]) => this.#inSight.has(name));
    const whole = wanted.filter(([, c]) => c.range === undefined).map(([name]) => name);
    for (let i = 0; i < whole.length; i += NAMES_PER_REQUEST) {
      await this.#fetch(whole.slice(i, i + NAMES_PER_REQUEST));
    }
    for (const [name, { range }] of wanted) {
      if (range !== undefined) await this.#fetch([name], { from: String(range[0]), to: String(range[1]) });
    }
  }

  async #fetch(names: string[], range: { from?: string; to?: string } = {}): Promise<void> {
    const width = this.charts.get(names[0]!)?.element.parentElement?.parentElement?.clientWidth ?? 0;
    const buckets = String(Math.min(1000, Math.max(150, Math.round(width / 2))));
    const style = getComputedStyle(document.documentElement);
    const answers = await Promise.all(
      this.runs.map((run) => seriesOf(run.run_id, { name: names, buckets, ...range }, this.#gone.signal)),
    );
    const groups = [...new Set(this.runs.map((r) => r.group))];
    names.forEach((name, n) => {
      const sets = this.runs.map((run, r) => ({
        label: run.name,
        group: run.group,
        color: style.getPropertyValue(
          `--series-${(run.group === undefined ? r : groups.indexOf(run.group)) % COLORS + 1}`,
        ).trim(),
        columns: answers[r]![n]!,
        startedAt: run.started_at,
      })).filter((s) => s.columns.last_x.length > 0);
      this.#sets.set(name, sets);
      if (!this.rewound && sets.some((s) => s.columns.overwritten.includes(true))) {
        this.rewound = true;
        this.redraw();
      }
      this.charts.get(name)?.show(sets, this.style);
    });
  }

  destroy(): void {
    this.#gone.abort();
    this.#observer.disconnect();
    removeEventListener("mosaic-theme", this.#onTheme);
    for (const chart of this.charts.values()) chart.destroy();
  }
}

/** @param changes grows when the runs have new points */
export function Charts({ runs, changes }: { runs: ChartRun[]; changes: number }) {
  const redraw = useRedraw();
  const made = useRef<ChartReader>(undefined);
  const reader = made.current ??= new ChartReader(redraw);
  const [filter, setFilter] = useState(() => new URLSearchParams(location.search).get("metrics") ?? "");
  reader.runs = runs;
  useEffect(() => void reader.refresh(), [changes, runs.map((r) => `${r.run_id} ${r.group}`).join()]);
  useEffect(() => () => reader.destroy(), []);

  const words = filter.toLowerCase().split(/[\s,]+/).filter((w) => w !== "");
  const { names, single, style } = reader;
  const shown = words.length === 0 ? names : names.filter((n) => words.some((w) => n.toLowerCase().includes(w)));
  useEffect(() => reader.keep(shown));
  const grouped = runs.some((r) => r.group !== undefined);
  const sections = new Map<string, string[]>();
  for (const name of [...shown.filter((n) => reader.pinned.includes(n)), ...shown]) {
    const section = reader.pinned.includes(name) ? "Pinned" : sectionOf(name);
    const names = sections.get(section) ?? [];
    if (!names.includes(name)) sections.set(section, [...names, name]);
  }
  const settings = single.filter(([name]) => name.startsWith("config."));
  const values = single.filter(([name]) => !name.startsWith("config."));
  const terms = (of: typeof single) => (
    <Terms
      kind="single"
      of={of.map(([name, v]) => [name, runs.map((_, r) => figure(v[r])).join(" · ")])}
    />
  );
  return (
    <div>
      <div class="chart-tools">
        <label>
          X axis{" "}
          <select value={style.x} onChange={(e) => reader.restyle({ x: e.currentTarget.value as XMode })}>
            <option value="index">Step or episode</option>
            <option value="relative">Time since start</option>
            <option value="wall">Time of day</option>
          </select>
        </label>
        <label>
          Smoothing{" "}
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={style.smoothing}
            onInput={(e) => reader.restyle({ smoothing: Number(e.currentTarget.value) })}
          />
        </label>
        {grouped && (
          <label>
            Band{" "}
            <select value={style.band} onChange={(e) => reader.restyle({ band: e.currentTarget.value as Band })}>
              {Object.entries(BANDS).map(([band, label]) => <option key={band} value={band}>{label}</option>)}
            </select>
          </label>
        )}
        <label>
          <input
            type="checkbox"
            checked={style.log}
            onChange={(e) => reader.restyle({ log: e.currentTarget.checked })}
          />{" "}
          Log scale
        </label>
        {reader.rewound && (
          <label title="What an attempt wrote again after it went on from a checkpoint">
            <input
              type="checkbox"
              checked={style.overwritten}
              onChange={(e) => reader.restyle({ overwritten: e.currentTarget.checked })}
            />{" "}
            Overwritten
          </label>
        )}
        <input
          type="search"
          placeholder="Filter metrics"
          aria-label="Show metrics whose names hold one of these words"
          hidden={names.length <= MANY && words.length === 0}
          value={filter}
          onInput={(e) => {
            setFilter(e.currentTarget.value);
            toAddress({ metrics: e.currentTarget.value });
          }}
        />
        <span class="hint">Drag over a chart to zoom</span>
      </div>
      {[...sections].map(([section, names]) => {
        const charts = (
          <div class="charts">
            {names.map((name) => <Island key={name} of={reader.chart(name).element} />)}
          </div>
        );
        return section === "" ? <div key="">{charts}</div> : (
          <details
            key={section}
            class="section"
            open={!reader.folded.includes(section)}
            onToggle={(e) => reader.fold(section, !e.currentTarget.open)}
          >
            <summary>
              {section} <span class="count">{names.length}</span>
            </summary>
            {charts}
          </details>
        );
      })}
      {names.length === 0 && <p class="empty">{reader.known ? "No episodes and no metrics yet." : "Loading …"}</p>}
      <div class="said-once">
        {values.length > 0 && terms(values)}
        {settings.length > 0 && (
          <details>
            <summary>{`${plural(settings.length, "setting")} reported by the worker`}</summary>
            {terms(settings)}
          </details>
        )}
      </div>
    </div>
  );
}
