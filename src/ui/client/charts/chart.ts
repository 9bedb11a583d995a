/**
 * One chart: for each data set a mean line in its min/max band. uPlot draws; this file decides
 * what.
 */
import uPlot from "npm:uplot@1.6.32";
import type { SeriesColumns } from "../../api/page_json.ts";
import { around, Crowd, valueAt } from "./crowd.ts";
import { isCrowd } from "../parts/early.ts";
import { colorCode } from "../parts/colors.ts";
import { attempt, notice } from "../parts/dialog.tsx";
import { endsKept, h, iconButton, saveFile, setText } from "../parts/dom.ts";
import { figure, plural, whole } from "../parts/format.ts";
import { clock, duration } from "../../../base/text/format.ts";
import { csv } from "../../../base/text/csv_text.ts";
import {
  type ChartStyle,
  type DataSet,
  isSparse,
  type Line,
  linesOf,
  metricOf,
  type Own,
  OWN_AS_OTHERS,
  type XMode,
  xOf,
} from "./chart_lines.ts";
import { picked, piecesOf, pointsBetween, quantiles } from "./smoothing.ts";
import { hideTip, showTip } from "./tip.ts";

/** A clicked point on the curve of one run; the detail of the event `mosaic-pick`. */
export interface CurvePoint {
  /** Of `x`. */
  unit: string;
  /** In the series' own numbering. */
  x: number;
  step: number | null;
  /** Unix milliseconds. */
  at: number;
}

/** In the series' own numbering. */
export type Range = [first: number, last: number];

const DOUBLE_CLICK_MS = 300;
/** Rows of the table behind a chart. */
const TABLE_ROWS = 200;
/** The chart under the pointer, and the pointer's place in the window. */
let pointed: { chart: Chart; at: readonly [left: number, top: number] } | undefined;
/** The run under the cursor, in all charts of crowds. */
let pointedAt = "";
const crowds = new Set<Chart>();
/** Series of a line after x. */
const PER_LINE = 5;

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @param color `#rrggbb` */
function faint(color: string, alpha: number): string {
  return color + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

/** The point of a line that is nearest to a position within it. */
function nearest({ table }: Line, at: number): number | undefined {
  const [x, y] = [table[0], table[4]!];
  const place = around(x, at);
  if (place === undefined) return undefined;
  const [low, high] = place;
  const i = at - x[low]! < x[high]! - at ? low : high;
  return (y[i] ?? null) === null ? undefined : i;
}

/** Values without neighbours, which a line would not show. */
function isolatedValues(values: ArrayLike<number | null | undefined>): number[] {
  const found: number[] = [];
  // undefined only means that another line has this x; null is a gap.
  let before: number | null = null;
  let candidate = -1;
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (v === undefined) continue;
    if (v === null) {
      if (candidate >= 0) found.push(candidate);
      candidate = -1;
    } else candidate = before === null ? i : -1;
    before = v;
  }
  return candidate >= 0 ? [...found, candidate] : found;
}

/** Share of the values at each end that count as outliers. */
const OUTLIERS = 0.02;

export interface ChartEvents {
  onzoom(): void;
  onpin(): void;
  /** It goes: a computed chart for good, another is hidden. */
  onleave(): void;
  /** Labels of the lines that are hidden from now on. */
  onhide(labels: string[]): void;
  /** `own` has changed: the chart is to be shown again. */
  onview(): void;
  /** What its settings offer. */
  choices(): { metrics: readonly string[]; expression?: string };
  /** It becomes a computed chart; one that is none stays beside it. @throws Error */
  onexpress(text: string): void;
}

