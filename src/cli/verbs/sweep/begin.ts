/** Begins a sweep, or prints what it would start. */
import { dirname, resolve } from "node:path";
import { MosaicError } from "../../../base/errors.ts";
import { shellLine } from "../../../base/text/terminal_text.ts";
import { newUlid } from "../../../config/ulid.ts";
import type { Described } from "../../../sweeps/described.ts";
import type { SweepSpec, Value } from "../../../sweeps/spec.ts";
import { nameOf } from "../../verb/command_config.ts";
import { connectionFlags } from "../../verb/flags.ts";
import { describedBy, naming } from "../../verb/sweep_options.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { offerDaemon } from "../../link/offer_daemon.ts";
import { trialsText } from "../../text/sweep_text.ts";
import { configOf, warnOfLeftOut } from "../runs/run.ts";
import { FOLLOW_RETRY_MS, readConfigText } from "../runs/submit.ts";
import { followSweep } from "./follow.ts";
import { driveSweep, type Optimized } from "./optimizer.ts";

type Flags = Record<string, unknown>;

/** @returns the exit code */
export async function beginSweep(
  words: readonly string[],
  flags: Flags,
  context: Context,
): Promise<number> {
  const { specOf } = await import("../../../sweeps/described.ts");
  const described = await describe(words, flags, context);
  for (const note of described.notes) context.err.write(`mosaic: ${note}\n`);
  const command = described.command ?? (described.config === undefined ? words : undefined);
  const run = command === undefined
    ? undefined
    : configOf(command, { ...flags, name: "trial" }, context, "");
  const config = (run?.config ?? described.config) as Record<string, unknown>;
  const given = (flags["sweepName"] ?? flags["name"] ?? described.name) as string | undefined;
  const name = given ??
    (command === undefined
      ? String(config.run_name ?? "sweep")
      : nameOf(command.map(withoutTemplates)));
  if (run !== undefined) warnOfLeftOut(run.missing, context);
  if (flags["optimizer"] === true) {
    const optimized = await optimizedBy(
      described,
      config,
      given,
      flags["optimizerTimeout"] as number | undefined,
    );
    if (run?.here === true) await offerDaemon(context, connectionFlags(flags));
    using link = await Link.open(context, connectionFlags(flags), { retryMs: FOLLOW_RETRY_MS });
    return await driveSweep(link, context, optimized);
  }
  const spec = specOf({ ...described, name }, config, name);
  if (spec.stop?.rule === "optimizer") {
    throw new MosaicError(
      "invalid_argument",
      "--stop optimizer: there is no program that decides",
      {
        hint: "Add --optimizer, or choose asha, hyperband, median or pbt.",
      },
    );
  }
  if (flags["dryRun"] === true) return await dryRun(spec, flags, context);
  if (run?.here === true) await offerDaemon(context, connectionFlags(flags));
  const follow = flags["follow"] === true;
  using link = await Link.open(context, connectionFlags(flags), {
    retryMs: follow ? FOLLOW_RETRY_MS : 0,
  });
  const sweep = await link.unary(link.methods.createSweep, {
    specJson: JSON.stringify(spec),
    // The call may be repeated when the connection breaks.
    sweepId: newUlid(),
    anyName: given === undefined,
  });
  context.out.write(
    flags["output"] === "json"
      ? `${JSON.stringify(JSON.parse(sweep.json), null, 2)}\n`
      : `${sweep.name}\n`,
  );
  context.err.write(
    `mosaic: ${trialsText(sweep.total)}; see them with: mosaic sweep show ${sweep.name}\n`,
  );
  return follow ? await followSweep(link, context, sweep.name) : 0;
}

/** An optimizer may think this long about an answer. */
const ANSWER_MS = 300_000;

/**
 * @throws MosaicError `invalid_argument` for what an optimizer needs and is not given, or for
 * points of another origin
 */
