/** Draws `mosaic top`: as many lines as the terminal has, none wider than it. */
import { plot, sparkline } from "../text/chart.ts";
import { bytes, duration, shortIds } from "../../base/text/format.ts";
import type { HostJson } from "../../runs/fields/host_json.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { bar } from "../../runs/fields/progress.ts";
import { chooseColumns } from "../../runs/fields/run_columns.ts";
import { DEFAULT_COLUMNS, listColumns } from "../text/runs_table.ts";
import { showText } from "../text/show_text.ts";
import { RUN_STATES } from "../../registry/lifecycle/lifecycle.ts";
import { type Column, table } from "../text/table.ts";
import { cut, escapeControl, pad, paint, widthOf } from "../text/text.ts";
import { selectedRun, type TopState, visibleRuns } from "./model.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

export interface Screen {
  width: number;
  height: number;
  color: boolean;
}

/** Width of the curve; the smaller one if names would have to be cut otherwise. */
const CURVE_WIDTHS = [16, 8] as const;
/** Names up to this length are not cut: runs of a sweep differ in the ends of their names. */
const WHOLE_NAME = 20;
/** Lines above and below the runs. */
const HEAD = 4;
const FOOT = 1;
/** Data older than this is marked as old. */
const STALE_MS = 5000;
/** Columns that a narrow screen omits, in this order. */
const LEAST_WANTED = ["elapsed", "gpus", "curve", "rate", "note", "steps", "reward"];
/**
 * The key line, most important last: keys that do not fit are omitted from the front, except the
 * last two.
 */
const LIST_KEYS = [
  "↑↓ select",
  "/ search",
  "s sort",
  "a all/live",
  "r retry",
  "p pause/resume",
  "c cancel",
  "enter details",
];
const DETAIL_KEYS = ["↑↓ another run", "r retry", "p pause/resume", "c cancel", "esc back"];
const ALWAYS = ["? keys", "q quit"];
const HELP = [
  "↑ ↓ or k j          select a run",
  "page up, page down  select a run one page up or down",
  "home end or g G     the first, the last run",
  "enter               details of the run",
  "esc                 back to the list; from there: quit",
  "p                   pause or resume the run",
  "c                   cancel the run (asks first)",
  "r                   retry an ended run (asks first)",
  "a                   all runs, or live ones only",
  "s                   sort by another column",
  "/                   search names, ids and tags: enter keeps it, esc ends it",
  "?                   show these keys",
  "q, ctrl-c           quit",
];

function keyLine(keys: readonly string[], width: number): string {
  const wanted = [...keys];
  const line = () => [...wanted, ...ALWAYS].join("  ");
  while (wanted.length > 0 && widthOf(line()) > width) wanted.shift();
  return cut(line(), width);
}

/** Runs that fit on the screen. */
export function runRows({ height }: Pick<Screen, "height">): number {
  return Math.max(1, height - HEAD - FOOT);
}

export function draw(state: TopState, now: number, screen: Screen): string[] {
  const { width, height, color } = screen;
  const body = state.help
    ? HELP.map((line) => cut(line, width))
    : state.detail === undefined
    ? listLines(state, now, screen)
    : detailLines(state, now, screen);
  const keys = state.help
    ? ["any key: back"]
    : state.detail === undefined
    ? LIST_KEYS
    : DETAIL_KEYS;
  const lines = [...headLines(state, now, screen), ...body].slice(0, height - FOOT);
  while (lines.length < height - FOOT) lines.push("");
  const foot = state.confirmation === undefined
    ? state.typing
      ? cut(`/${escapeControl(state.search)}▏  enter keeps the search, esc ends it`, width)
      : paint(
        state.message === "" ? keyLine(keys, width) : cut(escapeControl(state.message), width),
        "dim",
        color,
      )
    : paint(cut(`${escapeControl(state.confirmation.question)} y/n`, width), "yellow", color);
  return [...lines, foot];
}

/** Runs whose curves the screen shows. */
export function runsOnScreen(
  state: TopState,
  now: number,
  screen: Pick<Screen, "height">,
): RunJson[] {
  const runs = visibleRuns(state, now);
  const rows = runRows(screen);
  const at = Math.max(0, runs.findIndex((r) => r.run_id === selectedRun(state, now)?.run_id));
  const first = Math.max(0, Math.min(at - Math.floor(rows / 2), runs.length - rows));
  return runs.slice(first, first + rows);
}

