/** `mosaic demo-worker` */
import type { Command } from "commander";
import { DEFAULTS, demoWorkerOptions } from "../demo/worker_options.ts";
import { checkpointDir, runWorker } from "../demo/worker.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Trains an actor-critic on CartPole-v1 (the same physics and ends of episodes as Gymnasium's) and prints steps, " +
        "episodes, metrics and lifecycle events on standard output, one JSON object a line. Needs nothing but mosaic. " +
        "The same seed and options give the same training, also across a resume from a checkpoint.",
    )
    .option("--episodes <n>", `episodes to train (default: ${DEFAULTS.episodes})`)
    .option("--max-steps <n>", "end after this many steps in all (default: no bound)")
    .option("--learning-rate <x>", `Adam's rate at the start; falls linearly (default: ${DEFAULTS.learningRate})`)
    .option("--gamma <x>", `discount of later rewards (default: ${DEFAULTS.gamma})`)
    .option("--hidden <n>", `units of the hidden layer, 0 for a linear policy (default: ${DEFAULTS.hidden})`)
    .option("--entropy <x>", `weight of the entropy bonus (default: ${DEFAULTS.entropy})`)
    .option("--seed <n>", `seed of everything random (default: ${DEFAULTS.seed})`)
    .option("--step-delay-ms <ms>", "hold training to this time per step, fractions too (default: as fast as it goes)")
    .option("--checkpoint-every <n>", `episodes between checkpoints (default: ${DEFAULTS.checkpointEvery})`)
    .option("--metrics-every <n>", `episodes between metrics, 0 for none (default: ${DEFAULTS.metricsEvery})`)
    .option("--no-steps", "print episodes only")
    .option("--control", `obey {"control":"pause"} and {"control":"resume"} on standard input`)
    .option("--config <file>", "read options from a JSON file, as the daemon writes it (keys like learning_rate)")
    .option("--worker-id <id>", "accepted and not used")
    .option("--grpc", "accepted and not used: this worker speaks by standard output")
    .option("--grpc-target <target>", "accepted and not used")
    .addHelpText(
      "after",
      manual({
        environment: [
          ["RUN_ID", "written on each record (default: demo)"],
          ["MOSAIC_CHECKPOINT_DIR", "where checkpoints go (default: $MOSAIC_RUN_DIR/checkpoints, else none are saved)"],
          ["MOSAIC_RESUME_FROM", "a checkpoint to go on from"],
        ],
        examples: [
          ["mosaic run --follow -- mosaic demo-worker --episodes 200", "train under the daemon"],
          ["mosaic demo-worker --seed 7 --no-steps | tail -1", "train without one"],
        ],
        exits: {
          0: "trained to the end",
          1: "failed (the reason is in the run_failed event)",
          2: "wrong arguments",
          143: "asked to stop by SIGTERM",
        },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      // Commander gives `steps: true` when --no-steps is absent; only its absence may let the file decide.
      const given = { ...flags, steps: flags["steps"] === false ? false : undefined };
      const file = typeof flags["config"] === "string" ? readConfig(flags["config"]) : {};
      const options = demoWorkerOptions(given, file);
      const stop = new AbortController();
      const onTerm = () => stop.abort();
      Deno.addSignalListener("SIGTERM", onTerm);
      try {
        result.code = await runWorker(options, {
          runId: context.env("RUN_ID") || "demo",
          checkpointDir: checkpointDir(context.env),
          resumeFrom: context.env("MOSAIC_RESUME_FROM") || undefined,
          write: (text) => context.out.write(text),
          controlLines: () => lines(Deno.stdin.readable),
          stop: stop.signal,
          now: () => performance.now(),
          unixSeconds: () => context.now() / 1000,
        });
      } finally {
        Deno.removeSignalListener("SIGTERM", onTerm);
      }
    });
}

function readConfig(path: string): Record<string, unknown> {
  try {
    const value = JSON.parse(Deno.readTextFileSync(path));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    throw new Error("it is no JSON object");
  } catch (error) {
    throw new MosaicError("invalid_argument", `--config ${path}: ${messageOf(error)}`, { cause: error });
  }
}

async function* lines(bytes: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of bytes.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
  if (rest !== "") yield rest;
}
