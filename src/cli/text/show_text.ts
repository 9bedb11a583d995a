/** The text output of `mosaic show`. */
import { ago, bytes, count, duration, localTime, number, pathInRun, rate } from "../../base/text/format.ts";
import type { ArtifactJson } from "./message_json.ts";
import type { RunDetailJson } from "../../runs/fields/run_types.ts";
import { progressText } from "../../runs/fields/progress.ts";
import { backlog, elapsedMs, progressOf, stepsOf, withOverwritten } from "../../runs/fields/run_texts.ts";
import { facts, table } from "./table.ts";
import { valueText } from "../../runs/parameter_text.ts";
import { escapeControl, paint, stateStyle } from "./text.ts";

export interface ShownRun extends RunDetailJson {
  artifacts: ArtifactJson[];
}

/** step_5120 before step_10240. */
const NATURAL = new Intl.Collator("en", { numeric: true });

export interface ShowOptions {
  now: number;
  color: boolean;
  /** GPU slots of the host. */
  hostGpus: number;
  /** Files that are not read, and the reasons. */
  leftOut?: readonly string[];
}

export function showText(run: ShownRun, { now, color, hostGpus, leftOut = [] }: ShowOptions): string {
  const ms = (at: string | null) => at === null ? null : Date.parse(at);
  const elapsed = elapsedMs(run, now);
  const { telemetry: t, capabilities: c } = run;
  const headline = `${paint(escapeControl(run.name), "bold", color)}  ${
    paint(run.state, stateStyle(run.state), color)
  }\n`;
  const waits = [
    run.queue_position === null ? "" : `#${run.queue_position} in the queue`,
    run.waiting_for === null ? "" : `for ${run.waiting_for}`,
  ].filter((part) => part !== "").join(", ");
  const severalLines = run.notes.trimEnd().includes("\n");
  const main = facts([
    ["run", run.run_id],
    ["outcome", run.outcome ?? ""],
    ["reason", run.reason ?? ""],
    ["hint", run.hint ?? ""],
    ["exit", run.exit_signal ?? (run.exit_code === null ? "" : String(run.exit_code))],
    ["waits", waits],
    ["progress", run.max_steps === null ? "" : progressText(progressOf(run), 20)],
    ["attempt", run.max_attempts > 1 || run.attempt > 1 ? `${run.attempt} of ${run.max_attempts}` : ""],
    ["tags", run.tags.join(", ")],
    ["notes", severalLines ? "" : run.notes],
    ["resumed from", pathInRun(run.directory, run.resume_from ?? "")],
    ["priority", run.priority === 0 ? "" : String(run.priority)],
    ["gpus", gpus(run, hostGpus)],
    ["job", job(run)],
    ["limits", limits(run)],
    ["rate limit", run.max_rate_hz === null ? "" : `${run.max_rate_hz} steps/s`],
    ["submitted", run.submitted_at === null ? "" : localTime(ms(run.submitted_at)!)],
    ["started", run.started_at === null ? "" : localTime(ms(run.started_at)!)],
    ["finished", run.finished_at === null ? "" : localTime(ms(run.finished_at)!)],
    ["elapsed", elapsed === null ? "" : duration(elapsed)],
    ["heartbeat", run.outcome !== null || run.last_heartbeat === null ? "" : ago(ms(run.last_heartbeat), now)],
    ["worker", worker(run)],
    ["protocol", c === null ? "" : `${c.worker_kind} ${c.proto_version}, ${c.schema_id} v${c.schema_version}`],
    ["supports", c === null ? "" : abilities(c)],
    ["directory", run.directory],
    ["digest", run.digest],
  ], color);
  const telemetry = facts([
    [
      "steps",
      `${withOverwritten(stepsOf(run), t.overwritten_steps)}${
        t.steps_per_second > 0 ? `, ${rate(t.steps_per_second)}` : ""
      }`,
    ],
    ["episodes", withOverwritten(t.episodes, t.overwritten_episodes)],
    ["reward", rewardText(run)],
    ["events", t.events === 0 ? "" : count(t.events)],
    ["last record", t.last_record_at === null ? "" : ago(ms(t.last_record_at), now)],
    ["last output", t.last_output_at === null ? "" : ago(ms(t.last_output_at), now)],
    ["journal", t.journal_size === 0 ? "" : bytes(t.journal_size)],
    ["backlog", backlog(run) === 0 ? "" : bytes(backlog(run))],
    ["other lines", t.other_lines === 0 ? "" : count(t.other_lines)],
    ["malformed lines", t.malformed_lines === 0 ? "" : count(t.malformed_lines)],
    ...Object.entries(t.violations).map(([rule, n]) => ["violations", `${count(n)} × ${rule}`] as const),
  ], color);
  const options = { width: undefined, color, heading: false };
  const states = table(
    [
      { name: "at", text: (s) => s.at === null ? "" : localTime(ms(s.at)!) },
      { name: "attempt", text: (s) => `#${s.attempt}` },
      { name: "state", text: (s) => s.to, style: (s) => stateStyle(s.to) },
      { name: "event", text: (s) => s.reason ?? s.event },
    ],
    run.transitions,
    options,
  );
  const parameters = table(
    [
      { name: "name", text: (p) => p.name },
      { name: "value", text: (p) => valueText(p.value) },
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
      { name: "path", text: (a) => a.path },
    ],
    run.artifacts.toSorted((a, b) => a.kind.localeCompare(b.kind) || NATURAL.compare(a.path, b.path)),
    options,
  );
  return [
    headline,
    main,
    severalLines ? section("Notes", textLines(run.notes.trimEnd().split("\n")), color) : "",
    section("Telemetry", telemetry, color),
    leftOut.length === 0 ? "" : section("Not read", textLines(leftOut), color),
    run.parameters.length === 0 ? "" : section("Parameters", parameters, color),
    section("States", states, color),
    run.ranks.length === 0 ? "" : section("Ranks", ranks, color),
    run.artifacts.length === 0 ? "" : section("Artifacts", artifacts, color),
    run.stderr_tail.length === 0 ? "" : section("Last lines of standard error", textLines(run.stderr_tail), color),
  ].join("");
}

