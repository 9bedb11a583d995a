/** All charts of one run, or of several runs in one chart each, updated while they are in sight. */
import "../parts/common.ts";
import { msOf } from "../../../runs/fields/run_texts.ts";
import { answer, api, Refused, seriesOf } from "../parts/api.ts";
import { Chart, type Range } from "./chart.ts";
import {
  type ChartStyle,
  type DataSet,
  metricOf,
  type Own,
  OWN_AS_OTHERS,
  type XMode,
} from "./chart_lines.ts";
import { ask, attempt, notice } from "../parts/dialog.tsx";
import { natural } from "../../../base/text/natural_order.ts";
import { saveFile, toAddress } from "../parts/dom.ts";
import { figure, plural } from "../parts/format.ts";
import { AT_ONCE, crowdWanted, IN_ADDRESS, isCrowd, MOST_BUCKETS, stored } from "../parts/early.ts";
import { type Band, BANDS, groupOrder } from "../../../telemetry/series/groups.ts";
import { colorCode } from "../parts/colors.ts";
import { Island, ScrollTable, Terms, useRedraw } from "../parts/parts.tsx";
import type { SeriesColumns, SeriesNames } from "../../api/page_json.ts";
import { type ChartExpression, chartExpression, computed } from "./computed_chart.ts";
import { haveOf, joined, overOther } from "./smoothing.ts";
import { useEffect, useRef, useState } from "../parts/preact.ts";

export interface ChartRun {
  run_id: string;
  name: string;
  started_at: string | null;
  /** Of its line, or of its group's: an expression of CSS. */
  color: string;
  /** Its group, which is drawn as one line. */
  group?: string;
}

const TITLES: Record<string, string> = {
  episode_reward: "Episode reward",
  episode_length: "Episode length",
  reward: "Step reward",
};
/** Names per request; one for a crowd, so that the first chart is drawn soon. */
const NAMES_PER_REQUEST = 12;
/** Buckets of all lines of a crowd in a zoomed or enlarged chart. */
const CLOSE_BUCKETS = 256_000;
/** About one screen; further cards are added after these are drawn. */
const FIRST_CARDS = 24;
const CARDS_AT_ONCE = 80;
/** Charts out of sight that keep their drawing. */
const MOST_KEPT = 40;
/** With more charts than this, a filter by name is offered. */
const MANY = 6;

const USUAL: ChartStyle = {
  ...{
    x: "index",
    smoothing: 0.6,
    log: false,
    logX: false,
    band: "sd",
    overwritten: true,
    hidden: [],
  },
};

/**
 * A link shows what its sender saw; if the address has no settings of the charts, the person's last
 * ones are used.
 */
/** @param own what this view begins with instead of the person's last settings */
function chosenView(own: Partial<ChartStyle>) {
  const query = new URLSearchParams(location.search);
  const given = IN_ADDRESS.some((name) => query.has(name));
  const style = given ? USUAL : { ...USUAL, ...stored("mosaic-charts", {}), ...own };
  const { x = style.x, band = style.band, smoothing, log, overwritten, logx } = Object.fromEntries(
    query,
  );
  // `zoom=NAME:FIRST-LAST`, once per zoomed chart.
  const zooms = query.getAll("zoom").flatMap((zoom): [string, Range][] => {
    const [, name, first, last] = /^(.*):(\d+)-(\d+)$/s.exec(zoom) ?? [];
    return name === undefined ? [] : [[name, [Number(first), Number(last)]]];
  });
  // `y=NAME:LOW,HIGH`, either of them empty; `trim=NAME`; `own=NAME:log=1&smoothing=0.3`.
  const owns = new Map<string, Own>();
  const ownOf = (name: string, part: Partial<Own>) =>
    owns.set(name, { ...OWN_AS_OTHERS, ...owns.get(name), ...part });
  for (const name of query.getAll("trim")) ownOf(name, { trimmed: true });
  for (const text of query.getAll("own")) {
    const [, name, set] = /^(.*):([^:]*)$/s.exec(text) ?? [];
    if (name !== undefined) ownOf(name, { style: styleFrom(new URLSearchParams(set)) });
  }
  for (const text of query.getAll("y")) {
    const [, name, low, high] = /^(.*):([^:,]*),([^:,]*)$/s.exec(text) ?? [];
    if (name === undefined) continue;
    const end = (text = "") => text === "" || !Number.isFinite(Number(text)) ? null : Number(text);
    ownOf(name, { y: [end(low), end(high)] });
  }
  return {
    given,
    owns,
    zooms: new Map(zooms),
    pinned: given ? query.getAll("pin") : stored<string[]>("mosaic-pinned", []),
    folded: given ? query.getAll("fold") : stored<string[]>("mosaic-folded", []),
    without: given ? query.getAll("without") : stored<string[]>("mosaic-without", []),
    style: {
      x: axisFrom(x) ?? "index",
      band: Object.hasOwn(BANDS, band) ? band as Band : "sd",
      smoothing: smoothingFrom(smoothing ?? style.smoothing),
      log: log === undefined ? style.log : log === "1",
      logX: logx === undefined ? style.logX : logx === "1",
      hidden: query.getAll("hide"),
      overwritten: overwritten === undefined ? style.overwritten : overwritten === "1",
    },
  };
}