async function optimizedBy(
  described: Described,
  config: Record<string, unknown>,
  name: string | undefined,
  answerMs = ANSWER_MS,
): Promise<Optimized> {
  const [{ axisValues }, { meaningOf }] = await Promise.all([
    import("../../../sweeps/points.ts"),
    import("../../../sweeps/trial_config.ts"),
  ]);
  const need = (what: string, why: string) =>
    new MosaicError("invalid_argument", `--optimizer needs ${what}`, { hint: why });
  const { metric, budget, pieces, max_parallel: parallel = 1 } = described;
  if (name === undefined) {
    throw need("--name NAME", "By its name, the same command continues the sweep.");
  }
  if (metric === undefined) {
    throw need("--metric NAME:max", "Its value is what the optimizer is told.");
  }
  if (budget.runs === undefined) {
    throw need("--budget Nruns", "It says how many points are asked for.");
  }
  const { axes, space: drawn, ...others } = pieces;
  if (Object.keys(others).length > 0) {
    throw new MosaicError(
      "invalid_argument",
      "--optimizer chooses all points: leave --random, --points, --seeds and --when out",
    );
  }
  const given = axes.map((axis) => ({ name: axis.name, values: axisValues(axis) }));
  const fixed = Object.fromEntries(
    given.filter(({ values }) => values.length === 1).map((
      { name, values },
    ) => [name, meaningOf(values[0]!)]),
  );
  const space = [
    ...drawn,
    ...given.filter(({ values }) => values.length > 1).map(({ name, values }) => ({
      name,
      distribution: { type: "choice" as const, values: values.map(meaningOf) },
    })),
  ];
  return {
    ...{ name, runs: budget.runs, parallel, metric, space, fixed, answerMs },
    specWith: async (parameters) => {
      const { specOf } = await import("../../../sweeps/described.ts");
      const rows = [parameters as Record<string, Value>];
      return specOf({ ...described, name, pieces: { axes: [], space: [], rows } }, config, name);
    },
  };
}

const withoutTemplates = (word: string) => word.replace(/\{[\w.:/-]+\}/g, "");

/** The file's words, with those of the options in their place. */
async function describe(
  words: readonly string[],
  flags: Flags,
  context: Context,
): Promise<Described> {
  const [{ together }, { arrayWords, metricOf }] = await Promise.all([
    import("../../../sweeps/described.ts"),
    import("../../../sweeps/words.ts"),
  ]);
  const [word, next] = words;
  const isFile = word === "-" || /\.(?:ya?ml|json)$/i.test(word!);
  if (isFile && next !== undefined) {
    throw new MosaicError(
      "invalid_argument",
      `${word} is a sweep's file, and "${next}" follows it`,
      {
        hint: `Give options before the file: mosaic sweep ${next} ${word}`,
      },
    );
  }
  const options = await describedBy(flags, () => context.readInput());
  const text = (name: string) => flags[name] as string | undefined;
  const [array, pass, metric, stop] = [text("array"), text("pass"), text("metric"), text("stop")];
  if (array !== undefined) {
    const { axis, parallel } = naming("--array", () => arrayWords(array));
    options.pieces.axes.push(axis);
    if (parallel !== undefined) options.max_parallel ??= parallel;
  }
  if (pass !== undefined) {
    if (pass !== "templates" && pass !== "flags" && pass !== "hydra") {
      throw new MosaicError(
        "invalid_argument",
        `--pass is "${pass}"; it must be flags, hydra or templates`,
      );
    }
    options.pass = pass;
  }
  if (metric !== undefined) options.metric = naming("--metric", () => metricOf(metric));
  if (stop !== undefined) options.stop = stop;
  if (!isFile) return options;
  const { sweepFile } = await import("../../../sweeps/files/sweep_file.ts");
  const file = sweepFile(
    await readConfigText(word!, context),
    word!,
    (path) => Deno.readTextFileSync(word === "-" ? path : resolve(dirname(word!), path)),
    flags["optimizer"] === true,
  );
  if (file.command === undefined && file.config === undefined) {
    throw new MosaicError("invalid_argument", `${word} names no command and no config`, {
      hint: 'Write command: [python, train.py, --lr, "{lr}"], or config: with a run\'s config.',
    });
  }
  return together(file, options);
}

/** Prints the command line of each trial, variables that templates set before it. */
async function dryRun(spec: SweepSpec, flags: Flags, context: Context): Promise<number> {
  const [{ trialCount, valuesAt }, { commandOf, textOf, trialConfig }] = await Promise.all([
    import("../../../sweeps/points.ts"),
    import("../../../sweeps/trial_config.ts"),
  ]);
  const total = trialCount(spec);
  const before = (spec.config.environment ?? {}) as Record<string, string>;
  for (let trial = 0; trial < total; trial++) {
    const config = trialConfig(spec, "", trial);
    const set = Object.entries(config.environment as Record<string, string>)
      .filter(([name, value]) =>
        before[name] !== value && name !== "MOSAIC_SWEEP" && name !== "MOSAIC_TRIAL"
      )
      .map(([name, value]) => `${name}=${shellLine([value])} `);
    const command = `${set.join("")}${shellLine(commandOf(config))}`;
    const parameters = Object.fromEntries(
      [...valuesAt(spec, trial)].map(([name, value]) => [name, textOf(value)]),
    );
    context.out.write(
      flags["output"] === "json"
        ? `${JSON.stringify({ trial, parameters, command })}\n`
        : `${command}\n`,
    );
  }
  context.err.write(`mosaic: ${trialsText(total)}; nothing was started\n`);
  return 0;
}
