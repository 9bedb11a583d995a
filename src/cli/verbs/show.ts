/** `mosaic show` */
import type { Command } from "commander";
import { HIDDEN, presentConfig } from "../../config/secrets.ts";
import { manual } from "../command.ts";
import type { Context } from "../context.ts";
import { connectionFlags, connectionOptions, outputOption, RUN_ARGUMENT } from "../flags.ts";
import { artifactJson, runDetailJson } from "../message_json.ts";
import { Link } from "../daemon_link.ts";
import { showText } from "../show_text.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows all that is known of a run: state and why, its processes, telemetry counts, GPUs, states it went through, " +
        "artifacts, and the last lines of its error output.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option("--config", "print its config instead, as it was stored; on a terminal its secrets are hidden")
    .option("--reveal", "with --config: secrets too");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic show @last", "the newest run"],
          ["mosaic show 01K9ZQ -o json | jq .transitions", "the states it went through"],
          ["mosaic show @last --config | jq '.run_name = \"again\"' | mosaic submit -", "run it again"],
        ],
      }),
    )
    .action(async (ref: string, flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const run = await link.unary(link.methods.getRun, { run: ref });
      if (flags["config"] === true) {
        // Programs, and whoever submits it again, get it whole.
        const reveal = flags["reveal"] === true || !context.terminal.isTty;
        const { text, hidden } = presentConfig(run.configJson, reveal);
        context.out.write(`${text}\n`);
        if (hidden > 0) context.err.write(`mosaic: secrets are hidden (${hidden}); --reveal shows them\n`);
        // None was submitted with these dots in it: the daemon has put them there.
        else if (text.includes(HIDDEN)) {
          context.err.write(
            "mosaic: the daemon hides secrets from a read token; with the admin token they are shown\n",
          );
        }
        return;
      }
      const { artifacts } = await link.unary(link.methods.listArtifacts, { run: run.runId });
      const detail = { ...runDetailJson(run), artifacts: artifacts.map(artifactJson) };
      context.out.write(
        flags["output"] === "json"
          ? `${JSON.stringify(detail, null, 2)}\n`
          : showText(detail, { now: context.now(), color: context.terminal.color }),
      );
    });
}