export class Chart {
  #sets: DataSet[] = [];
  /** The visible ones. */
  #lines: Line[] = [];
  #all: Line[] = [];
  own: Own = OWN_AS_OTHERS;
  #plot: uPlot | undefined;
  #drawnAs = "";
  #style: ChartStyle = {
    ...{
      x: "index",
      smoothing: 0,
      log: false,
      logX: false,
      band: "sd",
      overwritten: true,
      hidden: [],
    },
  };
  /** Of all charts, before what this one sets itself. */
  #shared = this.#style;
  #holder = h("div", {
    class: "plot",
    role: "img",
    tabIndex: 0,
    onkeydown: (event: KeyboardEvent) => this.#onKey(event),
  });
  /** The same data as a table; empty until it is opened. */
  #figures = h("div", { class: "figures table-scroll", hidden: true });
  #asTable: HTMLButtonElement | undefined;
  #withoutOutliers: HTMLButtonElement | undefined;
  #readout = h("span", { class: "readout" });
  #nonFinite = h("p", { class: "non-finite" });
  #legend = h("div", { class: "legend" });
  /** As wide as the page. */
  large = false;
  #pin: HTMLButtonElement | undefined;
  #pinned = false;
  readonly #resize = new ResizeObserver(() => this.#plot?.setSize(this.#size()));
  #crowd: Crowd | undefined;
  /** Draws the line at the pointer over the others, if there are several. */
  #marker: Crowd | undefined;
  /** Text below the chart while no line is pointed at. */
  #crowdText = "";
  /** The data sets of the last whole view. */
  #whole: DataSet[] = [];
  readonly element: HTMLElement;

  /** Over time even if others are over steps: what the daemon measured has no steps. */
  ownAxis = false;

  /** The zoomed range; undefined: everything. */
  range: Range | undefined;
  /** The same as positions, because the answer may also contain points of other attempts there. */
  #window: { x: XMode; from: number; to: number } | undefined;

  /** @param unit of x */
  constructor(
    readonly title: string,
    readonly unit: string,
    readonly events: ChartEvents,
    readonly isComputed = false,
  ) {
    this.#holder.setAttribute("aria-label", `${title}: no points yet`);
    this.element = h(
      "section",
      { class: "chart", "aria-label": title },
      h(
        "header",
        {},
        h("h2", { title, "aria-label": title }, endsKept(title)),
        this.#readout,
        this.#buttons(),
      ),
      this.#holder,
      this.#nonFinite,
      this.#legend,
      this.#figures,
    );
    let pressedAt = 0;
    this.#holder.addEventListener("mousedown", (event) => pressedAt = event.clientX);
    let picking: ReturnType<typeof setTimeout> | undefined;
    this.#holder.addEventListener("click", (event) => {
      clearTimeout(picking);
      if (Math.abs(event.clientX - pressedAt) >= 4 || event.detail > 1) return;
      // Not the plot's cursor: a plot that new points have made under a pointer at rest has none.
      const { left: edge } = (this.#plot?.over ?? this.#holder).getBoundingClientRect();
      const left = event.clientX - edge;
      // It may be the first of two clicks, which show everything again.
      picking = setTimeout(() => this.#pick(left), this.range === undefined ? 0 : DOUBLE_CLICK_MS);
    });
    this.#holder.addEventListener("dblclick", () => {
      clearTimeout(picking);
      if (this.range !== undefined) this.#zoomTo(undefined);
    });
    // Before the plot hears of it.
    this.#holder.addEventListener("mousemove", ({ clientX, clientY }) => {
      pointed = { chart: this, at: [clientX, clientY] };
    }, true);
    this.#holder.addEventListener("mouseleave", () => {
      pointed = undefined;
      hideTip();
    });
    this.#holder.addEventListener("blur", hideTip);
    this.#resize.observe(this.#holder);
  }

  /**
   * Made at once, not when the chart comes into view: Tab would skip buttons that appear before the
   * focused element.
   */
  #buttons(): HTMLElement {
    const { title } = this;
    const larger = iconButton("larger", `Larger chart of ${title}`, () => {
      this.large = !this.large;
      larger.setAttribute("aria-pressed", String(this.large));
      this.element.toggleAttribute("data-large", this.large);
      this.events.onzoom();
    });
    const more = iconButton("more", `More of ${title}`, () => {});
    // There may be thousands of charts, and few of their menus are ever opened.
    const addMenu = () => {
      if (more.popoverTargetElement !== null) return;
      const menu = this.#menu(more);
      more.after(menu);
      more.popoverTargetElement = menu;
    };
    for (const event of ["focus", "click"]) more.addEventListener(event, addMenu);
    const reset = iconButton("reset", `Show all of ${title}`, () => this.#zoomTo(undefined));
    return h("span", { class: "chart-buttons" }, reset, larger, more);
  }

  #menu(more: HTMLButtonElement): HTMLElement {
    const { title } = this;
    const item = (text: string, label: string, does: () => void) =>
      h("button", {
        type: "button",
        "aria-label": label,
        onclick: () => {
          menu.hidePopover();
          does();
        },
      }, text);
    this.#asTable = item(
      "Table",
      `Table of ${title}`,
      () => this.#showFigures(this.#figures.hidden === true),
    );
    this.#asTable.setAttribute("aria-pressed", String(!this.#figures.hidden));
    this.#pin = item("Keep on top", `Keep ${title} on top`, () => this.events.onpin());
    this.pinned(this.#pinned);
    const menu = h(
      "div",
      { class: "menu", popover: "auto" },
      item("Zoom into the last half", `Zoom into the last half of ${title}`, () => this.#zoomIn()),
      this.#asTable,
      this.#pin,
      item(
        "Full screen",
        `Full screen of ${title}`,
        () => attempt(() => this.element.requestFullscreen()),
      ),
      item(
        "Settings …",
        `Settings of ${title}`,
        () => attempt(() => this.#openSettings(more)),
      ),
      this.#withoutOutliers = item("Without outliers", `${title} without outliers`, () => {
        this.own = { ...this.own, trimmed: !this.own.trimmed };
        this.#ownChanged();
      }),
      this.isComputed
        ? item("Remove", `Remove ${title}`, () => this.events.onleave())
        : item("Hide", `Hide ${title}`, () => this.events.onleave()),
      item("Download as CSV", `Download ${title} as CSV`, () => this.#saveCsv()),
      item("Download as PNG", `Download ${title} as PNG`, () => this.#saveFigure("png")),
      item("Download as SVG", `Download ${title} as SVG`, () => this.#saveFigure("svg")),
    );
    this.#withoutOutliers.setAttribute("aria-pressed", String(this.own.trimmed));
    menu.addEventListener("toggle", () => {
      const { right, bottom } = more.getBoundingClientRect();
      menu.style.inset = `${Math.min(bottom, innerHeight - menu.offsetHeight)}px auto auto ${
        Math.max(0, right - menu.offsetWidth)
      }px`;
    });
    return menu;
  }

  async #openSettings(near: HTMLElement): Promise<void> {
    const { openSettings } = await import("./chart_settings.tsx");
    openSettings(near, {
      ...{ title: this.title, own: this.own, shared: this.#shared },
      ...this.events.choices(),
      sparse: this.#sets.every(({ columns }) => isSparse(columns)),
      change: (own) => {
        this.own = own;
        this.#ownChanged();
      },
      express: (text) => this.events.onexpress(text),
    });
  }

  #ownChanged(): void {
    this.#withoutOutliers?.setAttribute("aria-pressed", String(this.own.trimmed));
    this.#drawnAs = "";
    this.events.onview();
  }

  /** The y axis for these values. */
  #rangeOfY(u: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
    const { log } = this.#style;
    let [from, to] = [low, high];
    if (this.own.trimmed) {
      const x = u.scales.x!;
      const inside = this.#lines.flatMap(({ table }) =>
        (table[4] as (number | null)[]).filter((v, i) =>
          v !== null && table[0][i]! >= x.min! && table[0][i]! <= x.max!
        )
      );
      [from, to] = quantiles(inside as number[], [OUTLIERS, 1 - OUTLIERS]) as [
        number | null,
        number | null,
      ];
    }
    const found = from === null || to === null
      ? this.#crowd?.range() ?? (log ? [0.1, 1] : [0, 1])
      : this.#crowd !== undefined && !this.own.trimmed
      ? this.#crowd.range()
      : log
      ? uPlot.rangeLog(from, to, 10, false)
      : uPlot.rangeNum(from, to, 0.1, true);
    const [least, most] = this.own.y;
    const chosen: uPlot.Range.MinMax = [
      log && (least ?? 1) <= 0 ? found[0] : least ?? found[0],
      most ?? found[1],
    ];
    const shown = chosen[0]! < chosen[1]! ? chosen : found;
    this.#holder.dataset.top = String(shown[1]);
    return shown;
  }

  /** The style sheet sets the height of charts. */
  #size() {
    return {
      width: Math.max(200, Math.floor(this.#holder.clientWidth)),
      height: Math.max(100, Math.floor(this.#holder.clientHeight)),
    };
  }

  pinned(on: boolean): void {
    this.#pinned = on;
    this.#pin?.setAttribute("aria-pressed", String(on));
  }

  /** Draws again, with new colours. */
  restyle() {
    this.#drawnAs = "";
    this.show(this.#sets, this.#shared);
  }

  show(all: DataSet[], chosen: ChartStyle): void {
    if (this.range === undefined) this.#whole = all;
    this.element.removeAttribute("aria-busy");
    this.#shared = chosen;
    const own = { ...chosen, ...this.own.style };
    const style = this.ownAxis && own.x === "index" ? { ...own, x: "relative" as const } : own;
    const within = this.#window?.x === style.x ? this.#window : undefined;
    const inside = within === undefined ? all : all.map((set) => {
      const xs = set.columns.over ??
        piecesOf(set.columns).flatMap((columns) => xOf({ ...set, columns }, style.x));
      return {
        ...set,
        columns: picked(set.columns, (_, i) => xs[i]! >= within.from && xs[i]! <= within.to),
      };
    }).filter((set) => set.columns.last_x.length > 0);
    // A bucket may span a position although none of its points is there.
    const sets = inside.length > 0 ? inside : all;
    this.#sets = sets;
    this.#style = style;
    this.#all = linesOf(sets, style, colorCode("var(--muted)"));
    const hidden = new Set(style.hidden);
    this.#lines = this.#all.filter(({ label }) => !hidden.has(label));
    const tables = this.#lines.map((l) => l.table);
    crowds.delete(this);
    const asPaths = () =>
      new Crowd(
        this.#lines.map(({ label, color, table }) => ({
          ...{ label, color },
          x: table[0] as number[],
          y: table[4] as (number | null)[],
        })),
        style.log,
      );
    this.#crowd = isCrowd(this.#all) ? asPaths() : undefined;
    this.#marker = this.#crowd ?? (tables.length > 1 ? asPaths() : undefined);
    const data = this.#crowd !== undefined
      ? this.#crowd.data()
      : tables.length === 1
      ? tables[0]
      : tables.length === 0
      ? undefined
      // A gap stays a gap where other lines have points inside it.
      : uPlot.join(tables, tables.map((table) => table.map(() => 2 as const)));
    const shape = JSON.stringify([
      this.#crowd === undefined ? this.#lines.map((l) => [l.label, l.color, l.raw]) : "crowd",
      style.x,
      style.log,
      style.logX,
    ]);
    if (data === undefined) {
      this.#plot?.destroy();
      this.#plot = undefined;
      this.#drawnAs = "";
    } else if (this.#plot === undefined || shape !== this.#drawnAs) {
      this.#plot?.destroy();
      this.#plot = new uPlot(this.#options(), data, this.#holder);
      this.#drawnAs = shape;
    } else this.#plot.setData(data);
    this.#legend.classList.toggle("crowd", this.#crowd !== undefined);
    this.#describe();
    if (!this.#figures.hidden) this.#fillFigures();
  }

  #showFigures(on: boolean): void {
    this.#figures.hidden = !on;
    this.#asTable?.setAttribute("aria-pressed", String(on));
    on ? this.#fillFigures() : this.#figures.replaceChildren();
  }

  #fillFigures(): void {
    const head = (text: string) => h("th", { scope: "col" }, text);
    const fill = (caption: string, heads: string[], rows: HTMLElement[]) => {
      this.#figures.setAttribute("role", "region");
      this.#figures.setAttribute("aria-label", `Table of ${this.title}`);
      this.#figures.tabIndex = 0;
      this.#figures.replaceChildren(h(
        "table",
        { class: "records" },
        h("caption", {}, `${this.title}: ${caption}`),
        h("thead", {}, h("tr", {}, heads.map(head))),
        h("tbody", {}, rows),
      ));
    };
    if (this.#crowd !== undefined) {
      const { lines } = this.#crowd;
      const tableRows = lines.slice(0, TABLE_ROWS).map(({ label, x, y }) => {
        const known = y.filter((v) => v !== null);
        const figures = [
          known.at(-1),
          known.reduce((a, b) => Math.min(a, b), Infinity),
          known.reduce((a, b) => Math.max(a, b), -Infinity),
        ];
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, label),
          figures.map((v) => h("td", { class: "num" }, known.length === 0 ? "" : figure(v))),
          h("td", { class: "num" }, this.#figureOfX(x.at(-1) ?? 0)),
        );
      });
      const of = tableRows.length < lines.length
        ? `the first ${tableRows.length} of ${lines.length} runs`
        : plural(lines.length, "run");
      return fill(of, ["run", "last", "lowest", "highest", this.#xName], tableRows);
    }
    const { x = [], rows, of } = this.#places();
    const cell = (line: number, i: number) => {
      const at = (n: number) =>
        this.#plot!.data[line * PER_LINE + n]?.[i] as number | null | undefined;
      const value = at(3) ?? at(4) ?? null;
      if (value === null) return "";
      const range = (at(1) ?? null) === null || at(1) === at(2)
        ? ""
        : ` (${figure(at(1))} to ${figure(at(2))})`;
      return figure(value) + range + ((at(5) ?? null) === null ? "" : `, ${plural(at(5)!, "run")}`);
    };
    fill(
      of === rows.length ? plural(of, "row") : `${rows.length} of ${of} rows, evenly`,
      [this.#xName, ...this.#lines.map((l) => l.label)],
      rows.map((i) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, this.#figureOfX(x[i]!)),
          this.#lines.map((_, l) => h("td", { class: "num" }, cell(l, i))),
        )
      ),
    );
  }

  /** Up to a maximum number of positions on the x axis, from the first to the last. */
  #places() {
    const x = this.#plot?.data[0];
    const of = x?.length ?? 0;
    const most = Math.min(of, TABLE_ROWS);
    return {
      x,
      of,
      rows: Array.from(
        { length: most },
        (_, i) => most < 2 ? i : Math.round(i * (of - 1) / (most - 1)),
      ),
    };
  }

  /** Keyboard equivalents of the mouse: the cursor, and zooming around it. */
  #onKey(event: KeyboardEvent): void {
    const plot = this.#plot;
    if (plot === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const xs = plot.data[0];
    const by = event.shiftKey ? 10 : 1;
    const at = plot.cursor.idx ?? xs.length - 1;
    const to = { ArrowLeft: at - by, ArrowRight: at + by, Home: 0, End: xs.length - 1 }[event.key];
    if (to !== undefined) {
      const x = xs[Math.min(xs.length - 1, Math.max(0, to))]!;
      plot.setCursor({ left: plot.valToPos(x, "x"), top: plot.over.clientHeight / 2 });
    } else if (event.key === "+" || event.key === "=") {
      const quarter = (xs.at(-1)! - xs[0]!) / 4;
      this.#zoomBetween(xs[at]! - quarter, xs[at]! + quarter);
    } else if (event.key === "-" || event.key === "0") this.#zoomTo(undefined);
    else if (event.key === "b") this.#showFigures(this.#figures.hidden === true);
    else return;
    event.preventDefault();
  }

  #options(): uPlot.Options {
    const { x, log } = this.#style;
    const ink = css("--muted");
    const line = css("--line");
    const font = `11px ${css("--font")}`;
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    const crowd = this.#crowd !== undefined;
    if (crowd) series.push({ stroke: "transparent", points: { show: false } });
    else {this.#lines.forEach(({ label, color, runs, faded, raw }, i) => {
        const none = { points: { show: false }, stroke: "transparent", width: 0 };
        series.push(
          { ...none, label: `${label} min` },
          { ...none, label: `${label} max` },
          {
            ...none,
            label: `${label} raw`,
            stroke: faint(color, 0.35),
            width: 1,
            show: raw === true,
          },
          {
            label,
            stroke: color,
            width: faded ? 1.25 : 1.75,
            ...(faded ? { dash: [5, 4] } : {}),
            points: {
              show: false,
              size: 4,
              fill: color,
              filter: (u, i) => isolatedValues(u.data[i]!),
            },
          },
          { label: `${label} runs`, show: false },
        );
        if (faded) return;
        bands.push({
          series: [i * PER_LINE + 2, i * PER_LINE + 1],
          fill: faint(color, runs > 1 ? 0.24 : 0.14),
        });
      });}
    const axis: uPlot.Axis = {
      stroke: ink,
      font,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
    };
    return {
      ...this.#size(),
      scales: {
        x: { time: x === "wall", distr: isLogX(this.#style) ? 3 : 1 },
        y: { distr: log ? 3 : 1, range: (u, low, high) => this.#rangeOfY(u, low, high) },
      },
      series,
      bands,
      axes: [
        {
          ...axis,
          size: 26,
          ...(metricOf(x) !== undefined
            ? { values: (_, v) => v.map((n) => n === null ? "" : compact(n)) }
            : {}),
          ...(x === "index"
            ? {
              values: (_, v) =>
                v.map((n) => n === null ? "" : Number.isInteger(n) ? compact(n) : ""),
            }
            : {}),
          ...(x === "relative" ? { values: (_, v) => v.map((n) => duration(n * 1000)) } : {}),
        },
        { ...axis, size: 52, values: (_, v) => v.map((n) => n === null ? "" : compact(n)) },
      ],
      legend: { show: false },
      cursor: {
        drag: { x: true, y: false, setScale: false },
        // An element of each series, five for each line, that moves with the pointer; of several
        // lines the nearest is marked.
        points: this.#lines.length > 1 ? { show: false } : { size: 6 },
        // Other charts over the same axis show the same cursor; a zoom affects one chart only.
        sync: {
          key: x === "index" ? this.unit : x,
          scales: ["x", null],
          filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
        },
      },
      hooks: {
        setCursor: [(u) => this.#point(u)],
        setSelect: [(u) => this.#select(u)],
        draw: [(u) => this.#crowd?.draw(u)],
      },
    };
  }

  /**
   * At each move of the pointer, in each chart over the same axis: what is not drawn for it is not
   * computed, and nothing is measured.
   */
  #point(u: uPlot): void {
    const i = u.cursor.idx;
    if (i === null || i === undefined || this.#lines.length === 0) {
      if (pointed === undefined) pointedAt = "";
      this.#marker?.mark(u, undefined, "");
      return this.#describe();
    }
    if (this.#crowd !== undefined) return this.#pointInCrowd(u, this.#crowd);
    const x = u.data[0]?.[i] ?? 0;
    const [only] = this.#lines;
    if (this.#lines.length === 1) {
      return setText(
        this.#readout,
        `${textAt(only!, nearest(only!, x), true)}  at ${this.#place(x)}`,
      );
    }
    if (!this.#isPointed()) return this.#marker?.mark(u, undefined, "");
    setText(this.#readout, `at ${this.#place(x)}`);
    const { left = 0, top = 0 } = u.cursor;
    const index = this.#marker!.nearest(u, left, top);
    this.#marker!.mark(u, index, colorCode("var(--ink)"));
    const rows = this.#lines.flatMap((line) => {
      const at = nearest(line, x);
      return at === undefined ? [] : { line, at, value: shownAt(line, at)! };
    }).sort((a, b) => b.value - a.value).map(({ line, at }) => ({
      ...{ color: line.color, label: line.label },
      text: () => textAt(line, at, line.runs > 1),
      near: line === this.#lines[index ?? -1],
    }));
    const [across, down] = pointed?.chart === this
      ? pointed.at
      : (({ left: l, top: t }) => [l + left, t + top] as const)(u.over.getBoundingClientRect());
    showTip(this.#place(x), rows, across, down);
  }

  /** By the pointer or, with keys, by the focus. */
  #isPointed(): boolean {
    return pointed === undefined ? document.activeElement === this.#holder : pointed.chart === this;
  }

  /** The nearest line comes to the front, here and in the other charts, which follow the cursor. */
  #pointInCrowd(u: uPlot, crowd: Crowd): void {
    const { left = 0, top = -1 } = u.cursor;
    if (this.#isPointed()) {
      const index = crowd.nearest(u, left, top);
      pointedAt = index === undefined ? "" : crowd.lines[index]!.label;
      if (index === undefined) hideTip();
      for (const chart of crowds) chart.#frontInCrowd();
    } else this.#frontInCrowd();
  }

  #frontInCrowd(): void {
    const [plot, crowd] = [this.#plot, this.#crowd];
    if (plot === undefined || crowd === undefined) return;
    const index = crowd.lines.findIndex(({ label }) => label === pointedAt);
    const line = crowd.lines[index];
    crowd.mark(plot, line === undefined ? undefined : index, css("--ink"));
    if (line === undefined) return setText(this.#legend, this.#crowdText);
    const { left = -1 } = plot.cursor;
    // The pointer is in a chart over another axis.
    if (left < 0) return setText(this.#legend, line.label);
    const x = plot.posToVal(left, "x");
    const value = figure(valueAt(line, x));
    setText(this.#legend, `${line.label} ${value} at ${this.#place(x)}`);
    if (pointed?.chart !== this) return;
    const { color, label } = line;
    showTip(this.#place(x), [{ color, label, text: () => value, near: true }], ...pointed.at);
  }

  /** A position on the x axis as text. */
  #place(x: number): string {
    const named = this.#style.x === "index" || metricOf(this.#style.x) !== undefined;
    return named ? `${this.#xName} ${this.#figureOfX(x)}` : this.#figureOfX(x);
  }

  get #xName(): string {
    return metricOf(this.#style.x) ?? (this.#style.x === "index" ? this.unit : "time");
  }

  #figureOfX(x: number): string {
    if (metricOf(this.#style.x) !== undefined) return figure(x);
    if (this.#style.x === "index") return whole(Math.round(x));
    return this.#style.x === "wall" ? clock(x * 1000) : duration(x * 1000);
  }

  #describeCrowd(crowd: Crowd): void {
    const lasts = this.#lines.flatMap(({ last }) => last ?? []);
    const [low, high] = [
      lasts.reduce((a, b) => Math.min(a, b), Infinity),
      lasts.reduce((a, b) => Math.max(a, b), -Infinity),
    ];
    const runs = plural(crowd.lines.length, this.#sets[0]?.group === undefined ? "run" : "group");
    this.#readout.textContent = "";
    this.#nonFinite.textContent = "";
    const most = this.#sets.reduce((n, { columns }) => Math.max(n, columns.last_x.length), 0);
    this.#holder.setAttribute(
      "aria-label",
      `${this.title}: ${runs}, last ${figure(low)} to ${figure(high)}`,
    );
    this.#holder.dataset.points = String(
      this.#sets.reduce((n, { columns }) => n + columns.last_x.length, 0),
    );
    this.#holder.dataset.view = crowd.view.join();
    this.#legend.dataset.labels = "";
    this.#crowdText = `${runs}, ${plural(most, "place")} each at most${
      this.large || this.range ? "" : ": zoom or enlarge for more"
    }. Point at a line for its name.`;
    crowds.add(this);
    this.#frontInCrowd();
  }

  #describe() {
    if (this.#crowd !== undefined) return this.#describeCrowd(this.#crowd);
    const current = this.#lines.filter(({ faded }) => !faded);
    const parts = current.map(({ label, last }) =>
      current.length === 1 ? figure(last) : `${label} ${figure(last)}`
    );
    // The text for the cursor's position stays while new points arrive.
    const pointing = (this.#plot?.cursor.idx ?? null) !== null;
    if (!pointing) {
      this.#readout.textContent = current.length === 1 ? parts[0]! : "";
    }
    const shown = (columns: SeriesColumns, i: number) =>
      this.#style.overwritten || !columns.overwritten[i];
    const points = this.#sets.reduce(
      (n, { columns }) => n + columns.count.reduce((a, b, i) => shown(columns, i) ? a + b : a, 0),
      0,
    );
    // A bucket counts only its finite points.
    const reached = this.#sets.reduce(
      (n, { columns }) =>
        n +
        columns.last_x.reduce(
          (sum, x, i) => shown(columns, i) ? sum + x - columns.first_x[i]! + 1 : sum,
          0,
        ),
      0,
    );
    const damaged = this.#sets.reduce(
      (n, { columns }) =>
        n + columns.last_x.reduce(
          (sum, x, i) =>
            columns.damaged[i] && shown(columns, i) ? sum + x - columns.first_x[i]! + 1 : sum,
          0,
        ),
      0,
    );
    const nonFinite = reached - points - damaged;
    const missing = [
      nonFinite > 0 && `${plural(nonFinite, "point")} NaN or infinite`,
      damaged > 0 && `${whole(damaged)} damaged (mosaic doctor lists them)`,
    ].filter(Boolean).join(", ");
    setText(this.#nonFinite, missing);
    this.#holder.setAttribute(
      "aria-label",
      `${this.title}: ${whole(points)} points, ${missing === "" ? "" : `${missing}, `}last ${
        parts.join(", ") || "none"
      }`,
    );
    this.#holder.dataset.points = String(points);
    const legend = this.#all.length > 1 || (this.#all[0]?.runs ?? 0) > 1 ? this.#all : [];
    const shownNow = new Set(this.#lines);
    const labels = legend.map((l) => `${l.label} ${l.color} ${l.runs} ${shownNow.has(l)}`).join(
      "\n",
    );
    const values = () => {
      if (pointing) return;
      this.#legend.querySelectorAll(".value").forEach((place, l) =>
        setText(place, lastText(this.#all[l]))
      );
    };
    if (this.#legend.dataset.labels === labels) return values();
    this.#legend.dataset.labels = labels;
    this.#legend.replaceChildren(
      ...legend.map((line, l) => this.#legendEntry(line, l, shownNow.has(line))),
    );
    values();
  }

  /** Hides its line, or shows it alone. */
  #legendEntry({ label, color, runs, faded }: Line, index: number, shown: boolean): HTMLElement {
    const mark = h("span", { class: faded ? "mark dashed" : "mark" });
    mark.style.color = color;
    const others = this.#all.flatMap((line) => line.label === label ? [] : line.label);
    const hidden = this.#style.hidden;
    return h(
      "button",
      {
        ...{ type: "button", "aria-pressed": String(shown), "data-line": index },
        title: "Click to hide or show it, double click or Shift-click to see it alone",
        onclick: ({ detail, shiftKey }: MouseEvent) => {
          const alone = shiftKey || detail === 2;
          const isAlone = shown && others.every((one) => hidden.includes(one));
          this.events.onhide(
            alone
              ? (isAlone ? [] : others)
              : shown
              ? [...hidden, label]
              : hidden.filter((one) => one !== label),
          );
        },
        onmouseenter: () => {
          const at = this.#lines.findIndex((line) => line.label === label);
          if (this.#plot && at >= 0) this.#marker?.mark(this.#plot, at, colorCode("var(--ink)"));
        },
        onmouseleave: () => this.#plot && this.#marker?.mark(this.#plot, undefined, ""),
      },
      mark,
      runs > 1 ? `${label} (${plural(runs, "run")})` : label,
      " ",
      h("span", { class: "value" }),
    );
  }

  #select(u: uPlot): void {
    if (u.select.width < 6) return;
    const from = u.posToVal(u.select.left, "x");
    const to = u.posToVal(u.select.left + u.select.width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#zoomBetween(from, to);
  }

  #zoomBetween(from: number, to: number): void {
    const range = this.#indexRange(from, to);
    // Other points may be between the recorded ones.
    const beside = this.#sets.some(({ columns }) =>
      columns.over !== undefined || columns.attempt.some((a) => a !== null)
    );
    if (range !== undefined) {
      this.#zoomTo(range, beside ? { x: this.#style.x, from, to } : undefined);
    } else {notice(
        `${this.title}: nothing was recorded between ${this.#place(from)} and ${this.#place(to)}`,
      );}
  }

  /** Reports the point of a run's curve that is nearest to a click. */
  #pick(left: number): void {
    const [set] = this.#sets;
    if (set === undefined || this.#sets.length > 1 || left < 0 || this.#plot === undefined) return;
    const x = this.#plot.posToVal(left, "x");
    const xs = xOf(set, this.#style.x);
    let i = 0;
    for (let n = 1; n < xs.length; n++) if (Math.abs(xs[n]! - x) < Math.abs(xs[i]! - x)) i = n;
    const { last_x, step, at } = set.columns;
    const detail: CurvePoint = {
      unit: this.unit,
      x: last_x[i]!,
      step: step[i] ?? null,
      at: at[i]!,
    };
    this.element.dispatchEvent(new CustomEvent("mosaic-pick", { bubbles: true, detail }));
  }

  /** Converts positions on the x axis to the series' own numbering. */
  #indexRange(from: number, to: number): Range | undefined {
    const plain = this.#style.x === "index" &&
      this.#sets.every((s) => s.columns.step.every((n) => n === null));
    if (plain) return [Math.max(0, Math.floor(from)), Math.ceil(to)];
    const ranges = this.#sets.flatMap((set) =>
      piecesOf(set.columns).flatMap((columns) => {
        const range = pointsBetween(xOf({ ...set, columns }, this.#style.x), columns, from, to);
        return range === undefined ? [] : [range];
      })
    );
    if (ranges.length === 0) return undefined;
    return [
      Math.min(...ranges.map(([first]) => first)),
      Math.max(...ranges.map(([, last]) => last)),
    ];
  }

  #zoomIn() {
    const first = Math.min(...this.#sets.map((s) => s.columns.first_x[0] ?? 0));
    const last = Math.max(...this.#sets.map((s) => s.columns.last_x.at(-1) ?? 0));
    if (last - first >= 4) this.#zoomTo([Math.floor((first + last) / 2), last]);
  }

  /** The new part is drawn at once from existing data; the daemon's buckets of it follow. */
  #zoomTo(range: Range | undefined, window?: { x: XMode; from: number; to: number }): void {
    this.range = range;
    this.#window = window;
    this.element.toggleAttribute("data-zoomed", range !== undefined);
    if (range === undefined) this.show(this.#whole, this.#shared);
    else this.#preview(range);
    this.element.setAttribute("aria-busy", "true");
    this.events.onzoom();
  }

  #preview([first, last]: Range): void {
    let [from, to] = [Infinity, -Infinity];
    for (const { columns, startedAt } of this.#sets) {
      const xs = xOf({ columns, startedAt }, this.#style.x);
      columns.last_x.forEach((x, i) => {
        if (x < first || columns.first_x[i]! > last) return;
        from = Math.min(from, columns.first_x[i]! < first ? xs[i]! : xs[i - 1] ?? xs[i]!);
        to = Math.max(to, xs[i]!);
      });
    }
    if (!(from < to) || this.#plot === undefined) return;
    if (this.#crowd !== undefined) {
      this.#crowd.view = [from, to];
      this.#crowd.mark(this.#plot, undefined, "");
    }
    this.#holder.dataset.view = `${from},${to}`;
    this.#plot.setScale("x", { min: from, max: to });
  }

  #fileName() {
    return this.title.replace(/[^\w.-]+/g, "_");
  }

  #saveCsv() {
    const rows: unknown[][] = [];
    for (const { label, columns: c } of this.#sets) {
      c.last_x.forEach((x, i) => {
        if (!this.#style.overwritten && c.overwritten[i]) return;
        rows.push([
          ...[label, c.name, c.first_x[i], x, c.step[i], new Date(c.at[i] ?? 0).toISOString()],
          ...[c.mean[i], c.min[i], c.max[i], c.count[i], c.attempt[i], c.overwritten[i]],
        ]);
      });
    }
    const names = "run,series,first_x,last_x,step,time,mean,min,max,count,attempt,overwritten"
      .split(",");
    saveFile(`${this.#fileName()}.csv`, new Blob([csv(names, rows)], { type: "text/csv" }));
  }

  /** With title, axes and legend, at the size of a printed page. */
  #saveFigure(format: "svg" | "png"): void {
    const { x, y } = this.#plot?.scales ?? {};
    if (x === undefined || y === undefined) return;
    const { log, x: axis } = this.#style;
    attempt(async () => {
      const { figureFile } = await import("./figure.ts");
      const blob = await figureFile(format, {
        ...{ title: this.title, xName: this.#xName, log, logX: isLogX(this.#style) },
        xText: (v: number) =>
          axis === "index" || metricOf(axis) !== undefined ? compact(v) : this.#figureOfX(v),
        yText: compact,
        x: [x.min!, x.max!],
        y: [y.min!, y.max!],
        lines: this.#lines.map(({ label, color, faded, runs, table }) => ({
          ...{
            label: runs > 1 ? `${label} (${plural(runs, "run")})` : label,
            color,
            faded: faded === true,
          },
          banded: this.#crowd === undefined && faded !== true,
          table: table as (number | null)[][],
        })),
      });
      saveFile(`${this.#fileName()}.${format}`, blob);
    });
  }

  destroy() {
    crowds.delete(this);
    this.#resize.disconnect();
    this.#plot?.destroy();
  }

  /** Drops what it draws, while it is out of sight. */
  rest(): void {
    this.#plot?.destroy();
    [this.#plot, this.#crowd] = [undefined, undefined];
    [this.#sets, this.#whole, this.#lines] = [[], [], []];
    this.#drawnAs = "";
    crowds.delete(this);
  }
}

/** A logarithmic axis of times of day has no meaning. */
const isLogX = ({ logX, x }: ChartStyle): boolean => logX && x !== "wall";

/** The value before smoothing, or of a group's curve. */
const shownAt = ({ table }: Pick<Line, "table">, i: number) =>
  table[3]?.[i] ?? table[4]?.[i] ?? null;

/** A value, with its band and the number of runs. @param ranged whether the band is told */
function textAt({ table, runs, smoothed }: Line, i: number | undefined, ranged: boolean): string {
  if (i === undefined) return "";
  const at = (n: number) => table[n]?.[i] as number | null | undefined;
  const range = ranged && at(1) !== at(2) ? ` (${figure(at(1))} to ${figure(at(2))})` : "";
  const calmed = !smoothed ? "" : runs > 1 ? ", smoothed" : `, smoothed ${figure(at(4))}`;
  return figure(shownAt({ table }, i)) + range + calmed +
    (runs > 1 ? `, ${plural(at(5) ?? 0, "run")}` : "");
}

/** The value at the end of a line; for a group, of how many of its runs. */
function lastText(line: Line | undefined): string {
  if (line === undefined || line.runs === line.lastRuns) return figure(line?.last);
  return `${figure(line.last)} (${line.lastRuns} of ${plural(line.runs, "run")})`;
}

/** Short numbers for axes. */
function compact(n: number): string {
  const size = Math.abs(n);
  if (size >= 1e6) return `${Number((n / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((n / 1e3).toPrecision(4))}k`;
  if (size === 0 || size >= 0.001) return String(Number(n.toPrecision(4)));
  return n.toExponential(2).replace(/\.?0+e/, "e");
}