const axisFrom = (x: string): XMode | undefined =>
  ["index", "relative", "wall"].includes(x) || x.startsWith("metric:") ? x as XMode : undefined;
const smoothingFrom = (text: unknown): number => Math.min(0.99, Math.max(0, Number(text) || 0));

/** What one chart sets itself, in an address. */
function styleFrom(set: URLSearchParams): Own["style"] {
  const [x, smoothing, log, logX] = ["x", "smoothing", "log", "logx"].map((name) => set.get(name));
  const axis = axisFrom(x ?? "");
  return {
    ...(axis === undefined ? {} : { x: axis }),
    ...(smoothing == null ? {} : { smoothing: smoothingFrom(smoothing) }),
    ...(log == null ? {} : { log: log === "1" }),
    ...(logX == null ? {} : { logX: logX === "1" }),
  };
}
function styleText({ x, smoothing, log, logX }: Own["style"]): string {
  const flag = (on: boolean | undefined) => on === undefined ? undefined : on ? "1" : "0";
  const set = Object.entries({ x, smoothing, log: flag(log), logx: flag(logX) })
    .flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]]);
  return new URLSearchParams(set).toString();
}

/** With it or without it. */
function toggled(list: readonly string[], one: string, on: boolean): string[] {
  return [...list.filter((o) => o !== one), ...(on ? [one] : [])];
}

/**
 * Charts are read a little before they come into sight, also in a part of the page that scrolls by
 * itself.
 */
const NEARBY: IntersectionObserverInit & { scrollMargin: string } = {
  rootMargin: "200px",
  scrollMargin: "200px",
};
const PINNED = "Pinned";
const COMPUTED = "Computed";
/** The section of a metric: its name up to the first "/". */
const sectionOf = (name: string) => name.includes("/") ? name.slice(0, name.indexOf("/")) : "";

