/** Tools that change something: offered only where a person has allowed it, and within the caller's role. */
import { z } from "zod";
import { TrainerService } from "../gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import { runLine } from "./run_text.ts";
import { type Tool, tool } from "./tool.ts";

const { method } = Mosaic;
const RUN = z.string().min(1).describe("a run's id, or a unique beginning of it");

export const CHANGE_TOOLS: readonly Tool[] = [
  tool({
    name: "submit_run",
    description:
      "Submits a command as a run; the daemon starts it when there is room. Its parameters are read from the command's options. " +
      "Answers the run's id.",
    changes: true,
    input: {
      command: z.array(z.string()).min(1).describe(
        'program and arguments, such as ["python", "train.py", "--lr", "0.001"]',
      ),
      cwd: z.string().startsWith("/").describe("working directory on the daemon's host, absolute"),
      name: z.string().min(1).max(120).optional(),
      gpus: z.number().int().min(0).max(64).default(0),
      environment: z.record(z.string(), z.string()).default({}),
      tags: z.array(z.string()).max(20).default([]),
      max_duration_seconds: z.number().int().min(1).optional(),
    },
    async answer({ command, cwd, name, gpus, environment, tags, max_duration_seconds }, api) {
      const [program, ...args] = command as [string, ...string[]];
      const config = {
        run_name: name ?? program.split("/").at(-1),
        entry_point: program,
        arguments: args,
        environment,
        resources: { gpus: { requested: gpus, mandatory: gpus > 0 } },
        artifacts: {},
        ...(max_duration_seconds === undefined ? {} : { schedule: { max_duration_seconds } }),
        metadata: {
          // Makes the config unique: the same command twice is two runs.
          submission: { by: "mosaic mcp", nonce: crypto.randomUUID() },
          ...(tags.length === 0 ? {} : { tags }),
          worker: { script: program, arguments: args, cwd, use_grpc: false },
        },
      };
      const { runId } = await api.unary(TrainerService.method.submitRun, {
        runId: "",
        configJson: JSON.stringify(config),
      });
      return [runLine(await api.unary(method.getRun, { run: runId }))];
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
    description: "Adds tags to a run, or replaces its notes (Markdown), for the people who look at it.",
    changes: true,
    input: { run: RUN, add_tags: z.array(z.string()).max(20).default([]), notes: z.string().max(20_000).optional() },
    async answer({ run, add_tags, notes }, api) {
      const edit = { run, addTags: add_tags, ...(notes === undefined ? {} : { notes }) };
      return [runLine(await api.unary(method.editRun, edit))];
    },
  }),
];
