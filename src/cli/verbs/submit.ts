/** `mosaic submit` */
import type { Command } from "commander";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { SubmitRunResponse } from "../../gen/gymgui/trainer_pb.ts";
import type { HostResponse } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { connectionFlags, connectionOptions, outputOption } from "../flags.ts";
import { followRun } from "../following.ts";
import { interruptible } from "../interrupt.ts";
import { Link } from "../daemon_link.ts";
import { harmless } from "../text.ts";

/** How long (ms) a following verb waits for a daemon that is being restarted. */
export const FOLLOW_PATIENCE_MS = 120_000;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Submits a run and prints its id. The config is a file of JSON (docs/configuration.md), or - for standard input.\n\n" +
        "A config that is submitted again while its first run is alive starts nothing: that run's id is printed. After " +
        "its end it starts a new run.",
    )
    .argument("<file>", "the config, or - for standard input")
    .option("-f, --follow", "print the run's events until it ends, and exit by its outcome")
    .option("--run-id <ulid>", "run it under this id");
  connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic submit train.json", "submit, print the run's id"],
          ["mosaic submit --follow train.json && mosaic export @last --format csv", "train, then export"],
          ["jq '.metadata.worker.config.seed = 7' train.json | mosaic submit -", "submit a variation"],
        ],
        exits: FOLLOW_EXITS,
      }),
    )
    .action(async (file: string, flags: Record<string, unknown>) => {
      const configJson = await readConfigText(file, context);
      const runId = typeof flags["runId"] === "string" ? flags["runId"] : "";
      result.code = await submit(context, configJson, { ...flags, runId });
    });
}

export const FOLLOW_EXITS = {
  0: "submitted; with --follow: the run succeeded",
  1: "with --follow: the run failed",
  2: "wrong arguments, or the config is not valid (every violation is printed)",
  4: "there is no such file",
  5: "with --follow: the run was cancelled",
  6: "the run id is taken by a run with another config",
  7: "this host can never give what the config asks for, or a limit was reached",
  130: "interrupted; the run goes on",
};

/**
 * Submits, prints the id, and follows where that is asked for.
 * @param note what the daemon's host means for the run, to be said before it is submitted; "" for nothing
 */
export async function submit(
  context: Context,
  configJson: string,
  flags: Record<string, unknown>,
  note?: (host: HostResponse) => string,
): Promise<number> {
  const follow = flags["follow"] === true;
  using link = await Link.open(context, connectionFlags(flags), { patienceMs: follow ? FOLLOW_PATIENCE_MS : 0 });
  if (note !== undefined) {
    const text = note(await link.unary(link.methods.getHost, {}));
    if (text !== "") context.err.write(`mosaic: ${text}\n`);
  }
  const { TrainerService } = await import("../../gen/gymgui/trainer_pb.ts");
  let submitted: SubmitRunResponse;
  try {
    submitted = await link.unary(TrainerService.method.submitRun, { runId: String(flags["runId"] ?? ""), configJson });
  } catch (error) {
    throw await withViolations(error, configJson, context);
  }
  const { runId, digest } = submitted;
  const json = flags["output"] !== "table";
  context.out.write(json ? `${JSON.stringify({ run_id: runId, digest })}\n` : `${runId}\n`);
  if (!follow) return 0;
  return await interruptible(
    context,
    `run ${runId} goes on; "mosaic events ${runId} -f" follows it again, "mosaic cancel ${runId}" ends it`,
    (signal) => followRun(link, context, runId, signal, json),
  );
}

/**
 * The daemon's refusal of a config names every violation in one line: they are printed one a line instead, as by
 * validate. A refusal for another reason (or by a daemon with another schema) stays as it is.
 */
async function withViolations(error: unknown, configJson: string, context: Context): Promise<unknown> {
  if (!(error instanceof MosaicError) || error.code !== "invalid_argument") return error;
  // The schema is loaded by whom it concerns only.
  const { violationsOf } = await import("../../config/config.ts");
  const violations = violationsOf(configJson);
  if (violations.length < 2) return error;
  for (const { path, message } of violations) context.err.write(`${harmless(path)} ${harmless(message)}\n`);
  return new MosaicError("invalid_argument", `the config has ${violations.length} violations`, { cause: error });
}

export async function readConfigText(file: string, context: Context): Promise<string> {
  if (file === "-") return await context.readInput();
  try {
    return await Deno.readTextFile(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    if (error instanceof Deno.errors.NotFound) {
      throw new MosaicError("not_found", `${file}: there is no such file`, { cause: error });
    }
    throw new MosaicError("invalid_argument", `${file}: ${messageOf(error)}`, { cause: error });
  }
}
