/** `mosaic events` and `mosaic watch` */
import type { Command } from "commander";
import { formerly, manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { eventLine } from "../../text/events_text.ts";
import { EXIT } from "../../link/exit.ts";
import {
  connectionFlags,
  connectionOptions,
  momentValue,
  outputOption,
  wholeNumber,
} from "../../verb/flags.ts";
import { interruptible } from "../../link/interrupt.ts";
import { eventJsonOf } from "../../../runs/fields/host_json.ts";
import { timeMs } from "../../../runs/fields/field_json.ts";
import { Link } from "../../link/daemon_link.ts";
import { parseEventKinds } from "../../../registry/event_kinds.ts";
import { printTelemetry } from "../../verb/telemetry_verb.ts";

const FOLLOW_RETRY_MS = 120_000;
/** With --follow and without a run: events printed before the new ones. */
export const RECENT = 10;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints the events of a run, or of all runs: queued, state changes with reasons, checkpoints, artifacts, failures " +
        "with hints. Event seqs ascend over all runs and are never reused.",
    )
    .argument("[run]", "only events of this run")
    .option("-f, --follow", "continue with new events (of one run: until it has ended)")
    .option(
      "--tail <n>",
      "start with the newest n events (default: all; with -f for all runs: 10)",
      wholeNumber(1),
    )
    .option("--since <when>", "start after this seq, this long ago (2h), or at this time")
    .option(
      "-k, --kind <kinds>",
      "only these kinds (comma-separated), such as failed,checkpoint_saved",
    )
    .option("--worker", "print the lifecycle events that the worker reported");
  formerly(command, context, "-t <n>", "--tail");
  connectionOptions(outputOption(command, ["table", "jsonl", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic events -f", "the newest ten events of this host, then new ones"],
          ["mosaic events -f -k state", "state changes alone"],
          [
            "mosaic events -k failed --since 1d",
            "failures of the last day, with reasons and hints",
          ],
          ["mosaic events @last", "events of the newest run"],
          [
            'mosaic events -f -o jsonl | while read -r event; do notify "$event"; done',
            "run a command for each event",
          ],
        ],
        exits: { 130: "interrupted by Ctrl-C; the run continues" },
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
      // Following all runs starts with a few events, not with the host's whole history.
      const recent = follow && run === undefined && flags["since"] === undefined ? RECENT : 0;
      const tail = Number(flags["tail"] ?? recent);
      result.code = await printEvents(
        context,
        { run: run ?? "", kinds, follow, ...start, tail },
        flags,
      );
    });
}

/** Parses --since: a seq (digits only), or a time (Unix ms). */
export function startOf(since: unknown, now: number): { sinceSeq: number; from: number } {
  if (since === undefined) return { sinceSeq: 0, from: 0 };
  const seq = /^\d+$/.test(String(since)) ? Number(since) : undefined;
  return seq === undefined
    ? { sinceSeq: 0, from: momentValue(String(since), now) }
    : { sinceSeq: seq, from: 0 };
}

export interface EventsQuery {
  /** "": all runs. */
  run: string;
  /** Empty: all kinds. */
  kinds: string[];
  follow: boolean;
  sinceSeq: number;
  /** Earliest time (Unix ms); 0: no limit. */
  from: number;
  /** Start with the newest n; 0: with the first. */
  tail: number;
}

export async function printEvents(
  context: Context,
  { run, kinds, follow, sinceSeq, from, tail }: EventsQuery,
  flags: Record<string, unknown>,
): Promise<number> {
  return await interruptible(context, "", async (signal) => {
    using link = await Link.open(context, connectionFlags(flags), {
      retryMs: follow ? FOLLOW_RETRY_MS : 0,
    });
    // Resolve to the id first: a name or @last may mean another run when the stream is reopened.
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
      const json = eventJsonOf(event);
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
