/**
 * Commands on other hosts, by the user's own ssh: its configuration, keys and agent. No port is
 * opened.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { ProgramOutput } from "../../os/processes/external_program.ts";
import { parentOf } from "../../os/files/files.ts";
import { escapeControl } from "../../base/text/terminal_text.ts";
import type { Context } from "../link/context.ts";
import { type Host, hostsFile } from "./host_list.ts";

/** ssh itself has failed: no connection, a wrong key, an unknown host. */
const SSH_FAILED = 255;
const SOON_MS = 60_000;

/**
 * One connection for all commands of five minutes, so that only the first is slow.
 * @param options further options of ssh, such as `-t`
 */
export function sshCommand(
  { env }: Pick<Context, "env">,
  options: readonly string[] = [],
): string[] {
  const directory = env("XDG_RUNTIME_DIR") || parentOf(hostsFile(env));
  const connection = [
    "ControlMaster=auto",
    "ControlPersist=300",
    `ControlPath=${directory}/mosaic-%C`,
  ];
  return ["ssh", ...connection.flatMap((option) => ["-o", option]), ...options];
}

/** A command line of words, for the shell on the other side. */
export function remoteLine(words: readonly string[]): string {
  return words.map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
  ).join(" ");
}

/** Runs words of mosaic there, on this terminal. @returns the exit code of mosaic there */
export async function mosaicThere(
  context: Context,
  { name, ssh, mosaic }: Host,
  words: readonly string[],
  directory?: string,
): Promise<number> {
  // A terminal there, so that tables fit, colours show, and Ctrl-C ends the command there.
  const tty = context.terminal.isTty && context.canAsk ? ["-t", "-q"] : [];
  const line = `${directory === undefined ? "" : `cd ${remoteLine([directory])} && `}exec ${
    remoteLine([mosaic, ...words])
  }`;
  const code = await context.runHere([...sshCommand(context, tty), "--", ssh, line]);
  if (code === SSH_FAILED) throw unreachable(name, ssh, "ssh has failed; its message is above");
  if (code !== 127) return code;
  throw new MosaicError("failed_precondition", `host ${name} has no ${mosaic}`, {
    hint: `Put it there again: mosaic host add ${name}`,
  });
}

/** The output of a script on a host. @throws MosaicError `unavailable` if ssh fails */
export async function scriptThere(
  context: Context,
  { name, ssh }: Pick<Host, "name" | "ssh">,
  script: string,
  limitMs = SOON_MS,
): Promise<ProgramOutput> {
  const words = [...sshCommand(context), "--", ssh, `exec sh -c ${remoteLine([script])}`];
  const output = await context.runScript('exec "$@"', ["sh", ...words], {
    env: { ...context.variables() },
    cwd: "/",
    limitMs,
  }).catch((error) => {
    throw unreachable(name, ssh, messageOf(error));
  });
  if (output.code !== SSH_FAILED) return output;
  throw unreachable(name, ssh, output.stderr.trim().split("\n").at(-1) ?? "");
}

function unreachable(name: string, ssh: string, why: string): MosaicError {
  return new MosaicError("unavailable", `host ${name} cannot be reached: ${escapeControl(why)}`, {
    hint: `Try "ssh ${ssh} true".`,
  });
}
