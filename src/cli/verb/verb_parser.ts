/**
 * Common setup of the verbs' argument parsers, and the sections that --help prints after the
 * options.
 */
import type { EventEmitter } from "node:events";
import {
  type Argument,
  Command,
  InvalidArgumentError,
  Option,
  type ParseOptionsResult,
} from "commander";
import { didYouMean } from "../../base/text/nearest.ts";
import type { Context } from "../link/context.ts";
import type { Verb } from "./verb.ts";

/**
 * A value that begins with "--" is taken only as `--option=--value`: otherwise the option's value
 * was forgotten.
 */
class VerbCommand extends Command {
  #args: readonly string[] = [];

  override parseOptions(args: string[]): ParseOptionsResult {
    this.#args = args;
    return super.parseOptions(args);
  }

  override addOption(option: Option): this {
    if (!option.required) return super.addOption(option);
    const { parseArg, long } = option;
    option.argParser((value: string, previous: unknown) => {
      if (value.startsWith("--") && !this.#args.includes(`${long}=${value}`)) {
        throw new InvalidArgumentError(
          `It begins with "--"; if it is the value, write ${long}=${value}.`,
        );
      }
      return parseArg === undefined ? value : parseArg(value, previous);
    });
    return super.addOption(option);
  }
}

export function newCommand(verb: Verb, context: Context): Command {
  const command = new VerbCommand(`mosaic ${verb.name}`);
  command
    .summary(verb.summary)
    .exitOverride()
    .helpOption("-h, --help", "show this help")
    .showHelpAfterError(`  See "mosaic ${verb.name} --help".`)
    .configureOutput({
      writeOut: (text) => context.out.write(text),
      writeErr: (text) => context.err.write(text),
      outputError: (text, write) => write(`mosaic: ${plainError(text)}`),
      getOutHelpWidth: () => Math.min(context.terminal.width, 120),
      getErrHelpWidth: () => Math.min(context.terminal.width, 120),
      getOutHasColors: () => context.terminal.color,
      getErrHasColors: () => false,
    });
  return command;
}

/** Commander's message on one line, in the form of mosaic's own messages. */
export function plainError(message: string): string {
  return message.replace(/^error: /, "").replace(
    /^command-argument value '(.*?)' is invalid for argument '(.*?)'\./,
    "'$1' is invalid for <$2>.",
  )
    .replace(/\n\(Did you mean (?:one of )?(.+)\?\)/, ". Did you mean $1?");
}

/**
 * An older short form of an option, whose letter means something else in other verbs: it works, and
 * says so.
 * @param flags such as "-n <n>" @param long such as "--limit"
 */
export function formerly(command: Command, context: Context, flags: string, long: string): Command {
  const old = new Option(flags).hideHelp();
  const today = command.options.find((option) => option.long === long)!;
  command.addOption(old);
  return command.on(`option:${old.name()}`, (value: unknown) => {
    context.err.write(
      `mosaic: ${old.short} is now ${[today.short, long].filter(Boolean).join(" or ")}\n`,
    );
    // Commander's own way to an option's value, with its checks; its types leave it out.
    (command as unknown as EventEmitter).emit(`option:${today.name()}`, value);
  });
}

/**
 * Restricts an option or argument to these values; the error for another value suggests the nearest
 * one.
 */
export function oneOf<T extends Option | Argument>(of: T, values: readonly string[]): T {
  of.choices([...values]).argParser((word: string) => {
    if (values.includes(word)) return word;
    throw new InvalidArgumentError(
      `It must be ${values.slice(0, -1).join(", ")} or ${values.at(-1)}.${
        didYouMean(word, values)
      }`,
    );
  });
  return of;
}

type Entries = readonly (readonly [term: string, meaning: string])[];

export interface Manual {
  /** Paragraphs separated by empty lines. */
  details?: string;
  examples: Entries;
  environment?: Entries;
  /** Exit codes that only this verb has, or whose meaning it refines. */
  exits?: Readonly<Record<number, string>>;
}

/** Details, examples, environment and exit codes, for `addHelpText("after", …)`. */
export function manual(sections: Manual): (help: { command: Command }) => string {
  return ({ command }) => {
    const width = command.configureOutput().getOutHelpWidth?.() ?? 80;
    const helper = command.createHelp();
    helper.prepareContext({ helpWidth: width });
    const list = (title: string, entries: Entries) => {
      const terms = Math.max(...entries.map(([term]) => term.length));
      return `${title}:\n${
        entries.map(([t, meaning]) => helper.formatItem(t, terms, meaning, helper)).join("\n")
      }`;
    };
    const callsDaemon = command.options.some((option) => option.long === "--target");
    const takesRuns = command.registeredArguments[0]?.name() === "run";
    const environment = [
      ...sections.environment ?? [],
      ...callsDaemon ? CONNECTION_ENVIRONMENT : [],
    ];
    const exits: Record<number, string> = { 0: "done", 2: "wrong arguments" };
    if (callsDaemon) {
      Object.assign(exits, { 3: "daemon unreachable", 8: "not authenticated, or not allowed" });
    }
    if (takesRuns) Object.assign(exits, { 4: "no such run" });
    Object.assign(exits, sections.exits);
    return [
      "",
      ...(sections.details === undefined
        ? []
        : [`${helper.boxWrap(sections.details.trim(), width)}\n`]),
      `Examples:\n${
        sections.examples.map(([line, what]) => `  $ ${line}\n      ${what}`).join("\n")
      }\n`,
      ...(environment.length === 0 ? [] : [`${list("Environment", environment)}\n`]),
      list("Exit codes", Object.entries(exits)),
    ].join("\n");
  };
}

const CONNECTION_ENVIRONMENT: Entries = [
  ["MOSAIC_TARGET", "the daemon's address, unless --target is given"],
  ["MOSAIC_STATE_DIR", "the state directory, unless --state-dir is given"],
  ["MOSAIC_TOKEN", "token, if the daemon requires one: with --auth token, and for other users"],
  [
    "MOSAIC_TLS_CA",
    "certificate authority of a daemon with TLS (docs/explanation/security.md lists the other TLS variables)",
  ],
];
