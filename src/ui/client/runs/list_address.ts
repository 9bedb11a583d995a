/**
 * The list's part of the address: which runs, their order, groups, columns, and which of them are
 * drawn.
 */
import { RUN_STATES } from "../../../runs/fields/lifecycle_states.ts";
import { notice } from "../parts/dialog.tsx";
import { toAddress } from "../parts/dom.ts";
import { runsOfAddress, stored } from "../parts/early.ts";
import type { Eyes } from "./eyes.ts";
import type { RunsModel } from "./runs_model.ts";
import { USUAL_COLUMNS } from "./runs_table.ts";

const usual = USUAL_COLUMNS.map(({ name }) => name);
/** What one sees: the list, the charts, or both beside each other. */
export const PANES = ["list", "both", "charts"] as const;
export type Pane = typeof PANES[number];
const [PANE_KEY, WIDTHS_KEY] = ["mosaic-pane", "mosaic-widths"];

/**
 * The columns in the address are parameters and metrics, which stand before the usual columns; or
 * all columns in their order, if the name is one of them.
 */
export const isWhole = (columns: readonly string[]): boolean => columns.includes("name");
export const isFurther = (id: string): boolean => /^(?:param|metric)\./.test(id);

export interface ListAddress {
  /** The chosen runs; undefined: all. */
  only: string[] | undefined;
  columns: string[];
  groupBy: string;
  /** Labels of the groups that show their runs. */
  opened: Set<string>;
  eyes: Eyes;
  pane: Pane;
  /** Of columns that people have made wider or narrower, in pixels. */
  widths: ReadonlyMap<string, number>;
}

/** Columns and filter languages of before are still understood. */
export function readAddress(model: RunsModel): ListAddress {
  const query = new URLSearchParams(location.search);
  const named = [...new Set(query.getAll("column"))];
  const columns = named.filter((id) => id === "name" || isFurther(id) || usual.includes(id));
  const unknown = named.find((id) => !columns.includes(id));
  if (unknown !== undefined) {
    notice(`The list has no column "${unknown}", which the address names.`);
  }
  const { filter } = model;
  filter.text = query.get("name") ?? "";
  filter.tag = query.get("tag") ?? "";
  filter.where = query.get("where") ?? "";
  const kind = query.get("kind") ?? "";
  filter.kind = kind === "train" || kind === "eval" ? kind : "";
  filter.states = new Set(
    (query.get("state") ?? "").split(",").filter((s) => RUN_STATES.some((k) => k === s)),
  );
  model.sort = query.get("sort") ?? "submitted";
  model.direction = query.get("dir") === "asc" ? 1 : -1;
  const ids = (name: string) =>
    new Set((query.get(name) ?? "").split(",").filter((id) => id !== ""));
  const only = runsOfAddress();
  const base = query.get("draw") ?? "";
  // Whoever follows a link to chosen runs wants to see them compared.
  const pane = query.get("pane") ?? (only.length > 0 ? "both" : stored<string>(PANE_KEY, "both"));
  return {
    only: only.length > 0 ? only : undefined,
    columns,
    groupBy: (query.get("group") ?? "").replace(/^parameter:/, "param."),
    opened: new Set(query.getAll("open")),
    eyes: {
      base: base === "all" || base === "none" || base === "first"
        ? base
        : only.length > 0
        ? "all"
        : "first",
      on: ids("on"),
      off: ids("off"),
    },
    pane: PANES.find((one) => one === pane) ?? "both",
    widths: widthsOf(query.has("width") ? query.getAll("width") : stored(WIDTHS_KEY, [])),
  };
}

/** `width=NAME:PIXELS` */
function widthsOf(texts: readonly string[]): Map<string, number> {
  return new Map(texts.flatMap((text) => {
    const [, name, width] = /^(.+):(\d{2,4})$/s.exec(text) ?? [];
    return name === undefined ? [] : [[name, Number(width)]];
  }));
}

export function writeAddress({ filter, sort, direction }: RunsModel, list: ListAddress): void {
  const { only, columns, groupBy, opened, eyes, pane } = list;
  const widths = [...list.widths].map(([name, width]) => `${name}:${width}`);
  localStorage.setItem(WIDTHS_KEY, JSON.stringify(widths));
  const ordered = sort !== "submitted" || direction !== -1;
  localStorage.setItem(PANE_KEY, JSON.stringify(pane));
  toAddress({
    runs: (only ?? []).join(","),
    column: columns,
    width: widths,
    open: [...opened],
    group: groupBy,
    where: filter.where,
    name: filter.text,
    tag: filter.tag,
    kind: filter.kind,
    state: [...filter.states].join(","),
    sort: ordered ? sort : "",
    dir: ordered ? (direction === 1 ? "asc" : "desc") : "",
    draw: eyes.base === (only === undefined ? "first" : "all") ? "" : eyes.base,
    on: [...eyes.on].join(","),
    off: [...eyes.off].join(","),
    pane: pane === "both" ? "" : pane,
  });
}
