/** The `--help` of every verb and of the verbs below it, without a terminal and without a host. */
import type { Command } from "commander";
import type { Context } from "../../../src/cli/link/context.ts";
import { newCommand } from "../../../src/cli/verb/verb_parser.ts";
import type { Verb } from "../../../src/cli/verb/verb.ts";
import { VERBS } from "../../../src/cli/verbs.ts";
import { daemonOptions } from "../../../src/daemon/start/options.ts";
import { type Help, parseHelp } from "./help_text.ts";
import { PROXY_USAGE } from "../../../src/proxy/start/arguments.ts";

export interface VerbHelp {
  verb: Verb;
  /** Such as `sweep show`. */
  name: string;
  help: Help;
}

export async function allHelps(): Promise<VerbHelp[]> {
  const helps: VerbHelp[] = [];
  for (const verb of VERBS) {
    const add = (name: string, text: string) => helps.push({ verb, name, help: parseHelp(text) });
    if (verb.name === "proxy") add(verb.name, PROXY_USAGE);
    else if (verb.load === undefined) {
      add(
        verb.name,
        printed((context) =>
          daemonOptions(["--help"], () => undefined, verb.name as "daemon" | "up", context)
        ),
      );
    } else {
      const module = await verb.load();
      const { context, text } = paper();
      const command = newCommand(verb, context);
      module.define(command, context, { code: 0 }, VERBS);
      for (const [name, one] of withBelow(command, verb.name)) {
        const before = text().length;
        one.outputHelp();
        add(name, text().slice(before));
      }
    }
  }
  return helps;
}

function* withBelow(command: Command, name: string): Generator<[string, Command]> {
  yield [name, command];
  for (const below of command.commands) yield* withBelow(below, `${name} ${below.name()}`);
}

/** Whatever else a verb asks of its context, it must not need for its help. */
function paper(): { context: Context; text: () => string } {
  let text = "";
  const out = { write: (more: string) => void (text += more) };
  const terminal = { isTty: false, width: 100, height: 50, color: false };
  return {
    context: { out, err: out, terminal, env: () => undefined } as unknown as Context,
    text: () => text,
  };
}

function printed(help: (context: Context) => unknown): string {
  const { context, text } = paper();
  help(context);
  return text();
}