function headLines(state: TopState, now: number, { width, color }: Screen): string[] {
  const { host } = state;
  if (host === undefined) {
    return [cut(state.trouble ?? "connecting to the daemon …", width), "", ""];
  }
  const states = RUN_STATES.filter((s) => host.runs_by_state[s]).map((s) =>
    `${host.runs_by_state[s]} ${stateWord(s).toLowerCase()}`
  );
  const up = host.started_at === null ? "" : `up ${duration(now - Date.parse(host.started_at))}`;
  const title = [`mosaic ${host.version}`, host.listen, up, states.join(", ") || "no runs"].filter((
    t,
  ) => t !== "");
  const age = now - (state.seenAt ?? now);
  const trouble = state.trouble === undefined && age < STALE_MS
    ? ""
    : `${state.trouble ?? "no answer"}; data is ${duration(age)} old`;
  return [
    paint(cut(title.join("   "), width), "bold", color),
    cut(hostLine(host), width),
    trouble === ""
      ? cut(gpuLine(state, host), width)
      : paint(cut(escapeControl(trouble), width), "red", color),
  ];
}

function hostLine(host: HostJson): string {
  const gauge = (name: string, available: number, all: number) =>
    all === 0 ? "" : `${name} ${bar(1 - available / all, 8)}▏${bytes(available)} free`;
  const load = host.load_average[0];
  return [
    load === undefined ? "" : `load ${load.toFixed(1)}/${host.cpus}`,
    gauge("memory", host.memory_available_bytes, host.memory_bytes),
    gauge("disk", host.disk_available_bytes, host.disk_bytes),
  ].filter((p) => p !== "").join("   ");
}

function gpuLine(state: TopState, host: HostJson): string {
  if (host.gpus.length === 0) return "no GPU slots";
  const name = (id: string) => state.runs.find((r) => r.run_id === id)?.name ?? id.slice(0, 10);
  const holders = ({ run_id, shares }: HostJson["gpus"][number]) =>
    run_id === null ? shares.map((share) => share.run_id) : [run_id];
  return `gpus ${
    host.gpus.map((g) =>
      `${g.slot}:${holders(g).map((id) => escapeControl(name(id))).join("+") || "free"}`
    ).join("  ")
  }`;
}

function listLines(state: TopState, now: number, screen: Screen): string[] {
  const shown = runsOnScreen(state, now, screen);
  if (shown.length === 0) {
    const none = state.search === ""
      ? state.all ? "No runs." : "No live runs."
      : "No run fits the search.";
    return [state.seenAt === undefined ? "" : none];
  }
  const ids = shortIds(shown.map((r) => r.run_id));
  const all = listColumns({ now, shortId: (id) => ids.get(id)! });
  const known = chooseColumns(DEFAULT_COLUMNS, all);
  const note = known.pop()!;
  const longest = Math.max(...shown.map((run) => widthOf(escapeControl(run.name))));
  const named = known.map((c) =>
    c.name === "name" ? { ...c, shrinkTo: Math.min(longest, WHOLE_NAME) } : c
  );
  const withCurve = (width: number): Column<RunJson>[] => {
    const curve = (run: RunJson) =>
      pad(sparkline(state.curves.get(run.run_id) ?? [], width), width);
    return [...named, { name: "curve", text: curve, style: () => "green" }, note];
  };
  let columns = withCurve(CURVE_WIDTHS[0]);
  const lined = (color: boolean) =>
    table(columns, shown, { width: screen.width, color }).trimEnd().split("\n");
  const fits = () => lined(false).every((line) => widthOf(line) <= screen.width);
  if (!fits()) columns = withCurve(CURVE_WIDTHS[1]);
  for (const name of LEAST_WANTED) {
    if (fits()) break;
    columns = columns.filter((c) => c.name !== name);
  }
  const plain = lined(false);
  const selected = selectedRun(state, now)?.run_id;
  return lined(screen.color).map((line, i) => {
    // Wider than the screen even with the fewest columns: cut it, without colours.
    if (widthOf(plain[i]!) > screen.width) line = cut(plain[i]!, screen.width);
    const run = shown[i - 1];
    if (run === undefined || run.run_id !== selected) return line;
    const whole = pad(cut(plain[i]!, screen.width), screen.width);
    return screen.color ? `\x1b[7m${whole}\x1b[27m` : `>${whole.slice(1)}`;
  });
}

function detailLines(state: TopState, now: number, { width, height, color }: Screen): string[] {
  if (state.detail === "loading" || state.detail === undefined) return ["…"];
  const run = state.detail;
  const curve = state.curves.get(run.run_id) ?? [];
  const rows = Math.max(8, Math.floor((height - HEAD) / 2));
  const drawn = plot([{ name: "", points: curve.map((y, i) => ({ x: i, y })) }], {
    width,
    height: rows,
    color,
    title: "episode reward",
    xLabel: "",
  });
  // Cut before adding colours: a line cut within an escape sequence would colour the rest of the
  // screen.
  const text = showText({ ...run, artifacts: [] }, { now, color: false }).split(
    "\n",
  ).map((l) => cut(l, width));
  return [
    ...text.slice(0, Math.max(1, height - HEAD - FOOT - rows)),
    ...drawn.trimEnd().split("\n"),
  ];
}
