// @ts-check
/** All charts of one run, or of several laid over each other, kept up to date while they are in sight. */
import { get, runPath } from "./api.js";
import { Chart } from "./chart.js";
import { fill, h } from "./dom.js";
import { figure } from "./format.js";
/** @typedef {import("./chart.js").DataSet} DataSet */
/** @typedef {import("./chart.js").Columns} Columns */
/** @typedef {{run_id: string, name: string, started_at: number | null}} ChartRun */

const COLORS = [
  "--series-1",
  "--series-2",
  "--series-3",
  "--series-4",
  "--series-5",
  "--series-6",
  "--series-7",
  "--series-8",
];
const FIRST = ["episode_reward", "episode_length", "reward"];
const TITLES = /** @type {Record<string, string>} */ ({
  episode_reward: "Episode reward",
  episode_length: "Episode length",
  reward: "Step reward",
});
const UNITS =
  /** @type {Record<string, string>} */ ({ episode_reward: "episode", episode_length: "episode", reward: "step" });
/** Names in one request; the daemon answers no more at once. */
const NAMES_PER_REQUEST = 12;

/** With more charts than this, a filter by name is offered. */
const MANY = 6;

/** The usual ones first, then by name. @param {string} a @param {string} b */
function byImportance(a, b) {
  const x = FIRST.indexOf(a), y = FIRST.indexOf(b);
  if (x !== y) return (x < 0 ? FIRST.length : x) - (y < 0 ? FIRST.length : y);
  return a < b ? -1 : 1;
}

/** As a person last chose it. @returns {import("./chart.js").ChartStyle} */
function savedStyle() {
  const usual = /** @type {import("./chart.js").ChartStyle} */ ({ x: "index", smoothing: 0.6, log: false });
  try {
    return { ...usual, ...JSON.parse(localStorage.getItem("mosaic-charts") ?? "{}") };
  } catch {
    return usual;
  }
}

