/** Tools that read runs. Their answers are text in few tokens, which says what it leaves out. */
import { number } from "../base/text/format.ts";
import { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import { parsedJson } from "../base/text/json_text.ts";
import { codeFacts, environmentFacts } from "../runs/code_facts.ts";
import { attemptsCode } from "../runs/fields/code_records.ts";
import { requireSeries, xLabel } from "../runs/curves.ts";
import { z } from "zod";
import { points, trend } from "./curve_words.ts";
import { errorLines, lastLines } from "./log_errors.ts";
import { outcomeOrState, rewardOf, runLine, shortText, sweepLines } from "./run_text.ts";
import { type Tool, tool, type ToolApi } from "./tool.ts";

const { method } = Mosaic;
/** Bytes of a log's end that are searched for errors. */
const LOG_BYTES = 4 << 20;
const LOG_LINES = 20_000;
const NAMES_SHOWN = 60;
const DEFAULT_POINTS = 16;

const RUN = z.string().min(1).describe("a run's id, a unique beginning of it, its name, or @last");
const RUNS = z.array(RUN).min(1).max(20);

export const READ_TOOLS: readonly Tool[] = [
  tool({
    name: "list_runs",
    description:
      "Lists runs, newest first, one a line: id | name | outcome or state | steps | reward | reason. Use it to find the best run " +
      "(sort by a metric) or the failed ones (states).",
    input: {
      where: z.string().optional().describe(
        "filter: COLUMN OPERATOR VALUE with = != < <= > >= ~ (contains), joined by and, or, not; e.g. lr<1e-3 and state=FAULTED; " +
          "columns: name, state, tag, reason, param.NAME, metric.NAME, metric.NAME:max",
      ),
      states: z.array(z.string()).optional().describe(
        "such as EXECUTING, FAULTED, TERMINATED, CANCELLED",
      ),
      sort: z.string().optional().describe(
        "a column such as metric.loss:min; -metric.reward:max sorts descending",
      ),
      columns: z.array(z.string()).max(12).optional().describe(
        "further values in each line: param.NAME, metric.NAME:max …",
      ),
      limit: z.number().int().min(1).max(200).default(20),
    },
    async answer({ where = "", states = [], sort = "", columns = [], limit }, api) {
      const answer = await api.unary(method.listRuns, { where, states, sort, columns, limit });
      const { runs, values, total } = answer;
      const lines = runs.map((run, i) => {
        const further = columns.map((name, k) => `${name}=${shortText(cell(values[i]?.json[k]))}`);
        return [runLine(run), ...further].join(" | ");
      });
      const left = Number(total) - runs.length;
      return [
        ...lines,
        left > 0
          ? `${left} more runs match; narrow "where" or raise "limit" (at most 200).`
          : `${total} runs.`,
      ];
    },
  }),
  tool({
    name: "show_run",
    description:
      "One run: outcome and reason with what to do about it, command, parameters, changes of state, names of its metrics " +
      "with last, least and largest value, and the last lines of standard error if it failed.",
    input: { run: RUN },
    async answer({ run: ref }, api) {
      const run = await api.unary(method.getRun, { run: ref });
      const { series } = await api.unary(method.listSeries, { run: run.runId });
      const shown = series.slice(0, NAMES_SHOWN).map((s) =>
        `  ${s.name}: last ${value(s.last)}, min ${value(s.min)}${at(s.minStep)}, max ${
          value(s.max)
        }${at(s.maxStep)}, ` +
        `${s.points} points${s.nonFinite > 0n ? `, ${s.nonFinite} NaN or infinite` : ""}`
      );
      return [
        runLine(run),
        ...(run.hint === "" ? [] : [`what to do: ${run.hint}`]),
        ...(rewardOf(run) === undefined ? [] : [`reward: ${rewardOf(run)}`]),
        ...(run.tags.length === 0 ? [] : [`tags: ${run.tags.join(", ")}`]),
        ...(run.notes === "" ? [] : [`notes: ${run.notes.slice(0, 500)}`]),
        `directory: ${run.directory}`,
        ...await codeLines(api, run),
        ...section(
          "parameters",
          run.parameters.map((p) => `  ${p.name} = ${shortText(cell(p.valueJson))}`),
          NAMES_SHOWN,
        ),
        ...section(
          "states",
          run.transitions.slice(-12).map((t) =>
            `  ${t.toState}${t.reason === "" ? "" : `: ${t.reason}`}`
          ),
        ),
        ...section("metrics", shown),
        ...(series.length > shown.length
          ? [`  ${series.length - shown.length} more metrics: find_names lists all`]
          : []),
        ...(run.outcome === "failed"
          ? section("end of standard error", lastLines(run.stderrTail, 20))
          : []),
      ];
    },
  }),
  tool({
    name: "read_metric",
    description:
      "A metric's curve of one or more runs: its trend in words, extremes with their steps, and a reduced curve: a line a part, " +
      "`end-step mean [min, max]`. No extreme is lost by the reduction.",
    input: {
      runs: RUNS,
      metric: z.string().min(1).describe(
        "a name from show_run or find_names, such as loss or episode_reward",
      ),
      points: z.number().int().min(0).max(200).default(DEFAULT_POINTS).describe(
        "parts of a curve; 0: only the words",
      ),
    },
    async answer({ runs, metric, points: parts }, api) {
      const texts: string[] = [];
      for (const ref of runs) {
        const run = await api.unary(method.getRun, { run: ref });
        const { series } = await api.unary(method.listSeries, { run: run.runId });
        requireSeries([metric], series.map(({ name }) => name));
        const curveIn = async (buckets: number) =>
          (await api.unary(method.getSeries, { run: run.runId, name: metric, buckets })).buckets;
        // The words need as many parts as show a curve, whatever is asked for.
        const shape = await curveIn(DEFAULT_POINTS);
        const shown = parts === 0 || parts === DEFAULT_POINTS ? shape : await curveIn(parts);
        const found = series.find(({ name }) => name === metric)!;
        texts.push(
          `${run.runId} ${run.name} (${outcomeOrState(run)}): ${metric} ${trend(shape)}; last ${
            value(found.last)
          }, ` +
            `min ${value(found.min)}${at(found.minStep)}, max ${value(found.max)}${
              at(found.maxStep)
            }, ${found.points} points` +
            `${found.nonFinite > 0n ? `, ${found.nonFinite} of them NaN or infinite` : ""}`,
          ...(parts === 0 ? [] : [`${xLabel(metric, shown)} value`, ...points(shown)]),
        );
      }
      return texts;
    },
  }),
  tool({
    name: "read_log",
    description:
      "Lines of what a run's program has printed: those that name an error, with the lines around them (default), or the last ones.",
    input: {
      run: RUN,
      stream: z.enum(["stderr", "stdout"]).default("stderr"),
      what: z.enum(["errors", "last"]).default("errors"),
      lines: z.number().int().min(1).max(300).default(40),
      attempt: z.number().int().min(0).default(0).describe("0: the newest"),
    },
    async answer({ run, stream, what, lines, attempt }, api) {
      const { text, cut } = await logOf(api, {
        run,
        stream,
        attempt,
        tailLines: what === "last" ? lines : LOG_LINES,
      });
      if (text.trim() === "") return [`Nothing on ${stream}; the other stream may have it.`];
      if (what === "last") return lastLines(text.trimEnd().split("\n"), lines);
      const { lines: found, looked, matched } = errorLines(text, lines);
      const where = `${matched} of the ${
        cut ? "last " : ""
      }${looked} lines of ${stream} name an error`;
      return found.length === 0
        ? [`${where}; the last lines:`, ...lastLines(text.trimEnd().split("\n"), 10)]
        : [`${where}:`, ...found];
    },
  }),
  tool({
    name: "compare_runs",
    description:
      "Runs side by side: outcomes, the parameters in which they differ, and each metric that you name (or those that all have).",
    input: { runs: RUNS.min(2), metrics: z.array(z.string()).max(20).optional() },
    async answer({ runs: refs, metrics }, api) {
      const runs = await Promise.all(refs.map((run) => api.unary(method.getRun, { run })));
      const series = await Promise.all(runs.map(async ({ runId }) => {
        const answer = await api.unary(method.listSeries, { run: runId });
        return new Map(answer.series.map((one) => [one.name, one]));
      }));
      const names = metrics ??
        [...series[0]!.keys()].filter((name) => series.every((of) => of.has(name))).slice(0, 20);
      const parameters = runs.map((run) =>
        new Map(run.parameters.map((p) => [p.name, p.valueJson]))
      );
      const all = [...new Set(parameters.flatMap((of) => [...of.keys()]))].sort();
      const differing = all.filter((name) =>
        new Set(parameters.map((of) => of.get(name))).size > 1
      );
      const row = (name: string, values: readonly string[]) => [name, ...values].join(" | ");
      return [
        row("run", runs.map(({ runId }) => runId)),
        row("name", runs.map(({ name }) => name)),
        row("outcome", runs.map(outcomeOrState)),
        row("reward", runs.map((run) => rewardOf(run) ?? "-")),
        ...differing.slice(0, NAMES_SHOWN).map((name) =>
          row(name, parameters.map((of) => shortText(cell(of.get(name)))))
        ),
        ...(differing.length > NAMES_SHOWN
          ? [`${differing.length - NAMES_SHOWN} more parameters differ`]
          : []),
        `${all.length - differing.length} parameters are equal.`,
        ...names.map((name) =>
          row(
            `${name} (last; min; max)`,
            series.map((of) => {
              const found = of.get(name);
              return found === undefined
                ? "-"
                : `${value(found.last)}; ${value(found.min)}; ${value(found.max)}`;
            }),
          )
        ),
      ];
    },
  }),
  tool({
    name: "show_sweep",
    description:
      "A sweep (many runs of one command): its state, how many trials are in which state, and the best so far with its values. " +
      'Its runs have the tag sweep:NAME: list_runs with where tags="sweep:NAME".',
    input: { sweep: z.string().default("@last").describe("its name or id; @last: the newest") },
    async answer({ sweep }, api) {
      return sweepLines(await api.unary(method.getSweep, { sweep, trials: 0 }));
    },
  }),
  tool({
    name: "find_names",
    description:
      "The names of all parameters and metrics that any run has, for filters, columns and read_metric.",
    input: {
      contains: z.string().default("").describe("only names that contain this, whatever the case"),
    },
    async answer({ contains }, api) {
      const { parameters, metrics } = await api.unary(method.listColumns, {});
      const matching = (names: readonly string[]) =>
        names.filter((name) => name.toLowerCase().includes(contains.toLowerCase()));
      return [
        ...section("parameters (param.NAME)", matching(parameters).map((name) => `  ${name}`), 200),
        ...section("metrics (metric.NAME)", matching(metrics).map((name) => `  ${name}`), 200),
      ];
    },
  }),
];

/** Heading and lines; nothing for no lines. */
function section(heading: string, lines: readonly string[], most = Infinity): string[] {
  if (lines.length === 0) return [];
  const more = lines.length > most ? [`  ${lines.length - most} more are not shown`] : [];
  return [`${heading}:`, ...lines.slice(0, most), ...more];
}

function cell(json: string | undefined): unknown {
  return json === undefined || json === "" ? undefined : parsedJson(json);
}

function value(one: number | undefined): string {
  return one === undefined ? "-" : number(one);
}

function at(step: bigint | undefined): string {
  return step === undefined ? "" : ` at ${step}`;
}

async function logOf(
  api: ToolApi,
  request: { run: string; stream: string; attempt: number; tailLines: number },
): Promise<{ text: string; cut: boolean }> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const { signal } = new AbortController();
  for await (
    const { text } of api.stream(method.streamLogs, { ...request, follow: false }, signal)
  ) {
    parts.push(text);
    size += text.length;
    // Only the end is wanted.
    while (size - parts[0]!.length > LOG_BYTES) size -= parts.shift()!.length;
  }
  const text = new TextDecoder().decode(await new Blob(parts as BlobPart[]).arrayBuffer());
  return { text, cut: text.split("\n").length >= request.tailLines };
}

/** What ran, in a few lines; the command stands elsewhere in the answer. */
async function codeLines(
  api: ToolApi,
  { runId, configJson }: { runId: string; configJson: string },
): Promise<string[]> {
  const { records } = await api.unary(method.getCode, { run: runId });
  const codes = records.map(attemptsCode);
  const facts = [...codeFacts(parsedJson(configJson), codes), ...environmentFacts(codes)];
  const changed = codes[0]?.code.git?.files.map(({ path, change }) => `  ${change} ${path}`) ?? [];
  return [
    ...section(
      "code",
      facts.filter(({ name }) => name !== "recorded").map(({ name, text }) =>
        `  ${name}: ${shortText(text)}`
      ),
    ),
    ...section("differs from the commit", changed, NAMES_SHOWN),
  ];
}
