/** `mosaic completions` */
import { Argument, type Command } from "commander";
import { manual, newCommand, oneOf } from "../../verb/verb_parser.ts";
import {
  columnCandidates,
  type CompletedVerb,
  completionScript,
  runCandidates,
  type Shell,
  SHELLS,
} from "../../verb/completion_scripts.ts";
import type { Context } from "../../link/context.ts";
import { connectionFlags, connectionOptions } from "../../verb/flags.ts";
import { Link } from "../../link/daemon_link.ts";
import { listColumns } from "../../text/runs_table.ts";
import type { Verb } from "../../verb/verb.ts";

/** Runs offered as candidates: the newest of those that fit. */
const RUNS_OFFERED = 200;
/** Options whose values are columns of the table of runs. */
const OF_COLUMNS: Readonly<Record<string, "one" | "several">> = {
  "--columns": "several",
  "--sort": "one",
  "--where": "one",
};

export function define(
  command: Command,
  context: Context,
  _result: { code: number },
  verbs: readonly Verb[],
): void {
  command
    .description(
      "Prints a completion script for commands, options, option values, runs and columns. The script asks the daemon for the runs, and for " +
        "the names of parameters and metrics.",
    )
    .addArgument(
      oneOf(
        new Argument(
          "<shell>",
          "shell; runs, columns: print the candidates for these (used by the scripts)",
        ),
        [
          ...SHELLS,
          "runs",
          "columns",
        ],
      ),
    )
    .argument("[word]", "for runs: what is typed so far, of any of all runs");
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["source <(mosaic completions bash)", "in ~/.bashrc"],
          ['mosaic completions zsh > "${fpath[1]}/_mosaic"', "once, for zsh"],
          ["mosaic completions fish > ~/.config/fish/completions/mosaic.fish", "once, for fish"],
        ],
      }),
    )
    .action(
      async (
        shell: Shell | "runs" | "columns",
        word: string | undefined,
        flags: Record<string, unknown>,
      ) => {
        if (shell === "runs") {
          using link = await Link.open(context, connectionFlags(flags));
          context.out.write(
            runCandidates(await runsLike(link, word ?? "")).map((candidate) => `${candidate}\n`)
              .join(""),
          );
          return;
        }
        if (shell === "columns") {
          using link = await Link.open(context, connectionFlags(flags));
          const names = await link.unary(link.methods.listColumns, {});
          const columns = listColumns({
            now: 0,
            shortId: (id) => id,
          }).map(({ name }) => name);
          context.out.write(
            columnCandidates(columns, names).map((candidate) => `${candidate}\n`).join(""),
          );
          return;
        }
        context.out.write(completionScript(shell, await describeVerbs(context, verbs)));
      },
    );
}

/** The newest runs whose name or id may begin with the word, however old they are. */
async function runsLike(link: Link, word: string): Promise<{ runId: string; name: string }[]> {
  // A shell's quoting: it compares the candidates itself.
  if (!/^[\w.:/@-]+$/.test(word)) {
    return (await link.unary(link.methods.listRuns, { limit: RUNS_OFFERED })).runs;
  }
  const isId = /^[0-9A-Z]+$/i.test(word);
  const [named, byId] = await Promise.all([
    link.unary(link.methods.listRuns, { limit: RUNS_OFFERED, nameContains: word }),
    isId
      ? link.unary(link.methods.listRuns, {
        limit: RUNS_OFFERED,
        where: `run_id like "${word.toUpperCase()}%"`,
      })
      : undefined,
  ]);
  return [...named.runs, ...byId?.runs ?? []];
}

/** Names, summaries and options of all verbs. */
export async function describeVerbs(
  context: Context,
  verbs: readonly Verb[],
): Promise<CompletedVerb[]> {
  const described: CompletedVerb[] = [];
  // Older words work, and are not offered.
  for (const verb of verbs.filter(({ now }) => now === undefined)) {
    const command = newCommand(verb, context);
    (await verb.load?.())?.define(command, context, { code: 0 }, verbs);
    described.push({
      name: verb.name,
      summary: verb.summary,
      options: command.options.map((o) => ({
        long: o.long ?? undefined,
        short: o.short ?? undefined,
        description: o.description,
        choices: o.argChoices ?? [],
        columns: OF_COLUMNS[o.long ?? ""],
      })),
      takesRuns: command.registeredArguments[0]?.name() === "run",
    });
  }
  return described;
}
