/** `mosaic show` */
import type { Command } from "commander";
import { HIDDEN } from "../../../base/text/secrets.ts";
import { presentConfig } from "../../../config/present_config.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { artifactJsonOf, eventJsonOf } from "../../../runs/fields/host_json.ts";
import { runDetailJsonOf } from "../../../runs/fields/run_json.ts";
import { codeJson, fetchCode } from "../../code/fetch_code.ts";
import { Link } from "../../link/daemon_link.ts";
import { NOT_READ_KINDS, NotReadLines } from "../../../runs/fields/not_read_text.ts";
import type { Run } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import { shownWords } from "../../../runs/code_facts.ts";
import { codeText } from "../../text/code_text.ts";
import { showText } from "../../text/show_text.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows everything known about a run: state and reason, processes, telemetry counts, GPU slots, state changes, " +
        "artifacts, and the last lines of standard error.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option("--config", "print the stored config instead; secrets are hidden on a terminal")
    .option(
      "--code",
      "print what ran instead: commit, changed files, interpreter, packages (docs/how-to/reproduction.md)",
    )
    .option(
      "--diff",
      "print the run's changes to its commit instead, as a patch; secrets are masked",
    )
    .option("--reveal", "with --config: print secrets too");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic show @last", "the newest run"],
          ["mosaic show 01K9ZQ -o json | jq .transitions", "the run's state changes"],
          ["mosaic show @last --code", "commit, changed files, packages"],
          [
            "mosaic show @last --config | jq '.run_name = \"again\"' | mosaic submit -",
            "submit it again",
          ],
        ],
      }),
    )
    .action(async (ref: string, flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const run = await link.unary(link.methods.getRun, { run: ref });
      if (flags["config"] === true) {
        // A pipe gets the secrets, because the config may be submitted again.
        const reveal = flags["reveal"] === true || !context.terminal.isTty;
        const { text, hidden } = presentConfig(run.configJson, reveal);
        context.out.write(`${text}\n`);
        if (hidden > 0) {
          context.err.write(`mosaic: secrets are hidden (${hidden}); --reveal shows them\n`);
        } // The daemon replaced secrets with this text: no submitted config contains it.
        else if (text.includes(HIDDEN)) {
          context.err.write(
            "mosaic: the daemon hides secrets from a read token; use the admin token to see them\n",
          );
        }
        return;
      }
      if (flags["code"] === true || flags["diff"] === true) {
        return await showCode(context, link, run, flags);
      }
      const { artifacts } = await link.unary(link.methods.listArtifacts, { run: run.runId });
      const detail = { ...runDetailJsonOf(run), artifacts: artifacts.map(artifactJsonOf) };
      if (flags["output"] === "json") {
        context.out.write(`${JSON.stringify(detail, null, 2)}\n`);
        return;
      }
      const notRead = new NotReadLines();
      const { signal } = new AbortController();
      const request = (sinceSeq: bigint) => ({
        run: run.runId,
        kinds: [...NOT_READ_KINDS],
        sinceSeq,
      });
      for await (
        const event of link.resumed(
          link.methods.streamEvents,
          request,
          (event) => event.seq,
          0n,
          signal,
        )
      ) {
        notRead.add(event.kind, eventJsonOf(event).data as Parameters<NotReadLines["add"]>[1]);
      }
      context.out.write(
        showText(detail, {
          now: context.now(),
          color: context.terminal.color,
          leftOut: notRead.lines,
        }),
      );
    });
}

async function showCode(
  context: Context,
  link: Link,
  run: Run,
  flags: Record<string, unknown>,
): Promise<void> {
  const records = await fetchCode(link, run.runId, flags["diff"] === true);
  if (flags["diff"] === true) return context.out.writeBytes(records[0]?.diff ?? new Uint8Array());
  const detail = runDetailJsonOf(run);
  if (flags["output"] === "json") {
    const shown = {
      run_id: run.runId,
      command: shownWords(detail.config),
      records: records.map(codeJson),
    };
    return context.out.write(`${JSON.stringify(shown, null, 2)}\n`);
  }
  context.out.write(codeText(detail, records, context.terminal.color));
}