/** Reads series of runs and passes them to charts; Preact draws everything around those. */
class ChartReader {
  readonly charts = new Map<string, Chart>();
  /**
   * Series with a single point are values, not lines: with the value of each run, or without values
   * for many runs.
   */
  single: [name: string, values: (number | null)[]][] = [];
  names: string[] = [];
  /** Charts that are computed of others, as texts. */
  expressions = new URLSearchParams(location.search).getAll("expr");
  /** The names of the series have been read once. */
  known = false;
  style: ChartStyle;
  pinned: string[];
  folded: string[];
  /** Names of metrics whose charts a person has hidden. */
  without: string[];
  runs: ChartRun[] = [];
  /** Everything in sight is drawn. */
  settled = false;
  /** Some points were overwritten by a later attempt. */
  rewound = false;
  #given: boolean;
  /** The charts that are zoomed. */
  #zooms: Map<string, Range>;
  /** The charts with a range of their own. */
  #owns: Map<string, Own>;
  #sets = new Map<string, DataSet[]>();
  /** The names whose sets are whole curves. */
  #whole = new Set<string>();
  /** The metrics of x axes, for each run. */
  #over = new Map<string, Map<string, SeriesColumns>>();
  #inSight = new Set<string>();
  /** Names that are up to date; the newest last. */
  #fresh = new Set<string>();
  /** Requests in progress, with their names. */
  readonly #reading = new Map<AbortController, string[]>();
  #gone = new AbortController();
  #namesRead: "no" | "reading" | "again" = "no";
  #observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const name = (target as HTMLElement).dataset.series ?? "";
      isIntersecting ? this.#inSight.add(name) : this.#inSight.delete(name);
    }
    for (const [request, names] of this.#reading) {
      if (!names.some((n) => this.#inSight.has(n))) request.abort();
    }
    this.#read();
  }, NEARBY);

  constructor(readonly redraw: () => void, own: Partial<ChartStyle>) {
    ({
      style: this.style,
      pinned: this.pinned,
      folded: this.folded,
      without: this.without,
      given: this.#given,
      zooms: this.#zooms,
      owns: this.#owns,
    } = chosenView(own));
    addEventListener("mosaic-theme", this.#onTheme);
  }

  #onTheme = () => {
    for (const chart of this.charts.values()) chart.restyle();
    this.#fresh.clear();
    this.#read();
  };

  chart(name: string): Chart {
    let chart = this.charts.get(name);
    if (chart === undefined) {
      const unit = name === "episode_reward" || name === "episode_length" ? "episode" : "step";
      const made = chart = new Chart(TITLES[name] ?? name, unit, {
        onzoom: () => this.#zoomed(name),
        onpin: () => this.pin(name),
        onleave: () => this.expressionOf(name) === undefined ? this.hide(name) : this.forget(name),
        onhide: (labels) => this.restyle({ hidden: [...new Set(labels)] }),
        onview: () => {
          const { y: [low, high], trimmed, style } = made.own;
          const plain = low === null && high === null && !trimmed && styleText(style) === "";
          if (plain) this.#owns.delete(name);
          else this.#owns.set(name, made.own);
          this.#toAddress();
          attempt(async () => {
            await this.#readOver(false);
            if (this.#sets.has(name)) this.#show(name);
          });
        },
        choices: () => ({
          metrics: this.names,
          ...(this.expressionOf(name) === undefined ? {} : { expression: name }),
        }),
        onexpress: (text) => {
          this.compute(text);
          if (this.expressionOf(name) !== undefined) this.forget(name);
        },
      }, this.expressionOf(name) !== undefined);
      chart.own = this.#owns.get(name) ?? chart.own;
      chart.range = this.#zooms.get(name);
      chart.element.toggleAttribute("data-zoomed", chart.range !== undefined);
      chart.ownAxis = name.startsWith("system/");
      chart.pinned(this.pinned.includes(name));
      chart.element.dataset.series = name;
      this.charts.set(name, chart);
      this.#observer.observe(chart.element);
    }
    return chart;
  }

  /** A chart shows a part, or everything again. */
  #zoomed(name: string): void {
    const { range } = this.charts.get(name)!;
    range === undefined ? this.#zooms.delete(name) : this.#zooms.set(name, range);
    this.#toAddress();
    for (const [request, names] of this.#reading) if (names.includes(name)) request.abort();
    this.#fresh.delete(name);
    this.#read();
  }

  /** Removes all charts except these. */
  keep(names: readonly string[]): void {
    const kept = new Set(names);
    for (const [name, chart] of this.charts) {
      if (kept.has(name)) continue;
      this.#observer.unobserve(chart.element);
      for (const set of [this.#inSight, this.#fresh]) set.delete(name);
      this.#sets.delete(name);
      chart.destroy();
      this.charts.delete(name);
    }
  }

  pin(name: string): void {
    const on = !this.pinned.includes(name);
    this.pinned = toggled(this.pinned, name, on);
    localStorage.setItem(
      "mosaic-pinned",
      JSON.stringify(toggled(stored("mosaic-pinned", []), name, on)),
    );
    this.charts.get(name)?.pinned(on);
    this.#toAddress();
    this.redraw();
  }

  hide(name: string): void {
    this.#leaveOut([...this.without, name]);
    notice(`${TITLES[name] ?? name} is hidden.`, "info", () => this.showAgain([name]));
  }

  showAgain(names: readonly string[]): void {
    this.#leaveOut(this.without.filter((one) => !names.includes(one)));
  }

  #leaveOut(names: string[]): void {
    this.without = names;
    localStorage.setItem("mosaic-without", JSON.stringify(names));
    this.#toAddress();
    this.redraw();
  }

  fold(section: string, folded: boolean): void {
    if (this.folded.includes(section) === folded) return;
    this.folded = toggled(this.folded, section, folded);
    localStorage.setItem(
      "mosaic-folded",
      JSON.stringify(toggled(stored("mosaic-folded", []), section, folded)),
    );
    this.#toAddress();
  }

  restyle(change: Partial<ChartStyle>): void {
    this.style = { ...this.style, ...change };
    // Other runs may lack this metric.
    const x = metricOf(this.style.x) === undefined ? this.style.x : "index";
    localStorage.setItem("mosaic-charts", JSON.stringify({ ...this.style, x, hidden: [] }));
    this.#toAddress();
    this.redraw();
    attempt(async () => {
      await this.#readOver(false);
      this.#showAll();
    });
  }

  #showAll(): void {
    for (const name of this.charts.keys()) if (this.#sets.has(name)) this.#show(name);
  }

  #show(name: string): void {
    const metric = metricOf(this.#owns.get(name)?.style.x ?? this.style.x);
    const over = metric === undefined ? undefined : this.#over.get(metric);
    // It has not come yet: then all charts are shown again.
    if (metric !== undefined && over === undefined) return;
    const sets = this.#sets.get(name)!;
    const shown = over === undefined
      ? sets
      : sets.map((set) => ({ ...set, columns: overOther(set.columns, over.get(set.runId)) }))
        .filter(({ columns }) => columns.over.length > 0);
    this.charts.get(name)?.show(shown, this.style);
  }

  /**
   * Reads the whole metrics of x axes, even if charts show a part. @param again also those that are
   * here
   */
  async #readOver(again: boolean): Promise<void> {
    const { runs } = this;
    const axes = [this.style.x, ...[...this.#owns.values()].map(({ style }) => style.x)];
    const names = new Set(axes.flatMap((x) => (x && metricOf(x)) ?? []));
    for (const name of this.#over.keys()) if (!names.has(name)) this.#over.delete(name);
    const ids = runs.map((r) => r.run_id);
    for (const name of names) {
      if (!again && this.#over.has(name)) continue;
      const wanted = { ...crowdWanted(ids, [name], CLOSE_BUCKETS), rough: isCrowd(runs) };
      const [found] = await seriesOf(wanted, this.#gone.signal);
      this.#over.set(name, new Map(ids.map((id, i) => [id, found![i]!])));
    }
  }

  expressionOf(name: string): ChartExpression | undefined {
    return this.expressions.includes(name) ? chartExpression(name, this.names) : undefined;
  }

  /** The charts that there can be: computed ones whose series are there, and all series. */
  get possible(): string[] {
    return [
      ...this.expressions.filter((one) => this.expressionOf(one) !== undefined),
      ...this.names,
    ];
  }

  /** @throws Error if it is none that can be drawn */
  compute(text: string): void {
    if (chartExpression(text, this.names) === undefined) {
      throw new Error(
        `"${text}" is no expression of these charts: a / b, a - b, max(a) or min(a), with names of metrics`,
      );
    }
    this.expressions = toggled(this.expressions, text, true);
    this.#toAddress();
    this.redraw();
  }

  forget(expression: string): void {
    this.expressions = toggled(this.expressions, expression, false);
    this.#toAddress();
    this.redraw();
  }

  /** Writes the settings and the zooms of existing charts. */
  #toAddress(): void {
    const { x, band, smoothing, log, logX, hidden, overwritten } = this.style;
    const sections = new Set([...this.names.map(sectionOf), PINNED, COMPUTED]);
    toAddress({
      x,
      band: this.runs.some((r) => r.group !== undefined) ? band : "",
      smoothing: String(smoothing),
      log: log ? "1" : "0",
      logx: logX ? "1" : "",
      hide: [...hidden],
      y: [...this.#owns].flatMap(([name, { y }]) =>
        y.some((n) => n !== null) ? `${name}:${y.map((n) => n ?? "").join()}` : []
      ),
      trim: [...this.#owns].flatMap(([name, { trimmed }]) => trimmed ? name : []),
      own: [...this.#owns].flatMap(([name, { style }]) =>
        styleText(style) === "" ? [] : `${name}:${styleText(style)}`
      ),
      overwritten: this.rewound ? (overwritten ? "1" : "0") : "",
      expr: this.expressions,
      pin: this.pinned.filter((name) => this.names.includes(name)),
      without: this.without.filter((name) => this.names.includes(name)),
      fold: this.folded.filter((section) => sections.has(section)),
      zoom: [...this.#zooms].map(([name, range]) => `${name}:${range.join("-")}`),
    });
  }

  /** The runs have new points or have changed: charts in sight are read again. */
  async refresh(): Promise<void> {
    if (this.runs.length === 0) return;
    if (this.#namesRead !== "no") {
      this.#namesRead = "again";
      return;
    }
    this.#namesRead = "reading";
    try {
      await this.#readNames();
      await this.#readOver(true);
      this.#fresh.clear();
      this.#read();
    } catch {
      // The page already shows the state of the connection; the next tick tries again.
    }
    const again = (this.#namesRead as string) === "again";
    this.#namesRead = "no";
    if (again && !this.#gone.signal.aborted) await this.refresh();
  }

  async #readNames(): Promise<void> {
    const json = { runs: this.runs.map((r) => r.run_id) };
    const { names, once } = await answer(
      api.series.names.$post({ json }, { init: { signal: this.#gone.signal } }),
    ) as SeriesNames;
    const values = once.map(({ name, values }) => [name, values] as [string, (number | null)[]])
      .sort(([a], [b]) => natural(a, b));
    if (
      this.known && JSON.stringify([names, values]) === JSON.stringify([this.names, this.single])
    ) return;
    const first = !this.known;
    this.known = true;
    this.names = names;
    this.single = values;
    // From here on, links contain this person's own settings.
    const usual = Object.entries(USUAL).every(([name, value]) =>
      String(this.style[name as keyof ChartStyle]) === String(value)
    );
    const own = !usual || [this.pinned, this.folded, this.without].some((of) => of.length > 0);
    if (first && !this.#given && own) this.#toAddress();
    this.redraw();
  }

  /** Reads charts in sight that are not up to date, some at a time. */
  #read(): void {
    while (this.#reading.size < AT_ONCE && !this.#gone.signal.aborted) {
      const busy = new Set([...this.#reading.values()].flat());
      const due = [...this.charts].filter(([name]) =>
        this.#inSight.has(name) && !this.#fresh.has(name) && !busy.has(name)
      );
      if (due.length === 0) break;
      const most = isCrowd(this.runs) ? 1 : NAMES_PER_REQUEST;
      const whole = due.filter(([name, chart]) =>
        !isClose(chart) && this.expressionOf(name) === undefined
      )
        .slice(0, most);
      const names = (whole.length > 0 ? whole : due.slice(0, 1)).map(([name]) => name);
      const request = new AbortController();
      this.#reading.set(request, names);
      this.#fetch(names, AbortSignal.any([request.signal, this.#gone.signal])).catch((error) => {
        if (error instanceof Refused) notice(error.message);
        // Otherwise left, zoomed again, or no connection, which the page already shows: the next
        // tick tries again.
        if (!request.signal.aborted) { for (const name of names) this.#fresh.add(name); }
      }).finally(() => {
        this.#reading.delete(request);
        this.#read();
      });
    }
    this.#settle(this.#inSight.size > 0 && this.#reading.size === 0);
  }

  #settle(now: boolean): void {
    if (this.settled === now) return;
    this.settled = now;
    if (now) this.redraw();
  }

  async #fetch(names: string[], signal: AbortSignal): Promise<void> {
    const { runs } = this;
    const chart = this.charts.get(names[0]!)!;
    const { range } = chart;
    const rough = isCrowd(runs);
    const width = chart.element.parentElement?.parentElement?.clientWidth ?? 0;
    const ids = runs.map((r) => r.run_id);
    const expression = this.expressionOf(names[0]!);
    const asked = expression?.names ?? names;
    const part = range === undefined ? {} : { from: range[0], to: range[1] };
    const wanted = rough ? crowdWanted(ids, asked, isClose(chart) ? CLOSE_BUCKETS : undefined) : {
      runs: ids,
      names: asked,
      buckets: Math.min(MOST_BUCKETS, Math.max(150, Math.round(width / 2))),
      rough,
    };
    // Of a whole curve only what follows the buckets that are here.
    const before = (name: string) =>
      rough || range !== undefined || expression !== undefined ? undefined : this.#heldOf(name);
    const have = asked.map((name) =>
      ids.map((id) => haveOf(before(name)?.get(id), wanted.buckets))
    );
    const answers = await seriesOf(
      { ...wanted, ...part, ...(have.flat().some((one) => one !== null) ? { have } : {}) },
      signal,
    );
    if (signal.aborted) return;
    for (const [n, name] of asked.entries()) {
      answers[n] = answers[n]!.map((columns, r) =>
        joined(before(name)?.get(ids[r]!), columns, have[n]![r]!)
      );
    }
    if (expression !== undefined) {
      const curves = ids.map((_, r) =>
        computed(expression, answers.map((of) => of[r]!), names[0]!)
      );
      answers.splice(0, answers.length, curves);
    }
    const order = [...new Set(runs.flatMap((r) => r.group ?? []))].sort(groupOrder);
    for (const [n, name] of names.entries()) {
      const sets = runs.map((run, r): DataSet => ({
        runId: run.run_id,
        label: run.name,
        ...(run.group === undefined ? {} : { group: run.group }),
        color: colorCode(run.color),
        columns: answers[n]![r]!,
        startedAt: msOf(run.started_at),
      })).filter((s) => s.columns.last_x.length > 0)
        .sort((a, b) => order.indexOf(a.group ?? "") - order.indexOf(b.group ?? ""));
      this.#sets.set(name, sets);
      if (range === undefined && !rough && expression === undefined) this.#whole.add(name);
      else this.#whole.delete(name);
      this.#fresh.delete(name);
      this.#fresh.add(name);
      if (!this.rewound && sets.some((s) => s.columns.overwritten.includes(true))) {
        this.rewound = true;
        this.redraw();
      }
      this.#show(name);
      // Charts of many lines are drawn one per frame, so that clicks are handled in between.
      if (rough) await new Promise((resolve) => setTimeout(resolve));
    }
    this.#letGo();
  }

  /** The whole curves that are here, by run. */
  #heldOf(name: string): Map<string, SeriesColumns> | undefined {
    if (!this.#whole.has(name)) return undefined;
    return new Map(this.#sets.get(name)?.map(({ runId, columns }) => [runId, columns]));
  }

  /** Drops the points of the charts that were in sight longest ago. */
  #letGo(): void {
    let over = this.#sets.size - this.#inSight.size - MOST_KEPT;
    for (const name of this.#sets.keys()) {
      if (over <= 0) return;
      if (this.#inSight.has(name)) continue;
      this.#sets.delete(name);
      this.#fresh.delete(name);
      this.charts.get(name)?.rest();
      over--;
    }
  }

  destroy(): void {
    this.#gone.abort();
    this.#observer.disconnect();
    removeEventListener("mosaic-theme", this.#onTheme);
    for (const chart of this.charts.values()) chart.destroy();
  }
}

/** Needs more buckets than others. */
const isClose = ({ range, large }: Chart) => range !== undefined || large;

/**
 * The file of `mosaic report` with what these charts show. @param metrics the visible ones, if not
 * all
 */
async function reportOf(
  runs: ChartRun[],
  { x, band, log, overwritten }: ChartStyle,
  metrics?: string[],
): Promise<Blob> {
  const by = runs.some((r) => r.group !== undefined)
    ? new URLSearchParams(location.search).get("group") ?? ""
    : "";
  const response = await api.report.$post({
    json: {
      runs: runs.map((r) => r.run_id),
      ...(metrics === undefined ? {} : { metrics }),
      // In the command line's form.
      group_by: by.replace(/^parameter:/, "param.").replace(/^parameters$/, "params"),
      ...{ band, log, overwritten, time: x === "relative" || x === "wall" },
    },
  });
  if (!response.ok) await answer(Promise.resolve(response));
  return await response.blob();
}

/**
 * @param changes grows when the runs have new points
 * @param only one metric, over the seeds of each group: nothing else is shown
 */
export function Charts(
  { runs, changes, only }: { runs: ChartRun[]; changes: number; only?: string },
) {
  const redraw = useRedraw();
  const made = useRef<ChartReader>(undefined);
  const reader = made.current ??= new ChartReader(
    redraw,
    only === undefined ? {} : { band: "ci95" },
  );
  const [filter, setFilter] = useState(() =>
    new URLSearchParams(location.search).get("metrics") ?? ""
  );
  const [reporting, setReporting] = useState(false);
  reader.runs = runs;
  useEffect(() => void reader.refresh(), [
    changes,
    runs.map((r) => `${r.run_id} ${r.group}`).join(),
  ]);
  useEffect(() => () => reader.destroy(), []);

  const words = filter.toLowerCase().split(/[\s,]+/).filter((w) => w !== "");
  const { style } = reader;
  const names = only === undefined ? reader.names : reader.names.filter((name) => name === only);
  const single = only === undefined ? reader.single : [];
  const possible = only === undefined ? reader.possible : names;
  const left = only === undefined ? possible.filter((n) => reader.without.includes(n)) : [];
  // Who names a hidden metric wants to see it.
  const shown = words.length === 0
    ? possible.filter((n) => !left.includes(n))
    : possible.filter((n) => words.every((w) => n.toLowerCase().includes(w)));
  useEffect(() => reader.keep(shown));
  const grouped = runs.some((r) => r.group !== undefined);
  const pinned = new Set(reader.pinned);
  // A thousand cards at once would block the page: they are added some at a time, when the browser
  // is idle.
  const [cards, setCards] = useState(FIRST_CARDS);
  const all = [...shown.filter((n) => pinned.has(n)), ...shown];
  useEffect(() => {
    if (cards >= all.length || !reader.settled) return;
    const idle = requestIdleCallback(() => setCards(cards + CARDS_AT_ONCE), { timeout: 1000 });
    return () => cancelIdleCallback(idle);
  }, [cards, all.length, reader.settled]);
  const sectionFor = (name: string) =>
    pinned.has(name) ? PINNED : reader.expressions.includes(name) ? COMPUTED : sectionOf(name);
  const sections = new Map<string, Set<string>>();
  for (const name of all.slice(0, cards)) {
    const section = sectionFor(name);
    sections.set(section, sections.get(section) ?? new Set());
    sections.get(section)!.add(name);
  }
  const counts = new Map<string, number>();
  for (const name of shown) {
    const section = sectionFor(name);
    counts.set(section, (counts.get(section) ?? 0) + 1);
  }
  const settings = single.filter(([name]) => name.startsWith("config."));
  const values = single.filter(([name]) => !name.startsWith("config."));
  const terms = (of: typeof single, label: string) =>
    runs.length === 1
      ? <Terms kind="single" of={of.map(([name, [v]]) => [name, figure(v)])} />
      : (
        <ScrollTable
          label={label}
          kind="records"
          headings={["Name", ...runs.map((r) => [r.name, "num"] as const)]}
        >
          {of.map(([name, v]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {v.map((one, i) => <td key={i} class="num">{figure(one)}</td>)}
            </tr>
          ))}
        </ScrollTable>
      );
  return (
    <div class="chart-view">
      <div class="chart-tools">
        <label>
          X axis{" "}
          <select
            value={style.x}
            onChange={(e) => reader.restyle({ x: e.currentTarget.value as XMode })}
          >
            <option value="index">Step or episode</option>
            <option value="relative">Time since start</option>
            <option value="wall">Time of day</option>
            <optgroup label="A metric">
              {[...new Set([...names, ...[metricOf(style.x)].filter((n) => n !== undefined)])].map((
                name,
              ) => <option key={name} value={`metric:${name}`}>{name}</option>)}
            </optgroup>
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
          />{" "}
          <output>{style.smoothing.toFixed(2)}</output>
        </label>
        {grouped && (
          <label>
            Band{" "}
            <select
              value={style.band}
              onChange={(e) => reader.restyle({ band: e.currentTarget.value as Band })}
            >
              {Object.entries(BANDS).map(([band, label]) => (
                <option key={band} value={band}>{label}</option>
              ))}
            </select>
          </label>
        )}
        <label>
          <input
            type="checkbox"
            checked={style.log}
            onChange={(e) => reader.restyle({ log: e.currentTarget.checked })}
          />{" "}
          Log y
        </label>
        <label>
          <input
            type="checkbox"
            checked={style.logX}
            onChange={(e) => reader.restyle({ logX: e.currentTarget.checked })}
          />{" "}
          Log x
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
          aria-label="Show metrics whose names hold all of these words"
          hidden={names.length <= MANY && words.length === 0}
          value={filter}
          onInput={(e) => {
            setFilter(e.currentTarget.value);
            toAddress({ metrics: e.currentTarget.value });
          }}
        />
        {left.length > 0 && words.length === 0 && (
          <button
            type="button"
            title={left.join(", ")}
            onClick={() => reader.showAgain(left)}
          >
            {`Show ${left.length} hidden`}
          </button>
        )}
        {only === undefined && (
          <button
            type="button"
            title="A chart of other charts: a / b, a - b, max(a), min(a)"
            onClick={() =>
              attempt(async () => {
                const text = await ask({
                  title: "A computed chart",
                  text:
                    "Of two metrics a / b or a - b, or of one its highest or lowest value so far: max(a), min(a).",
                  confirm: "Draw it",
                  field: {
                    label: "Expression",
                    value: names[0] === undefined ? "" : `max(${names[0]})`,
                  },
                });
                if (text?.trim()) reader.compute(text.trim());
              })}
          >
            Compute …
          </button>
        )}
        {only === undefined && (
          <button
            type="button"
            title="One HTML file of these runs, to send to somebody without mosaic"
            disabled={reporting}
            onClick={async () => {
              setReporting(true);
              await attempt(async () =>
                saveFile(
                  "mosaic-report.html",
                  await reportOf(
                    runs,
                    style,
                    words.length > 0 ? shown.filter((n) => names.includes(n)) : undefined,
                  ),
                )
              );
              setReporting(false);
            }}
          >
            {reporting ? "Making the report …" : "Report"}
          </button>
        )}
      </div>
      <div class="sections">
        {[...sections].map(([section, names]) => {
          const charts = (
            <div class="charts">
              {[...names].map((name) => <Island key={name} of={reader.chart(name).element} />)}
            </div>
          );
          return section === ""
            ? <div key="" class="section" data-count={counts.get("")}>{charts}</div>
            : (
              <details
                key={section}
                class="section"
                data-count={counts.get(section)}
                open={!reader.folded.includes(section)}
                onToggle={(e) => reader.fold(section, !e.currentTarget.open)}
              >
                <summary>
                  {section} <span class="count">{counts.get(section)}</span>
                </summary>
                {charts}
              </details>
            );
        })}
      </div>
      {names.length === 0 && (
        <p class={reader.known ? "empty" : "empty awaited"}>
          {!reader.known
            ? "Loading …"
            : only === undefined
            ? "No episodes and no metrics yet."
            : `No curve of ${only} yet.`}
        </p>
      )}
      <div class="said-once">
        {values.length > 0 && !isCrowd(runs) && terms(values, "Values said once")}
        {single.length > 0 && isCrowd(runs) && (
          <details>
            <summary>{`${plural(single.length, "name")} said once by each run`}</summary>
            <p class="sub">The table of runs shows them as columns.</p>
            <p class="mono">{single.map(([name]) => name).join(", ")}</p>
          </details>
        )}
        {settings.length > 0 && !isCrowd(runs) && (
          <details>
            <summary>{`${plural(settings.length, "setting")} reported by the worker`}</summary>
            {terms(settings, "Settings reported by the workers")}
          </details>
        )}
      </div>
    </div>
  );
}
