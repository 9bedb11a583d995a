/**
 * A table of any length that keeps only the visible rows in the document. Rows that leave the view
 * are reused for those that enter, and cells are written only if their text changes.
 */
import { shownState, stateWord } from "../../../runs/fields/lifecycle_states.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { endsKept, fill, go, h, iconButton, ICONS, setEnds, setText } from "../parts/dom.ts";
import { plural, whole } from "../parts/format.ts";
import { spreadOf } from "../../../telemetry/series/groups.ts";
import { type RunColumn, runColumns } from "../../../runs/fields/run_columns.ts";
import { elapsedText, isStale, note, progressOf } from "../../../runs/fields/run_texts.ts";
import { fraction } from "../../../runs/fields/progress.ts";
import { countStates, isEnded, sentence } from "../parts/states.tsx";

/** Several runs as one row, above their own rows when it is open. */
export interface RunGroup {
  label: string;
  members: RunJson[];
  open: boolean;
}
/** A run, or the row of a group: its first run with an id of its own. */
export type ShownRow = RunJson & { group?: RunGroup };

interface RowParts {
  id: string;
  row: HTMLTableRowElement;
  check: HTMLInputElement;
  eye: HTMLButtonElement;
  chip: HTMLElement;
  /** For a group whose runs have several states. */
  states: HTMLElement;
  link: HTMLAnchorElement;
  name: HTMLElement;
  fold: HTMLButtonElement;
  label: HTMLElement;
  tags: HTMLElement;
  /** State, progress or reason in a line: what a narrow list shows of the other columns. */
  outcome: HTMLElement;
  progress: HTMLElement;
  cells: HTMLElement[];
}

const SPARE_ROWS = 8;
/** Pixels. */
const [LEAST_WIDTH, WIDTH_STEP, NAME_WIDTH] = [36, 16, 160];
/** Tags in a run's row; further ones are counted. */
const MOST_TAGS = 4;
/** Prefix of the ids of groups. */
export const GROUP = "group:";

const runsIn = ({ group, ...run }: ShownRow): RunJson[] => group?.members ?? [run];

export interface Column extends RunColumn {
  label: string;
  title?: string;
  class: string;
  /** Its text may be cut off: the cell's title has all of it. */
  cut?: true;
}

/** "Running, 62% 12k/20k ETA 3m 07s", "Failed, Exit code 1". */
function outcomeLine(run: RunJson, now: number): string {
  const text = note(run, now);
  const said = text === "" ? elapsedText(run, now) : text === run.reason ? sentence(text) : text;
  const word = stateWord(shownState(run));
  return said === "" ? word : `${word}, ${said}`;
}

/** `12.5 ± 0.3` over the members that have a number. */
function groupText(
  { value, figure: written = String }: Column,
  { members }: RunGroup,
  now: number,
): string {
  const values = members.map((r) => value(r, now)).filter((v) =>
    typeof v === "number" && Number.isFinite(v)
  );
  if (values.length === 0) return "";
  const { middle, high } = spreadOf(values as number[], "sd");
  return values.length === 1 ? written(middle) : `${written(middle)} ± ${written(high - middle)}`;
}

/**
 * How the page shows columns of `mosaic list`; those of a higher `c` leave a narrower page earlier.
 */
const SHOWN: (Omit<Column, keyof RunColumn> & { name: string })[] = [
  { name: "attempt", label: "Try", title: "Attempt", class: "num c3" },
  { name: "queue", label: "Queue", title: "Position in the queue", class: "num c4" },
  { name: "gpus", label: "GPUs", class: "c3" },
  { name: "elapsed", label: "Elapsed", class: "num c2" },
  { name: "steps", label: "Steps", class: "num c1", cut: true },
  { name: "rate", label: "Rate", title: "Steps a second", class: "num c2" },
  {
    name: "reward",
    label: "Reward",
    title:
      "The chosen metric, the mean reward of the last 100 episodes, or a metric such as rollout/ep_rew_mean",
    class: "num c0",
  },
  { name: "last_record", label: "Last record", class: "num c3" },
  {
    name: "backlog",
    label: "Backlog",
    title: "Written by the worker, not stored yet",
    class: "num c4",
  },
  { name: "note", label: "Note", class: "wide c2", cut: true },
];
const OF_RUNS = new Map(runColumns().map((column) => [column.name, column]));
const COLUMNS: Column[] = SHOWN.map((shown) => ({ ...OF_RUNS.get(shown.name)!, ...shown }));
/** What a table shows beside state and name, unless a person chooses. */
export const USUAL_COLUMNS: readonly Column[] = COLUMNS;
/** A parameter or a value of a metric. */
const isValue = ({ name }: Column) => /^(?:param|metric)\./.test(name);
/** Columns whose groups show a mean, besides parameters and metrics. */
const MEANS = ["elapsed", "steps", "reward"];

