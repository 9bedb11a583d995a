/** The options of `run` and `submit` that become `metadata.queue` (docs/how-to/queue.md). */
import { type Command, InvalidArgumentError, Option } from "commander";
import { AFTER_NEVER, MOMENT, momentAt } from "../../config/queue_fields.ts";
import { repeated } from "./flags.ts";
import { oneOf } from "./verb_parser.ts";

export function queueOptions(command: Command, now: () => Date = () => new Date()): Command {
  return command
    .option(
      "--after <run[:how]>",
      "start when this run, or sweep:NAME, has ended well (:ok), failed or was cancelled (:failed), or ended (:any) (repeatable; default: ok)",
      repeated,
    )
    .addOption(oneOf(
      new Option(
        "--after-never <what>",
        "when such a run has ended in another way: keep waiting, or cancel this run",
      ),
      AFTER_NEVER,
    ))
    .option(
      "--begin <when>",
      "do not start before this time: 18:00, +2h, or 2026-11-27T18:00:00Z",
      (text: string) => momentText(text, now()),
    )
    .option(
      "--deadline <when>",
      "fail the run if it has not started by then (deadline_passed)",
      (text: string) => momentText(text, now()),
    )
    .option(
      "--preemptible",
      "give way to runs of higher priority: stop, and continue later from the newest checkpoint (MOSAIC_RESUME_FROM)",
    )
    .option("--deadline-stops", "the deadline also stops a run that has started");
}

/**
 * A moment as a config has it: a clock time is the next one by the caller's clock and zone, because
 * the daemon may have another. A date without a time begins at midnight.
 */
export function momentText(text: string, now: Date): string {
  const clock = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/.exec(text);
  if (clock !== null) {
    const [, hours, minutes, seconds = "0"] = clock;
    const at = new Date(now);
    at.setHours(Number(hours), Number(minutes), Number(seconds), 0);
    if (at.getTime() <= now.getTime()) at.setDate(at.getDate() + 1);
    return at.toISOString();
  }
  if (MOMENT.test(text) && momentAt(text, 0) !== null) return text;
  if (/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?$/.test(text)) {
    const local = new Date(text.length === 10 ? `${text}T00:00` : text.replace(" ", "T"));
    if (!Number.isNaN(local.getTime())) return local.toISOString();
  }
  throw new InvalidArgumentError(
    "It must be a clock time such as 18:00, a duration from now such as +2h, or a time such as 2026-11-27T18:00.",
  );
}

/** The fields that the options give; undefined if they give none. */
export function queueFields(flags: Record<string, unknown>): Record<string, unknown> | undefined {
  const given = Object.entries({
    after: flags["after"],
    after_never: flags["afterNever"],
    begin: flags["begin"],
    deadline: flags["deadline"],
    deadline_stops: flags["deadlineStops"],
    preemptible: flags["preemptible"],
  }).filter(([, value]) => value !== undefined);
  return given.length === 0 ? undefined : Object.fromEntries(given);
}