const textLines = (lines: readonly string[]) => lines.map((line) => `${escapeControl(line)}\n`).join("");

function section(title: string, body: string, color: boolean): string {
  return `\n${paint(title, "bold", color)}\n${body.replace(/^(?=.)/gm, "  ")}`;
}

/** "slurm 17 on n1 (running)". */
function job({ placement }: RunDetailJson): string {
  if (placement === null) return "";
  const { launcher, name, job, nodes, phase, end, waiting_for, expected_start } = placement;
  const where = nodes.length === 0 ? "" : ` on ${nodes.join(", ")}`;
  const start = expected_start === null ? "" : `, expected to start ${localTime(Date.parse(expected_start))}`;
  const why = waiting_for === null ? "" : `: ${waiting_for}`;
  return `${launcher} ${job ?? name}${where} (${end ?? phase}${why}${start})`;
}

function gpus(run: RunDetailJson, hostGpus: number): string {
  if (run.placement !== null && run.placement.gpus.length > 0) return run.placement.gpus.join(", ");
  if (run.gpu_slots.length > 0) return run.gpu_slots.join(", ");
  if (run.gpus_requested > 0) return `${run.gpus_requested} requested`;
  const mayChoose = (run.config as { environment?: Record<string, string> } | null)?.environment?.CUDA_VISIBLE_DEVICES;
  return hostGpus === 0 || mayChoose || run.placement !== null
    ? ""
    : `none requested, so it sees none of the host's ${hostGpus}`;
}

/** The config's resources, and whether a cgroup enforces them; "" for an external run. */
function limits({ config, held_to }: RunDetailJson): string {
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
  ].map(([name, text]) => ({ text, how: held_to.includes(name!) ? "enforced by cgroup" : "not enforced" }));
  const same = requested.every(({ how }) => how === requested[0]!.how);
  if (requested.length === 0) return "";
  if (same) return `${requested.map(({ text }) => text).join(", ")} (${requested[0]!.how})`;
  return requested.map(({ text, how }) => `${text} (${how})`).join(", ");
}

function worker(run: RunDetailJson): string {
  const pids = [
    run.worker_pid === null ? "" : `pid ${run.worker_pid}`,
    run.proxy_pid === null ? "" : `proxy ${run.proxy_pid}`,
  ].filter((p) => p !== "").join(", ");
  const [node] = run.placement?.nodes ?? [];
  const processes = pids === "" || node === undefined ? pids : `${pids}, on ${node}`;
  if (!run.worker_id) return processes;
  return processes === "" ? run.worker_id : `${run.worker_id} (${processes})`;
}

function abilities(c: NonNullable<RunDetailJson["capabilities"]>): string {
  const can = [c.supports_pause ? "pause" : "", c.supports_checkpoint ? "checkpoints" : ""];
  return can.filter((a) => a !== "").join(", ");
}

function rewardText({ telemetry }: RunDetailJson): string {
  const { mean_reward_100: mean, told_reward: metric, objective } = telemetry;
  if (objective !== null) {
    return objective.value === null ? `none yet (${objective.name})` : `${number(objective.value)} (${objective.name})`;
  }
  if (mean !== null) return `${number(mean)} (mean of the last 100 episodes)`;
  return metric === null ? "" : `${number(metric.value)} (${metric.name})`;
}