export class RunsTable {
  #shown: ShownRow[] = [];
  #rows = new Map<string, RowParts>();
  #top = h("tr", { class: "space", "aria-hidden": "true" });
  #bottom = h("tr", { class: "space", "aria-hidden": "true" });
  #body = h("tbody");
  #columns: Column[] = COLUMNS;
  #headRow = h("tr");
  #heads = new Map<string, HTMLTableCellElement>();
  #all = h("input", { type: "checkbox", "aria-label": "Select all shown runs" });
  #eyes = iconButton("eye", "Draw all runs of the list, or none", () => {
    const runs = this.#shown.flatMap(runsIn);
    this.options.oneye(undefined, !runs.every((r) => this.options.eyeOf(r.run_id).shown));
  });
  #widths: ReadonlyMap<string, number> = new Map();
  #rowHeight = 36;
  #active = -1;
  #anchor: string | undefined;
  #now = 0;

  readonly table: HTMLTableElement;
  readonly element: HTMLElement;
  readonly selected = new Set<string>();

  constructor(
    readonly options: {
      onsort(id: string): void;
      onselect(): void;
      onfold(label: string): void;
      /** Of columns whose width a person chose, in pixels. */
      onwidths(widths: ReadonlyMap<string, number>): void;
      selectable: boolean;
      /** The text of a run's newest alert, if it has one. */
      alertOf(id: string): string | undefined;
      /** Whether the run is drawn in the charts, and its colour there. */
      eyeOf(id: string): { shown: boolean; color: string };
      /** @param ids undefined: all runs of the list */
      oneye(ids: string[] | undefined, shown: boolean): void;
    },
  ) {
    this.table = h(
      "table",
      { class: "runs" },
      h("caption", { class: "unseen" }, "Runs"),
      h("thead", {}, this.#headRow),
      this.#body,
    );
    this.element = h(
      "div",
      { class: "table-scroll", tabIndex: 0, role: "region", "aria-label": "Table of runs" },
      this.table,
    );
    this.#body.append(this.#top, this.#bottom);
    this.setColumns([]);
    this.element.addEventListener("scroll", () => this.draw(this.#now), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.#all.addEventListener("change", () => {
      for (const { run_id } of this.#shown.flatMap(runsIn)) {
        this.#all.checked ? this.selected.add(run_id) : this.selected.delete(run_id);
      }
      this.#selectionChanged();
    });
  }

  /** @param order names of all columns to show; without it, `further` are before the usual ones */
  setColumns(further: Column[], order?: readonly string[]): void {
    const known = [...further, ...COLUMNS];
    this.#columns = order === undefined
      ? known
      : order.flatMap((name) => known.find((c) => c.name === name) ?? []);
    this.#heads.clear();
    this.table.toggleAttribute("data-further", further.length > 0);
    this.table.style.setProperty("--further", String(further.length));
    const head = (
      { name: id, label, title, class: kind }: Pick<Column, "name" | "label" | "title" | "class">,
    ) => {
      const cell: HTMLTableCellElement = h(
        "th",
        { scope: "col", class: kind, title, "data-column": id },
        h("button", {
          type: "button",
          onclick: () => this.options.onsort(id),
          onkeydown: (event: KeyboardEvent) => {
            const by = { ArrowLeft: -WIDTH_STEP, ArrowRight: WIDTH_STEP }[event.key];
            if (by === undefined || !event.altKey) return;
            event.preventDefault();
            this.#widen(id, cell.offsetWidth + by);
          },
        }, label),
        this.#grip(id, () => cell),
      );
      this.#heads.set(id, cell);
      return cell;
    };
    fill(
      this.#headRow,
      this.options.selectable && h("th", { scope: "col", class: "check" }, this.#all),
      h("th", { scope: "col", class: "eye" }, this.#eyes),
      head({ name: "state", label: "State", class: "" }),
      head({ name: "name", label: "Name", class: "wide" }),
      this.#columns.map(head),
    );
    for (const { row } of this.#rows.values()) row.remove();
    this.#rows.clear();
    this.setWidths(this.#widths);
  }

  /** The edge of a column, which can be dragged; a double click makes it as wide as usual. */
  #grip(id: string, cell: () => HTMLElement): HTMLElement {
    let from: { x: number; width: number } | undefined;
    return h("span", {
      class: "grip",
      title:
        "Drag for another width, double click for the usual one; Alt and arrows on the heading",
      onpointerdown: (event: PointerEvent) => {
        event.preventDefault();
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        from = { x: event.clientX, width: cell().offsetWidth };
      },
      onpointermove: ({ clientX }: PointerEvent) => {
        if (from !== undefined) this.#widen(id, from.width + clientX - from.x);
      },
      onpointerup: () => from = undefined,
      ondblclick: () => {
        const others = [...this.#widths].filter(([name]) => name !== id);
        this.setWidths(new Map(others));
        this.options.onwidths(this.#widths);
      },
    });
  }

  #widen(id: string, to: number): void {
    this.setWidths(new Map(this.#widths).set(id, Math.max(LEAST_WIDTH, Math.round(to))));
    this.options.onwidths(this.#widths);
  }

  /** The table scrolls if they need more than there is. */
  setWidths(widths: ReadonlyMap<string, number>): void {
    this.#widths = widths;
    for (const [id, cell] of this.#heads) {
      const width = widths.get(id);
      cell.style.width = width === undefined ? "" : `${width}px`;
    }
    this.table.style.minWidth = "";
    if (widths.size === 0) return;
    const all = [...this.#heads].map(([id, cell]) =>
      widths.get(id) ?? (id === "name" ? NAME_WIDTH : cell.offsetWidth)
    );
    this.table.style.minWidth = `${all.reduce((a, b) => a + b, 0)}px`;
  }

  show(runs: ShownRow[], sort: string, direction: 1 | -1, now: number): void {
    this.#shown = runs;
    this.table.toggleAttribute("data-grouped", runs.some((r) => r.group !== undefined));
    for (const [id, cell] of this.#heads) {
      if (id === sort) cell.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    this.table.setAttribute("aria-rowcount", String(runs.length + 1));
    this.#drawChosen();
    this.draw(now);
  }

  inSight(): RunJson[] {
    return this.#shown.filter((r) => r.group === undefined && this.#rows.has(r.run_id));
  }

  draw(now: number): void {
    this.#now = now;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.#rowHeight) - SPARE_ROWS);
    const visible = Math.ceil((this.element.clientHeight || 600) / this.#rowHeight) +
      2 * SPARE_ROWS;
    const slice = this.#shown.slice(first, first + visible);
    const wanted = new Set(slice.map((r) => r.run_id));
    const spare: RowParts[] = [];
    for (const [id, parts] of this.#rows) {
      if (wanted.has(id)) continue;
      this.#rows.delete(id);
      // The focus must not move to another run.
      if (!parts.row.contains(document.activeElement)) spare.push(parts);
      parts.row.remove();
    }
    let before: Element = this.#top;
    slice.forEach((run, i) => {
      let parts = this.#rows.get(run.run_id);
      if (parts === undefined) {
        parts = spare.pop() ?? this.#makeRow();
        parts.id = run.run_id;
        this.#rows.set(run.run_id, parts);
      }
      if (before.nextElementSibling !== parts.row) before.after(parts.row);
      before = parts.row;
      this.#drawRow(parts, run, first + i, now);
    });
    this.#top.style.height = `${first * this.#rowHeight}px`;
    this.#bottom.style.height = `${
      Math.max(0, this.#shown.length - first - slice.length) * this.#rowHeight
    }px`;
    const measured = (this.#top.nextElementSibling as HTMLElement | null)?.offsetHeight ?? 0;
    if (slice.length > 0 && measured > 0) this.#rowHeight = measured;
  }

  #drawChosen() {
    const [some, all] = this.selected.size === 0
      ? [false, false]
      : this.#chosenOf(this.#shown.flatMap(runsIn));
    this.#all.checked = all;
    this.#all.indeterminate = some && !all;
  }

  #chosenOf(runs: readonly RunJson[]): [some: boolean, all: boolean] {
    const chosen = runs.filter((r) => this.selected.has(r.run_id)).length;
    return [chosen > 0, chosen > 0 && chosen === runs.length];
  }

  /** An unused row. */
  #makeRow(): RowParts {
    const check = h("input", {
      type: "checkbox",
      onclick: (event: MouseEvent) => this.#toggle(parts.id, check.checked, event.shiftKey),
    });
    const eye = iconButton("eye", "", () => {
      const row = this.#shown.find((r) => r.run_id === parts.id);
      if (row === undefined) return;
      const ids = runsIn(row).map((r) => r.run_id);
      this.options.oneye(ids, !ids.every((id) => this.options.eyeOf(id).shown));
    });
    const outcome = h("span", { class: "outcome" });
    const progress = h("span", { class: "bar", "aria-hidden": "true" }, h("span"));
    const state = h("span", { class: "chip" });
    const states = h("span", { class: "states", hidden: true });
    const name = endsKept();
    const link = h("a", {}, name);
    const label = endsKept();
    const fold = h("button", {
      type: "button",
      class: "link",
      hidden: true,
      onclick: () => this.options.onfold(parts.id.slice(GROUP.length)),
    }, label);
    const tags = h("span", { class: "tags" });
    const cells = this.#columns.map((c) => h("td", { class: c.class }));
    const row = h(
      "tr",
      {},
      this.options.selectable && h("td", { class: "check" }, check),
      h("td", { class: "eye" }, eye),
      h("td", {}, state, states),
      h(
        "td",
        { class: "wide name" },
        h("div", {}, link, fold, tags),
        h("div", { class: "line" }, outcome, progress),
      ),
      cells,
    );
    const parts: RowParts = {
      ...{
        id: "",
        row,
        check,
        eye,
        chip: state,
        states,
        link,
        name,
        fold,
        label,
        tags,
        outcome,
        progress,
        cells,
      },
    };
    return parts;
  }

  /** Open in the run's colour while it is drawn. */
  #drawEye({ eye }: RowParts, name: string, ids: readonly string[]): void {
    const eyes = ids.map((id) => this.options.eyeOf(id));
    const shown = eyes.some((one) => one.shown);
    const color = shown ? eyes[0]!.color : "";
    if (eye.style.color !== color) eye.style.color = color;
    const label = `Draw ${name}`;
    if (eye.getAttribute("aria-label") !== label) eye.setAttribute("aria-label", label);
    if (eye.getAttribute("aria-pressed") === String(shown)) return;
    eye.setAttribute("aria-pressed", String(shown));
    eye.title = shown ? "Leave it out of the charts" : "Draw it in the charts";
    eye.querySelector("path")!.setAttribute("d", ICONS[shown ? "eye" : "shut"]);
  }

  #drawGroup(parts: RowParts, { label, members, open }: RunGroup, now: number): void {
    this.#drawEye(parts, label, members.map((r) => r.run_id));
    parts.progress.hidden = true;
    const [some, all] = this.#chosenOf(members);
    parts.check.checked = all;
    parts.check.indeterminate = some && !all;
    parts.check.setAttribute("aria-label", `Select the runs of ${label}`);
    setEnds(parts.label, label);
    parts.fold.setAttribute("aria-label", label);
    parts.fold.title = label;
    parts.fold.setAttribute("aria-expanded", String(open));
    delete parts.tags.dataset.tags;
    const alerted = members.filter((r) => this.options.alertOf(r.run_id) !== undefined).length;
    setText(
      parts.tags,
      plural(members.length, "run") + (alerted > 0 ? `, ${whole(alerted)} with an alert` : ""),
    );
    const counts = countStates(members);
    parts.chip.hidden = counts.length > 1;
    parts.states.hidden = counts.length === 1;
    if (counts.length === 1) {
      const state = counts[0]![0];
      if (parts.chip.dataset.state !== state) parts.chip.dataset.state = state;
      setText(parts.chip, stateWord(state));
    }
    const title = counts.map(([state, count]) => `${count} ${stateWord(state)}`).join(", ");
    setText(parts.outcome, title);
    if (parts.states.title !== title) {
      parts.states.title = title;
      fill(
        parts.states,
        counts.map(([state, count]) =>
          h(
            "span",
            { class: "chip", "data-state": state },
            count,
            h("span", { class: "unseen" }, ` ${stateWord(state)}`),
          )
        ),
      );
    }
    this.#drawCells(
      parts,
      (column) =>
        MEANS.includes(column.name) || isValue(column)
          ? groupText(column, { label, members, open }, now)
          : "",
    );
  }

  #drawRow(parts: RowParts, run: ShownRow, index: number, now: number): void {
    parts.row.setAttribute("aria-rowindex", String(index + 2));
    parts.row.classList.toggle("active", index === this.#active);
    const { group } = run;
    parts.row.classList.toggle("group", group !== undefined);
    parts.link.hidden = group !== undefined;
    parts.fold.hidden = group === undefined;
    if (group !== undefined) return this.#drawGroup(parts, group, now);
    this.#drawEye(parts, run.name, [run.run_id]);
    const part = isEnded(run) ? undefined : fraction(progressOf(run, now));
    parts.progress.hidden = part === undefined;
    if (part !== undefined) {
      (parts.progress.firstChild as HTMLElement).style.width = `${(part * 100).toFixed(1)}%`;
    }
    setText(parts.outcome, outcomeLine(run, now));
    parts.chip.hidden = false;
    parts.states.hidden = true;
    parts.check.indeterminate = false;
    const selected = this.selected.has(run.run_id);
    parts.row.classList.toggle("selected", selected);
    parts.check.checked = selected;
    const label = `Select ${run.name}`;
    if (parts.check.getAttribute("aria-label") !== label) {
      parts.check.setAttribute("aria-label", label);
    }
    const state = shownState(run);
    if (parts.chip.dataset.state !== state) parts.chip.dataset.state = state;
    setText(parts.chip, stateWord(state));
    const href = `/runs/${encodeURIComponent(run.run_id)}`;
    if (parts.link.getAttribute("href") !== href) parts.link.setAttribute("href", href);
    if (parts.link.title !== run.name) {
      setEnds(parts.name, run.name);
      parts.link.title = run.name;
      parts.link.setAttribute("aria-label", run.name);
    }
    const shownTags = run.base_dir === "evals" ? ["evaluation", ...run.tags] : run.tags;
    const alert = this.options.alertOf(run.run_id);
    const tags = [alert, ...shownTags].join("\n");
    if (parts.tags.dataset.tags !== tags) {
      parts.tags.dataset.tags = tags;
      const more = shownTags.length - MOST_TAGS;
      fill(
        parts.tags,
        alert !== undefined && h("span", { class: "tag alert", title: alert }, "alert"),
        shownTags.slice(0, MOST_TAGS).map((t) => h("span", { class: "tag" }, t)),
        more > 0 &&
          h("span", { class: "tag", title: shownTags.slice(MOST_TAGS).join(", ") }, `+${more}`),
      );
    }
    this.#drawCells(parts, (column) => {
      const text = column.text(run, now);
      return text === run.reason ? sentence(text) : text;
    });
    this.#columns.forEach(({ name }, i) => {
      if (name === "last_record") parts.cells[i]!.classList.toggle("stale", isStale(run, now));
    });
  }

  #drawCells({ cells }: RowParts, textOf: (column: Column) => string): void {
    this.#columns.forEach((column, i) => {
      const cell = cells[i]!;
      const text = textOf(column);
      setText(cell, text);
      if (column.cut && cell.title !== text) cell.title = text;
    });
  }

  #toggle(id: string, on: boolean, range: boolean): void {
    const ids = this.#shown.map((r) => r.run_id);
    const from = range && this.#anchor !== undefined ? ids.indexOf(this.#anchor) : -1;
    const to = ids.indexOf(id);
    const touched = from < 0 ? [id] : ids.slice(Math.min(from, to), Math.max(from, to) + 1);
    const chosen = this.#shown.filter((r) => touched.includes(r.run_id)).flatMap(runsIn);
    for (const { run_id } of chosen) on ? this.selected.add(run_id) : this.selected.delete(run_id);
    this.#anchor = id;
    this.#selectionChanged();
  }

  #selectionChanged() {
    this.#drawChosen();
    this.draw(this.#now);
    this.options.onselect();
  }

  /** j, k and arrows move, x selects, Enter opens. */
  #onKey(event: KeyboardEvent): void {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Record<string, number> = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      Home: -Infinity,
      End: Infinity,
    };
    const move = moves[event.key];
    const run = this.#shown[this.#active];
    if (move !== undefined) {
      this.#active = Math.min(this.#shown.length - 1, Math.max(0, this.#active + move));
      const y = this.#active * this.#rowHeight;
      const height = this.element.clientHeight - 2 * this.#rowHeight;
      if (y < this.element.scrollTop) this.element.scrollTop = y;
      else if (y > this.element.scrollTop + height) this.element.scrollTop = y - height;
      this.draw(this.#now);
    } else if (event.key === "x" && run && this.options.selectable) {
      this.#toggle(run.run_id, !this.#chosenOf(runsIn(run))[1], false);
    } else if (event.key === "Enter" && run?.group) {
      this.options.onfold(run.group.label);
    } else if (event.key === "Enter" && run) {
      go(`/runs/${encodeURIComponent(run.run_id)}`);
    } else return;
    event.preventDefault();
  }
}
