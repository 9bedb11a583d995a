/** `mosaic events` and `mosaic watch` */
import type { Command } from "commander";
import { Mosaic } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { eventLine } from "../events_text.ts";
import { EXIT } from "../exit.ts";
import { commaSeparated, connectionFlags, connectionOptions, outputOption, wholeNumber } from "../flags.ts";
import { interruptible } from "../interrupt.ts";
import { eventJson, timeMs } from "../json.ts";
import { Link } from "../link.ts";
import { printTelemetry } from "../telemetry_verb.ts";

const FOLLOW_PATIENCE_MS = 120_000;

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Prints what happened to a run, or to all runs: queued, states with their reasons, checkpoints, artifacts, failures " +
        "with what to do about them. An event's seq is ascending over all runs and never used twice.",
    )
    .argument("[run]", "only of this run")
    .option("-f, --follow", "go on as they happen (of one run: until it has ended)")
    .option("--since <seq>", "events after this seq", wholeNumber())
    .option("-k, --kind <kinds>", "only these kinds, comma-separated, such as failed,checkpoint_saved")
    .option("--worker", "what the worker itself reported of its life, unabridged");
  connectionOptions(outputOption(command, ["table", "jsonl", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic events -f", "everything that happens on this host"],
          ["mosaic events @last", "what happened to the newest run"],
          ['mosaic events -f -o jsonl | while read -r event; do notify "$event"; done', "drive something else"],
        ],
      }),
    )
    .action(async (run: string | undefined, flags: Record<string, unknown>) => {
      if (flags["worker"] === true) {
        if (run === undefined) return command.error("mosaic: --worker needs a run");
        result.code = await printTelemetry(context, { run, kind: "events" }, flags);
        return;
      }
      const kinds = typeof flags["kind"] === "string" ? commaSeparated(flags["kind"]) : undefined;
      result.code = await printEvents(context, { run: run ?? "", kinds, follow: flags["follow"] === true }, flags);
    });
}

export interface EventsQuery {
  /** "" is all runs. */
  run: string;
  kinds: string[] | undefined;
  follow: boolean;
  /** Only what happened since (Unix ms); 0: everything. */
  from?: number;
}

export async function printEvents(
  context: Context,
  { run, kinds, follow, from = 0 }: EventsQuery,
  flags: Record<string, unknown>,
): Promise<number> {
  return await interruptible(context, "", async (signal) => {
    using link = await Link.open(context, connectionFlags(flags), { patienceMs: follow ? FOLLOW_PATIENCE_MS : 0 });
    // By its id: a name or @last may mean another run when the stream is opened again.
    const runId = run === "" ? "" : (await link.unary(Mosaic.method.getRun, { run }, signal)).runId;
    const events = link.resumed(
      Mosaic.method.streamEvents,
      (sinceSeq) => ({ run: runId, sinceSeq, follow }),
      (event) => event.seq,
      BigInt(Number(flags["since"] ?? 0)),
      signal,
    );
    const all: unknown[] = [];
    for await (const event of events) {
      if (kinds !== undefined && !kinds.includes(event.kind)) continue;
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