export class Charts {
  /** @type {Map<string, Chart>} */
  #charts = new Map();
  /** @type {Set<string>} */
  #inSight = new Set();
  /** @type {import("./chart.js").ChartStyle} */
  #style = savedStyle();
  #grid = h("div", { class: "charts" });
  #single = h("div", { class: "said-once" });
  #none = h("p", { class: "empty" }, "No episodes and no metrics yet.");
  #filter = h("input", {
    type: "search",
    placeholder: "Filter metrics",
    "aria-label": "Show metrics whose names hold one of these words",
    hidden: true,
    oninput: () => this.refresh(),
  });
  #observer;
  #busy = false;
  #again = false;
  #gone = new AbortController();

  /** @param {ChartRun[]} runs */
  constructor(runs) {
    this.runs = runs;
    const weight = h("input", {
      type: "range",
      min: "0",
      max: "0.99",
      step: "0.01",
      value: String(this.#style.smoothing),
      oninput: () => this.#restyled({ smoothing: Number(weight.value) }),
    });
    const mode = h(
      "select",
      { onchange: () => this.#restyled({ x: /** @type {any} */ (mode.value) }) },
      h("option", { value: "index" }, "Step or episode"),
      h("option", { value: "relative" }, "Time since start"),
      h("option", { value: "wall" }, "Time of day"),
    );
    mode.value = this.#style.x;
    const log = h("input", {
      type: "checkbox",
      checked: this.#style.log,
      onchange: () => this.#restyled({ log: log.checked }),
    });
    this.element = h(
      "div",
      {},
      h(
        "div",
        { class: "chart-tools" },
        h("label", {}, "X axis ", mode),
        h("label", {}, "Smoothing ", weight),
        h("label", {}, log, " Log scale"),
        this.#filter,
        h("span", { class: "hint" }, "Drag over a chart to zoom"),
      ),
      this.#grid,
      this.#none,
      this.#single,
    );
    this.#observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const name = /** @type {HTMLElement} */ (target).dataset.series ?? "";
        isIntersecting ? this.#inSight.add(name) : this.#inSight.delete(name);
      }
      this.refresh();
    }, { rootMargin: "200px" });
    addEventListener("mosaic-theme", this.#onTheme);
  }

  #onTheme = () => {
    for (const chart of this.#charts.values()) chart.restyle();
    this.refresh();
  };

  /** @param {Partial<import("./chart.js").ChartStyle>} change */
  #restyled(change) {
    this.#style = { ...this.#style, ...change };
    localStorage.setItem("mosaic-charts", JSON.stringify(this.#style));
    for (const [name, chart] of this.#charts) chart.show(this.#sets.get(name) ?? [], this.#style);
  }

  /** @type {Map<string, DataSet[]>} */
  #sets = new Map();

  /** Reads what is in sight again; calls while it reads are one more reading afterwards. */
  async refresh() {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    try {
      do {
        this.#again = false;
        await this.#read();
      } while (this.#again && !this.#gone.signal.aborted);
    } catch {
      // The connection's state is shown already; the next tick reads again.
    } finally {
      this.#busy = false;
    }
  }

  async #read() {
    const { signal } = this.#gone;
    const names = new Set();
    /** @type {Map<string, (number | null)[]>} */
    const single = new Map();
    await Promise.all(this.runs.map(async (run, r) => {
      const { series } = await get(runPath(run.run_id, "/series"), signal);
      for (const { name, points, last } of series) {
        if (points > 1 || FIRST.includes(name)) names.add(name);
        else if (points === 1) single.set(name, Object.assign(single.get(name) ?? [], { [r]: last }));
      }
    }));
    for (const name of names) single.delete(name);
    this.#drawSingle(single);
    const found = /** @type {string[]} */ ([...names]).sort(byImportance);
    const words = this.#filter.value.toLowerCase().split(/[\s,]+/).filter((w) => w !== "");
    this.#filter.hidden = found.length <= MANY && words.length === 0;
    this.#none.hidden = found.length > 0;
    this.#arrange(words.length === 0 ? found : found.filter((n) => words.some((w) => n.toLowerCase().includes(w))));
    const wanted = [...this.#charts].filter(([name]) => this.#inSight.has(name));
    const whole = wanted.filter(([, c]) => c.range === undefined).map(([name]) => name);
    const buckets = Math.min(1000, Math.max(150, Math.round(this.#grid.clientWidth / 2)));
    for (let i = 0; i < whole.length; i += NAMES_PER_REQUEST) {
      await this.#fetch(whole.slice(i, i + NAMES_PER_REQUEST), "", buckets);
    }
    for (const [name, chart] of wanted) {
      if (chart.range !== undefined) await this.#fetch([name], `&from=${chart.range[0]}&to=${chart.range[1]}`, buckets);
    }
  }

  /** @param {string[]} names @param {string} range @param {number} buckets */
  async #fetch(names, range, buckets) {
    const query = names.map((n) => `name=${encodeURIComponent(n)}`).join("&");
    const style = getComputedStyle(document.documentElement);
    const answers = await Promise.all(
      this.runs.map((run) =>
        get(runPath(run.run_id, `/series?${query}&buckets=${buckets}${range}`), this.#gone.signal)
      ),
    );
    names.forEach((name, n) => {
      const sets = this.runs.map((run, r) => ({
        label: run.name,
        color: style.getPropertyValue(COLORS[r % COLORS.length] ?? "").trim(),
        columns: /** @type {Columns} */ (answers[r].series[n]),
        startedAt: run.started_at,
      })).filter((s) => s.columns.last_x.length > 0);
      this.#sets.set(name, sets);
      this.#charts.get(name)?.show(sets, this.#style);
    });
  }

  /** What was said once is a value, not a line. @param {Map<string, (number | null)[]>} single by run */
  #drawSingle(single) {
    const text = JSON.stringify([...single]);
    if (this.#single.dataset.text === text) return;
    this.#single.dataset.text = text;
    const sorted = [...single].sort(([a], [b]) => a < b ? -1 : 1);
    const list = (/** @type {typeof sorted} */ of) =>
      h(
        "dl",
        { class: "single" },
        of.map(([name, values]) =>
          h("div", {}, h("dt", {}, name), h("dd", {}, this.runs.map((_, r) => figure(values[r])).join(" · ")))
        ),
      );
    const settings = sorted.filter(([name]) => name.startsWith("config."));
    const values = sorted.filter(([name]) => !name.startsWith("config."));
    fill(
      this.#single,
      values.length > 0 && list(values),
      settings.length > 0 &&
        h("details", {}, h("summary", {}, `${settings.length} settings reported by the worker`), list(settings)),
    );
  }

  /** @param {string[]} names */
  #arrange(names) {
    const wanted = new Set(names);
    for (const [name, chart] of this.#charts) {
      if (wanted.has(name)) continue;
      this.#observer.unobserve(chart.element);
      chart.element.remove();
      chart.destroy();
      this.#charts.delete(name);
    }
    if (names.length === this.#grid.childElementCount && names.every((n) => this.#charts.has(n))) return;
    for (const name of names) {
      if (this.#charts.has(name)) continue;
      const chart = new Chart(TITLES[name] ?? name, UNITS[name] ?? "step", () => this.refresh());
      chart.element.dataset.series = name;
      this.#charts.set(name, chart);
      this.#observer.observe(chart.element);
    }
    fill(this.#grid, names.map((n) => /** @type {Chart} */ (this.#charts.get(n)).element));
  }

  destroy() {
    this.#gone.abort();
    this.#observer.disconnect();
    removeEventListener("mosaic-theme", this.#onTheme);
    for (const chart of this.#charts.values()) chart.destroy();
  }
}
