/** `mosaic submit` */
import type { Command } from "commander";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import type { SubmitRunResponse } from "../../../gen/gymgui/trainer_pb.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import {
  codeOption,
  connectionFlags,
  connectionOptions,
  outputOption,
  repeated,
} from "../../verb/flags.ts";
import { queueFields, queueOptions } from "../../verb/queue_flags.ts";
import { isStandardInput } from "../../link/standard_streams.ts";
import { explainPath } from "../../../permissions/missing.ts";
import { EXIT } from "../../link/exit.ts";
import { followRun } from "../../link/following.ts";
import { interruptible } from "../../link/interrupt.ts";
import { isTransient, Link } from "../../link/daemon_link.ts";
import type { CodeCopy } from "../../code/code_copy.ts";
import type { Collected } from "../../../provenance/collect.ts";
import { codeOf, collect, sendCode } from "../../code/submitted_code.ts";
import { escapeControl } from "../../text/text.ts";

/** How long (ms) a verb with --follow waits for a daemon that is restarting. */
export const FOLLOW_RETRY_MS = 120_000;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Submits a run and prints its id. The config is a JSON file (docs/reference/configuration.md).\n\n" +
        "If a live run has the same config, nothing is started and that run's id is printed. If that run has ended, a " +
        "new run is started.",
    )
    .argument("<file>", "config file, or - for standard input")
    .option(
      "-f, --follow",
      "print its output and events until it has ended; exit code by its outcome",
    )
    .option("--run-id <ulid>", "id of the new run")
    .option(
      "--observe <glob>",
      "also read tracker files of this pattern, besides the config's (repeatable)",
      repeated,
    )
    .option("--no-observe", "read no files of trackers, whatever the config says")
    .addOption(codeOption())
    .option(
      "--snapshot",
      "start from a copy of the repository's files as they are now, removed with the run",
    )
    .option(
      "--check",
      "submit nothing: print the config's digest, or every violation; needs no daemon",
    )
    .option("--canonical", "with --check: print the canonical form, whose SHA-256 is the digest");
  connectionOptions(outputOption(queueOptions(command), ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic submit train.json", "submit, print the run's id"],
          ["mosaic submit --check train.json", "say whether it is valid"],
          [
            "mosaic submit --follow train.json && mosaic export @last --format csv",
            "train, then export",
          ],
          [
            "jq '.metadata.worker.config.seed = 7' train.json | mosaic submit -",
            "submit a variation",
          ],
        ],
        exits: FOLLOW_EXITS,
      }),
    )
    .action(async (file: string, flags: Record<string, unknown>) => {
      if (flags["check"] === true) {
        result.code = await check(file, flags, context);
        return;
      }
      const given = await readConfigText(file, context);
      const { changedConfig } = await import("../../verb/changed_config.ts");
      const configJson = changedConfig(given, {
        observe: flags["observe"],
        queue: queueFields(flags),
        code: flags["code"],
      });
      const runId = typeof flags["runId"] === "string" ? flags["runId"] : "";
      const taken = flags["snapshot"] === true
        ? await snapshot(context, configJson, flags)
        : undefined;
      result.code = await submit(
        context,
        taken?.configJson ?? configJson,
        { ...flags, runId },
        taken,
      );
    });
}

export const FOLLOW_EXITS = {
  0: "submitted; with --follow: the run succeeded",
  1: "with --follow: the run failed",
  2: "wrong arguments, or the config is not valid (every violation is printed)",
  4: "no such file",
  5: "with --follow: the run was cancelled",
  6: "the run id belongs to a run with another config",
  7: "this host does not have the requested resources, or a limit was reached",
  130: "interrupted; the run continues",
};

export interface SubmitOptions {
  /** Called once the daemon is reached, to print messages before the run is submitted. */
  before?: (link: Link) => Promise<void>;
  /** The run's code, which goes if the run is refused. */
  copy?: CodeCopy | undefined;
  /** What is recorded of its code, instead of what the config's working directory has now. */
  found?: Promise<Collected | undefined> | undefined;
}

/**
 * Submits, prints the id, and with --follow prints events until the end.
 * @returns the exit code
 */
