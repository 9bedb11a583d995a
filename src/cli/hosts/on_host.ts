/**
 * `--host NAME` on any verb: the command runs on that host, against the daemon there. `run` and
 * `sweep` take the code along.
 */
import { MosaicError } from "../../base/errors.ts";
import { escapeControl } from "../../base/text/terminal_text.ts";
import type { Context } from "../link/context.ts";
import { CARRY } from "./carry_script.ts";
import { type Host, hostNamed } from "./host_list.ts";
import { mosaicThere, remoteLine, scriptThere, sshCommand } from "./ssh.ts";

/** Verbs whose programs start in the directory of their code, and what they get there besides. */
const TAKES_CODE: Readonly<Record<string, readonly string[]>> = { run: ["--snapshot"], sweep: [] };
/** Of changed and untracked files; the commits are git's. */
const MOST_CARRIED_BYTES = 100 << 20;
const CARRY_MS = 600_000;
/** Ports that are tried here for the page. */
const PORTS = 20;

/**
 * @param args of the verb, with `--host NAME`
 * @param begins the verb itself acts, not one of its own verbs (`sweep show`)
 * @returns the exit code
 * @throws MosaicError `not_found` (no such host), `unavailable` (ssh), `failed_precondition` (the
 * code cannot be carried)
 */
export async function onHost(
  context: Context,
  name: string,
  verb: string,
  args: readonly string[],
  begins: boolean,
): Promise<number> {
  const host = hostNamed(name, context.env);
  const words = withoutHost(args);
  if (verb === "open") return await openThere(context, host, words);
  const more = begins ? TAKES_CODE[verb] : undefined;
  if (
    more === undefined || words.includes("--cwd") || words.some((word) => word.startsWith("--cwd="))
  ) {
    return await mosaicThere(context, host, [verb, ...words]);
  }
  const directory = await carry(context, host);
  return await mosaicThere(context, host, [
    verb,
    ...more.filter((word) => !words.includes(word)),
    ...words,
  ], directory);
}

/** The first `--host` is the verb's own: a program's words come after the verb's options. */
function withoutHost(args: readonly string[]): string[] {
  const at = args.findIndex((word) => word === "--host" || word.startsWith("--host="));
  return args.toSpliced(at, args[at] === "--host" ? 2 : 1);
}

/** @returns the directory there that corresponds to the working directory here */
async function carry(context: Context, { name, ssh }: Host): Promise<string> {
  const words = sshCommand(context);
  const env = { ...context.variables(), GIT_SSH_COMMAND: remoteLine(words) };
  const options = { env, cwd: Deno.cwd(), limitMs: CARRY_MS };
  const { stdout, stderr } = await context.runScript(CARRY, [
    "sh",
    ssh,
    String(MOST_CARRIED_BYTES),
    ...words,
  ], options);
  const lines = stdout.split("\n").map((line) => line.split("\t"));
  const of = (key: string) => lines.filter(([its]) => its === key).map(([, value]) => value!);
  const [directory] = of("directory");
  if (directory === undefined) {
    const [problem = "the code could not be carried there"] = of("problem");
    const details = stderr.trim() === ""
      ? ""
      : ` (${stderr.trim().split("\n").slice(-3).join("; ")})`;
    throw new MosaicError("failed_precondition", `host ${name}: ${problem}${details}`, {
      hint: "--cwd DIR names a directory of the host instead, whose code is already there.",
    });
  }
  for (const note of of("note")) context.err.write(`mosaic: ${escapeControl(note)}\n`);
  return directory;
}

/** Until Ctrl-C, a port of this host is the page's there. */
async function openThere(context: Context, host: Host, words: readonly string[]): Promise<number> {
  const { code, stdout, stderr } = await scriptThere(
    context,
    host,
    remoteLine([host.mosaic, "open", ...words]),
  );
  const url = URL.parse(stdout.trim());
  if (code !== 0 || url === null) {
    context.err.write(stderr);
    return code || 1;
  }
  const port = Number(url.port);
  for (let at = port; at < port + PORTS; at++) {
    const here = Object.assign(new URL(url), { hostname: "127.0.0.1", port: String(at) }).href;
    // ssh gives "%" a meaning.
    const said = `echo ${remoteLine([here])}`.replaceAll("%", "%%");
    const forward = [
      "-N",
      "-o",
      "ExitOnForwardFailure=yes",
      "-L",
      `127.0.0.1:${at}:${url.hostname}:${port}`,
    ];
    // A connection of its own: the shared one would refuse the port without ending. The command
    // says the address when the port is open.
    const own = [
      "ssh",
      "-o",
      "ControlPath=none",
      "-o",
      "PermitLocalCommand=yes",
      "-o",
      `LocalCommand=${said}`,
    ];
    if (at === port) {
      context.err.write(
        "mosaic: while this runs, everybody who is logged in here can open the page; Ctrl-C ends it\n",
      );
    }
    const ended = await context.runHere([...own, "-q", ...forward, "--", host.ssh]);
    if (ended !== 255) return ended;
  }
  throw new MosaicError(
    "unavailable",
    `none of the ports ${port} to ${port + PORTS - 1} is free here`,
  );
}
