/** The text output of `mosaic show`. */
import { bytes, count } from "../../base/text/format.ts";
import type { ArtifactJson } from "../../runs/fields/host_json.ts";
import type { RunDetailJson } from "../../runs/fields/run_types.ts";
import { RUN_FACTS, type RunFact, TELEMETRY_FACTS } from "../../runs/fields/run_facts.ts";
import { timeText } from "../../runs/fields/run_texts.ts";
import { facts, table } from "./table.ts";
import { valueText } from "../../runs/parameter_text.ts";
import { escapeControl, paint, stateStyle } from "./text.ts";
import { shownState, stateWord } from "../../runs/fields/lifecycle_states.ts";

export interface ShownRun extends RunDetailJson {
  artifacts: ArtifactJson[];
}

/** step_5120 before step_10240. */
const NATURAL = new Intl.Collator("en", { numeric: true });

/** Width of the bar of progress. */
const BAR = 20;

export interface ShowOptions {
  now: number;
  color: boolean;
  /** Files that are not read, and the reasons. */
  leftOut?: readonly string[];
}

export function showText(run: ShownRun, { now, color, leftOut = [] }: ShowOptions): string {
  const headline = `${paint(escapeControl(run.name), "bold", color)}  ${
    paint(stateWord(shownState(run)), stateStyle(run.state), color)
  }\n`;
  const severalLines = run.notes.trimEnd().includes("\n");
  const texts = (of: readonly RunFact[]) =>
    facts(
      of.flatMap(({ name, text }) =>
        text(run, { now, barWidth: BAR }).split("\n").map((line) => [name, line] as const)
      ),
      color,
    );
  const options = { width: undefined, color, heading: false };
  const states = table(
    [
      { name: "at", text: (s) => timeText(s.at) },
      { name: "attempt", text: (s) => `#${s.attempt}` },
      {
        name: "state",
        text: (s) => stateWord(shownState({ state: s.to, reason: s.reason })),
        style: (s) => stateStyle(s.to),
      },
      { name: "event", text: (s) => s.reason ?? s.event },
    ],
    run.transitions,
    options,
  );
  const parameters = table(
    [
      { name: "name", text: (p) => p.name },
      { name: "value", text: (p) => valueText(p.value) + earlierText(p.earlier) },
      { name: "source", text: (p) => p.source, style: () => "dim" },
    ],
    run.parameters,
    options,
  );
  const ranks = table(
    [
      { name: "rank", align: "right", text: (r) => String(r.rank) },
      { name: "node", text: (r) => r.node ?? "" },
      { name: "exit", align: "right", text: (r) => r.code === null ? "" : String(r.code) },
      { name: "", text: (r) => r.first ? "failed first" : "", style: () => "red" },
    ],
    run.ranks,
    options,
  );
  const artifacts = table(
    [
      { name: "kind", text: (a) => a.kind },
      { name: "bytes", align: "right", text: (a) => bytes(a.bytes) },
      { name: "step", align: "right", text: (a) => a.step === null ? "" : `step ${count(a.step)}` },
      { name: "path", text: (a) => a.deleted_at === null ? a.path : `${a.path} (deleted)` },
    ],
    run.artifacts.toSorted((a, b) =>
      a.kind.localeCompare(b.kind) || NATURAL.compare(a.path, b.path)
    ),
    options,
  );
  return [
    headline,
    texts([...RUN_FACTS, { name: "limits", text: () => limits(run) }]),
    severalLines ? section("Notes", textLines(run.notes.trimEnd().split("\n")), color) : "",
    section("Telemetry", texts(TELEMETRY_FACTS), color),
    leftOut.length === 0 ? "" : section("Not read", textLines(leftOut), color),
    run.parameters.length === 0 ? "" : section("Parameters", parameters, color),
    section("States", states, color),
    run.ranks.length === 0 ? "" : section("Ranks", ranks, color),
    run.artifacts.length === 0 ? "" : section("Artifacts", artifacts, color),
    run.stderr_tail.length === 0
      ? ""
      : section("Last lines of standard error", textLines(run.stderr_tail), color),
  ].join("");
}

const textLines = (lines: readonly string[]) =>
  lines.map((line) => `${escapeControl(line)}\n`).join("");

function section(title: string, body: string, color: boolean): string {
  return `\n${paint(title, "bold", color)}\n${body.replace(/^(?=.)/gm, "  ")}`;
}

/** The config's resources, and whether a cgroup enforces them; "" for an external run. */
function limits({ config, enforced_limits }: RunDetailJson): string {
  const { resources, metadata } = (config ?? {}) as {
    resources?: { cpus?: number; memory_mb?: number };
    metadata?: { launcher?: string; worker?: { external?: boolean } };
  };
  // The engine enforces the limits itself, even before it has a job of the run.
  if (metadata?.worker?.external || (metadata?.launcher ?? "local") !== "local") return "";
  const { cpus, memory_mb } = resources ?? {};
  const requested = [
    ...(cpus === undefined ? [] : [["cpus", `${cpus} CPU${cpus === 1 ? "" : "s"}`]]),
    ...(memory_mb === undefined ? [] : [["memory_mb", bytes(memory_mb * 2 ** 20)]]),
  ].map(([name, text]) => ({
    text,
    how: enforced_limits.includes(name!) ? "enforced by cgroup" : "not enforced",
  }));
  const same = requested.every(({ how }) => how === requested[0]!.how);
  if (requested.length === 0) return "";
  if (same) return `${requested.map(({ text }) => text).join(", ")} (${requested[0]!.how})`;
  return requested.map(({ text, how }) => `${text} (${how})`).join(", ");
}

/** " (attempt 1: 0.1)" */
function earlierText(earlier: unknown): string {
  const all = Array.isArray(earlier) ? earlier as { attempt: number; value: unknown }[] : [];
  return all.length === 0
    ? ""
    : ` (${all.map(({ attempt, value }) => `attempt ${attempt}: ${valueText(value)}`).join(", ")})`;
}