export async function submit(
  context: Context,
  configJson: string,
  flags: Record<string, unknown>,
  { before, copy, found: given }: SubmitOptions = {},
): Promise<number> {
  const follow = flags["follow"] === true;
  // Another host has files of its own.
  const here = flags["target"] === undefined && !context.env("MOSAIC_TARGET");
  const code = here && given === undefined ? codeOf(configJson) : undefined;
  const collecting = given ?? (code === undefined ? undefined : collect(context, code));
  using link = await Link.open(context, connectionFlags(flags), {
    retryMs: follow ? FOLLOW_RETRY_MS : 0,
  });
  await before?.(link);
  const { TrainerService } = await import("../../../gen/gymgui/trainer_pb.ts");
  let submitted: SubmitRunResponse;
  try {
    submitted = await link.unary(TrainerService.method.submitRun, {
      runId: copy?.runId ?? String(flags["runId"] ?? ""),
      configJson,
    });
  } catch (error) {
    // Without an answer the run may have been taken.
    if (error instanceof MosaicError && !isTransient(error)) copy?.remove();
    throw await withViolations(error, configJson, context);
  }
  const { runId, digest } = submitted;
  const json = flags["output"] !== "table";
  context.out.write(json ? `${JSON.stringify({ run_id: runId, digest })}\n` : `${runId}\n`);
  const found = await collecting;
  if (found !== undefined) await sendCode(context, link, runId, found);
  if (!follow) return 0;
  return await interruptible(
    context,
    `run ${runId} continues; "mosaic events ${runId} -f" follows it again, "mosaic cancel ${runId}" ends it`,
    (signal) => followRun(link, context, runId, signal, json),
  );
}

/**
 * Copies the files of the repository in which the config's run works.
 * @throws MosaicError `failed_precondition` if the daemon is on another host, `invalid_argument`
 * for a config that names no working directory
 */
export async function snapshot(
  context: Context,
  configJson: string,
  flags: Record<string, unknown>,
) {
  if (flags["target"] !== undefined || context.env("MOSAIC_TARGET")) {
    throw new MosaicError(
      "failed_precondition",
      "--snapshot copies files of this host, and the daemon is on another",
      {
        hint: "Leave --target and MOSAIC_TARGET out.",
      },
    );
  }
  if (flags["runId"] !== undefined) {
    throw new MosaicError("invalid_argument", "--snapshot goes without --run-id");
  }
  const { configObject, objectIn } = await import("../../../runs/moved_config.ts");
  const cwd = objectIn(objectIn(configObject(configJson), "metadata"), "worker").get("cwd");
  if (typeof cwd !== "string" || !cwd.startsWith("/")) {
    throw new MosaicError("invalid_argument", "--snapshot: the config has no metadata.worker.cwd", {
      hint:
        "Its files are copied from there: give the absolute path of a directory of the repository.",
    });
  }
  using link = await Link.open(context, connectionFlags(flags));
  const { takeSnapshot } = await import("../../code/snapshot.ts");
  return await takeSnapshot(context, link, configJson);
}

/**
 * The daemon reports all violations of a config on one line; prints them one per line, as `--check`
 * does. Other errors (and violations that only the daemon's version finds) are returned unchanged.
 */
async function withViolations(
  error: unknown,
  configJson: string,
  context: Context,
): Promise<unknown> {
  if (!(error instanceof MosaicError) || error.code !== "invalid_argument") return error;
  // Load the schema only when it is needed.
  const { violationsOf } = await import("../../../config/config.ts");
  const violations = violationsOf(configJson);
  if (violations.length < 2) return error;
  for (const { path, message } of violations) {
    context.err.write(`${escapeControl(path)} ${escapeControl(message)}\n`);
  }
  return new MosaicError("invalid_argument", `the config has ${violations.length} violations`, {
    cause: error,
  });
}

/**
 * A config, from a file or from standard input.
 * @throws MosaicError `not_found`; `invalid_argument` or `permission_denied` for a path that cannot
 * be read
 */
export async function readConfigText(file: string, context: Context): Promise<string> {
  if (isStandardInput(file)) return await context.readInput();
  try {
    return await Deno.readTextFile(file);
  } catch (error) {
    const known = explainPath(error, file);
    if (known instanceof MosaicError) throw known;
    throw new MosaicError("invalid_argument", `${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Prints a config's digest, its canonical form, or its violations. @returns the exit code */
export async function check(
  file: string,
  flags: Record<string, unknown>,
  context: Context,
): Promise<number> {
  const text = await readConfigText(file, context);
  const { readConfig, violationsOf } = await import("../../../config/config.ts");
  const violations = violationsOf(text);
  const valid = violations.length === 0;
  const digest = valid ? readConfig(text).digest : null;
  if (flags["output"] === "json") {
    context.out.write(`${JSON.stringify({ valid, digest, violations }, null, 2)}\n`);
  } else if (!valid) {
    for (const { path, message } of violations) {
      context.err.write(`${escapeControl(`${path} ${message}`)}\n`);
    }
    context.err.write(
      `mosaic: ${file}: ${violations.length} violation${violations.length === 1 ? "" : "s"}\n`,
    );
  } else if (flags["canonical"] === true) {
    // No newline: the digest is the SHA-256 of exactly this text.
    context.out.write(readConfig(text).canonicalJson);
  } else {
    context.out.write(`valid, digest ${digest}\n`);
  }
  return valid ? EXIT.ok : EXIT.usage;
}
