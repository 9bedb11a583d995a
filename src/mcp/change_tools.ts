/**
 * Tools that change something: offered only where a person has allowed it, and within the caller's
 * role.
 */
import { z } from "zod";
import { TrainerService } from "../gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import { runLine, sweepLines } from "./run_text.ts";
import { type Tool, tool } from "./tool.ts";

const { method } = Mosaic;
const RUN = z.string().min(1).describe("a run's id, or a unique beginning of it");

const COMMAND = {
  command: z.array(z.string()).min(1).describe(
    'program and arguments, such as ["python", "train.py", "--lr", "0.001"]',
  ),
  cwd: z.string().startsWith("/").describe("working directory on the daemon's host, absolute"),
  gpus: z.number().int().min(0).max(64).default(0),
  environment: z.record(z.string(), z.string()).default({}),
  tags: z.array(z.string()).max(20).default([]),
};
type Command = z.infer<z.ZodObject<typeof COMMAND>> & { name: string };

function configOf(
  { command, cwd, name, gpus, environment, tags }: Command,
): Record<string, unknown> {
  const [program, ...args] = command as [string, ...string[]];
  return {
    run_name: name,
    entry_point: program,
    arguments: args,
    environment,
    resources: { gpus: { requested: gpus, mandatory: gpus > 0 } },
    artifacts: {},
    metadata: {
      // Makes the config unique: the same command twice is two runs.
      submission: { by: "mosaic mcp", nonce: crypto.randomUUID() },
      ...(tags.length === 0 ? {} : { tags }),
      worker: { script: program, arguments: args, cwd, use_grpc: false },
    },
  };
}

const SCALAR = z.union([z.string(), z.number(), z.boolean()]);

export const CHANGE_TOOLS: readonly Tool[] = [
  tool({
    name: "submit_run",
    description:
      "Submits a command as a run; the daemon starts it when there is room. Its parameters are read from the command's options. " +
      "Answers the run's id.",
    changes: true,
    input: {
      ...COMMAND,
      name: z.string().min(1).max(120).optional(),
      max_duration_seconds: z.number().int().min(1).optional(),
    },
    async answer({ name, max_duration_seconds, ...command }, api) {
      const config = configOf({ ...command, name: name ?? command.command[0]!.split("/").at(-1)! });
      if (max_duration_seconds !== undefined) config.schedule = { max_duration_seconds };
      const { runId } = await api.unary(TrainerService.method.submitRun, {
        runId: "",
        configJson: JSON.stringify(config),
      });
      return [runLine(await api.unary(method.getRun, { run: runId }))];
    },
  }),
  tool({
    name: "start_sweep",
    description:
      "Tries a command with every combination of the grid's values, each with every seed. {NAME} in the command is a value; a " +
      "parameter that it does not name is added as --NAME=value. Answers the sweep; show_sweep tells how it goes.",
    changes: true,
    input: {
      ...COMMAND,
      name: z.string().min(1).max(100).describe("of the sweep; no other may have it"),
      grid: z.record(z.string(), z.array(SCALAR).min(1).max(1000)).describe(
        'such as {"lr": [0.001, 0.0003]}',
      ),
      seeds: z.array(z.number().int()).min(1).max(1000).optional().describe(
        "values of the parameter seed",
      ),
      metric: z.string().optional().describe("what is compared: eval/reward:max, loss:min"),
      max_parallel: z.number().int().min(1).max(1000).optional(),
    },
    async answer({ grid, seeds, metric, max_parallel, ...command }, api) {
      const [, name, goal] = /^(.+?)(?::(max|min))?$/s.exec(metric ?? "") ?? [];
      const spec = {
        name: command.name,
        config: configOf(command),
        pass: "flags",
        parts: [{
          axes: Object.entries(grid).map(([name, values]) => ({ name, values })),
          ...(seeds === undefined ? {} : { seeds: { name: "seed", values: seeds } }),
        }],
        budget: {},
        ...(name === undefined ? {} : { metric: { name, goal: goal ?? "max" } }),
        ...(max_parallel === undefined ? {} : { max_parallel }),
      };
      return sweepLines(await api.unary(method.createSweep, { specJson: JSON.stringify(spec) }));
    },
  }),
  tool({
    name: "cancel_sweep",
    description: "Makes no further trials of a sweep, and cancels those that have not ended.",
    changes: true,
    input: { sweep: z.string().min(1).describe("its name or id") },
    async answer({ sweep }, api) {
      return sweepLines(await api.unary(method.changeSweep, { sweep, action: "cancel" }));
    },
  }),
  tool({
    name: "cancel_run",
    description:
      "Cancels a run that has not ended: SIGTERM, then SIGKILL after the grace period. What it has recorded stays.",
    changes: true,
    input: { run: RUN },
    async answer({ run }, api) {
      return [runLine(await api.unary(method.cancelRun, { run }))];
    },
  }),
  tool({
    name: "annotate_run",
    description:
      "Adds tags to a run, or replaces its notes (Markdown), for the people who look at it.",
    changes: true,
    input: {
      run: RUN,
      add_tags: z.array(z.string()).max(20).default([]),
      notes: z.string().max(20_000).optional(),
    },
    async answer({ run, add_tags, notes }, api) {
      const edit = { run, addTags: add_tags, ...(notes === undefined ? {} : { notes }) };
      return [runLine(await api.unary(method.editRun, edit))];
    },
  }),
];
