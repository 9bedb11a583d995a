/** Options that several verbs share, and the checks of their values. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { oneOf } from "./verb_parser.ts";
import { MosaicError } from "../../base/errors.ts";
import type { ConnectionFlags } from "../../wire/client/daemon_api.ts";
import { parseBytes, parseDuration } from "../../base/text/format.ts";

export const FORMATS = ["table", "wide", "json", "jsonl", "csv"] as const;
export type Format = typeof FORMATS[number];

export function connectionOptions(command: Command): Command {
  return command
    .option(
      "--target <address>",
      "daemon's address: HOST:PORT or unix:PATH (default: $MOSAIC_TARGET, else from the state directory)",
    )
    .option("--state-dir <dir>", "state directory of the daemon")
    .option("--host <name>", 'run this command on a host of "mosaic host list", by ssh');
}

export function connectionFlags(flags: Record<string, unknown>): ConnectionFlags {
  return {
    ...(typeof flags["target"] === "string" ? { target: flags["target"] } : {}),
    ...(typeof flags["stateDir"] === "string" ? { stateDir: flags["stateDir"] } : {}),
  };
}

/** On the verbs that submit a run. */
export function codeOption(): Option {
  return new Option(
    "--code <on|off>",
    "record commit, changes and packages of the run (default: on)",
  ).choices([
    "on",
    "off",
  ]);
}

export function outputOption(command: Command, formats: readonly (Format | "parquet")[]): Command {
  const option = oneOf(new Option("-o, --output <format>", "output format"), formats);
  return command.addOption(option.default(formats[0]));
}

export const RUN_ARGUMENT = "run id, unique prefix of an id, unique name, or @last";

/** An integer of at least `least`. */
export function wholeNumber(least = 0): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`It must be an integer, at least ${least}.`);
  };
}

export function decimal(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && Number.isFinite(value) && value >= least) return value;
    throw new InvalidArgumentError(`It must be a number, at least ${least}.`);
  };
}

/** Milliseconds. */
export function durationValue(text: string): number {
  const value = parseDuration(text);
  if (value !== undefined) return value;
  throw new InvalidArgumentError("It must be a duration such as 90s, 15m, 1h30m or 2d.");
}

/**
 * Milliseconds. A unit is required: a bare number is hardly meant as seconds here, and a deletion
 * cannot be undone.
 */
export function ageValue(text: string): number {
  if (/^[\d.]+$/.test(text)) {
    throw new InvalidArgumentError(`Give its unit: ${text}d for days, ${text}h for hours.`);
  }
  return durationValue(text);
}

export function bytesValue(text: string): number {
  const value = parseBytes(text);
  if (value !== undefined) return value;
  throw new InvalidArgumentError("It must be a size such as 500M or 2G.");
}

/** Collects the values of a repeatable option. */
export function repeated(text: string, before: string[] | false | undefined): string[] {
  return [...before || [], text];
}

export function commaSeparated(text: string): string[] {
  return text.split(",").map((t) => t.trim()).filter((t) => t !== "");
}

/** A moment: "2h" (ago) or RFC 3339. Unix milliseconds. */
export function momentValue(text: string, now: number): number {
  const before = parseDuration(text);
  if (before !== undefined) return now - before;
  const at = Date.parse(text);
  if (!Number.isNaN(at)) return at;
  throw new MosaicError("invalid_argument", `--since is "${text}"`, {
    hint: "Give a duration such as 2h, or a time such as 2025-11-22T14:00:00Z.",
  });
}
