/** `mosaic demo-worker` */
import type { Command } from "commander";
import { DEFAULTS, demoWorkerOptions } from "../../demo/worker_options.ts";
import { checkpointDir, runWorker } from "../../demo/worker.ts";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { explainPath } from "../../../permissions/missing.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Trains a linear policy on CartPole-v1 (same physics and termination rules as Gymnasium) with the cross-entropy " +
        "method, and prints steps, episodes, metrics and lifecycle events on standard output, one JSON object per line. Needs only mosaic. " +
        "Training is deterministic for a seed and options, also when resumed from a checkpoint.",
    )
    .option("--episodes <n>", `number of episodes (default: ${DEFAULTS.episodes})`)
    .option("--max-steps <n>", "maximum total steps (default: no limit)")
    .option(
      "--population <n>",
      `episodes per generation, each with another policy (default: ${DEFAULTS.population})`,
    )
    .option(
      "--elite <x>",
      `fraction of a generation to which the next is fitted (default: ${DEFAULTS.elite})`,
    )
    .option("--seed <n>", `random seed (default: ${DEFAULTS.seed})`)
    .option("--step-delay-ms <ms>", "minimum time per step, may be fractional (default: no delay)")
    .option(
      "--checkpoint-every <n>",
      `episodes between checkpoints (default: ${DEFAULTS.checkpointEvery})`,
    )
    .option(
      "--metrics-every <n>",
      `generations between metrics, 0: no metrics (default: ${DEFAULTS.metricsEvery})`,
    )
    .option("--no-steps", "do not print steps")
    .option("--control", `accept {"control":"pause"} and {"control":"resume"} on standard input`)
    .option(
      "--config <file>",
      "JSON file with options, as the daemon writes it (keys such as max_steps)",
    )
    .option("--worker-id <id>", "ignored")
    .option("--grpc", "ignored: this worker reports on standard output")
    .option("--grpc-target <target>", "ignored")
    .addHelpText(
      "after",
      manual({
        environment: [
          ["RUN_ID", "run_id of the records (default: demo)"],
          [
            "MOSAIC_CHECKPOINT_DIR",
            "directory for checkpoints (default: $MOSAIC_RUN_DIR/checkpoints, else no checkpoints)",
          ],
          ["MOSAIC_RESUME_FROM", "checkpoint to continue from"],
        ],
        examples: [
          ["mosaic run --follow -- mosaic demo-worker --episodes 200", "train under the daemon"],
          ["mosaic demo-worker --seed 7 --no-steps | tail -1", "train without one"],
        ],
        exits: {
          0: "training complete",
          1: "failed (the reason is in the run_failed event)",
          2: "wrong arguments",
          143: "stopped by SIGTERM",
        },
      }),
    )
    .action(async (flags: Record<string, unknown>) => {
      // Commander gives `steps: true` when --no-steps is absent; only its absence may let the file
      // decide.
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
    throw new Error("it is not a JSON object");
  } catch (error) {
    const known = explainPath(error);
    const what = known instanceof MosaicError ? known.message : `${path}: ${messageOf(error)}`;
    throw new MosaicError("invalid_argument", `--config ${what}`, { cause: error });
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
