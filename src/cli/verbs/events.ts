/** `mosaic events` and `mosaic watch` */
import type { Command } from "commander";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { eventLine } from "../events_text.ts";
import { EXIT } from "../exit.ts";
import { connectionFlags, connectionOptions, momentValue, outputOption, wholeNumber } from "../flags.ts";
import { interruptible } from "../interrupt.ts";
import { eventJson, timeMs } from "../message_json.ts";
import { Link } from "../daemon_link.ts";
import { parseEventKinds } from "../../registry/event_kinds.ts";
import { printTelemetry } from "../telemetry_verb.ts";

const FOLLOW_PATIENCE_MS = 120_000;
/** Events of all runs that a follower begins with. */
export const RECENT = 10;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints what happened to a run, or to all runs: queued, states with their reasons, checkpoints, artifacts, failures " +
        "with what to do about them. An event's seq is ascending over all runs and never used twice.",
    )
    .argument("[run]", "only of this run")
    .option("-f, --follow", "go on as they happen (of one run: until it has ended)")
    .option(
      "-t, --tail <n>",
      "begin with the newest n (of all runs with -f the default is 10, else all)",
      wholeNumber(1),
    )
    .option("--since <when>", "begin after this seq, or so long ago (2h), or at a time")
    .option("-k, --kind <kinds>", "only these kinds, comma-separated, such as failed,checkpoint_saved")
    .option("--worker", "what the worker itself reported of its life, unabridged");
  connectionOptions(outputOption(command, ["table", "jsonl", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic events -f", "the last ten events of this host, and whatever happens from now on"],
          ["mosaic events -k failed --since 1d", "what failed since yesterday, why, and what to do about it"],
          ["mosaic events @last", "what happened to the newest run"],
          ['mosaic events -f -o jsonl | while read -r event; do notify "$event"; done', "drive something else"],
        ],
        exits: { 130: "ended by Ctrl-C; the run goes on" },
      }),
    )
    .action(async (run: string | undefined, flags: Record<string, unknown>) => {
      if (flags["worker"] === true) {
        if (run === undefined) return command.error("--worker needs a run");
        const { since } = flags;
        if (since !== undefined && !/^\d+$/.test(String(since))) {
          return command.error("--worker: --since takes a seq");
        }
        result.code = await printTelemetry(context, { run, kind: "events" }, flags);
        return;
      }
      const kinds = typeof flags["kind"] === "string" ? parseEventKinds(flags["kind"]) : [];
      const follow = flags["follow"] === true;
      const start = startOf(flags["since"], context.now());
      // The whole history of a host is no answer to "what happens".
      const recent = follow && run === undefined && flags["since"] === undefined ? RECENT : 0;
      const tail = Number(flags["tail"] ?? recent);
      result.code = await printEvents(context, { run: run ?? "", kinds, follow, ...start, tail }, flags);
    });
}

/** What --since says: a seq (a bare number), or a moment (Unix ms). */
export function startOf(since: unknown, now: number): { sinceSeq: number; from: number } {
  if (since === undefined) return { sinceSeq: 0, from: 0 };
  const seq = /^\d+$/.test(String(since)) ? Number(since) : undefined;
  return seq === undefined ? { sinceSeq: 0, from: momentValue(String(since), now) } : { sinceSeq: seq, from: 0 };
}

export interface EventsQuery {
  /** "" is all runs. */
  run: string;
  /** Empty is all. */
  kinds: string[];
  follow: boolean;
  sinceSeq: number;
  /** Only what happened since (Unix ms); 0: everything. */
  from: number;
  /** Begin with the newest so many; 0: with the first. */
  tail: number;
}

export async function printEvents(
  context: Context,
  { run, kinds, follow, sinceSeq, from, tail }: EventsQuery,
  flags: Record<string, unknown>,
): Promise<number> {
  return await interruptible(context, "", async (signal) => {
    using link = await Link.open(context, connectionFlags(flags), { patienceMs: follow ? FOLLOW_PATIENCE_MS : 0 });
    // By its id: a name or @last may mean another run when the stream is opened again.
    const runId = run === "" ? "" : (await link.unary(link.methods.getRun, { run }, signal)).runId;
    const events = link.resumed(
      link.methods.streamEvents,
      (sinceSeq) => ({ run: runId, sinceSeq, follow, kinds, tail }),
      (event) => event.seq,
      BigInt(sinceSeq),
      signal,
    );
    const all: unknown[] = [];
    for await (const event of events) {
      if ((timeMs(event.at) ?? from) < from) continue;
      const json = eventJson(event);
      if (flags["output"] === "json") all.push(json);
      else if (flags["output"] === "jsonl") context.out.write(`${JSON.stringify(json)}\n`);
      else {
        const { color, isTty } = context.terminal;
        context.out.write(eventLine(json, { color, withRun: runId === "", brief: isTty }));
      }
    }
    if (flags["output"] === "json") context.out.write(`${JSON.stringify(all, null, 2)}\n`);
    return EXIT.ok;
  });
}
