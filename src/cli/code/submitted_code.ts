/**
 * What ran, as a client sees it at the submission: collected beside the submission, then sent to
 * the daemon.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { commandWords } from "../../runs/command_words.ts";
import type { Collected } from "../../provenance/collect.ts";
import { escapeControl } from "../text/text.ts";
import type { Context } from "../link/context.ts";
import type { Link } from "../link/daemon_link.ts";

/** A command must not wait longer for its repository. */
const LOOK_MS = 10_000;

/** Where a run's files are, and what it starts. */
export interface RunsCode {
  command: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
}

/**
 * The command and working directory in a config's text; undefined if it records no code, names no
 * directory, or is not valid (the daemon says why).
 */
export function codeOf(configJson: string): RunsCode | undefined {
  let config;
  try {
    config = JSON.parse(configJson);
  } catch {
    return undefined;
  }
  const { worker, code } = config?.metadata ?? {};
  const cwd = worker?.cwd;
  if (code === "off" || typeof cwd !== "string" || !cwd.startsWith("/")) return undefined;
  const env = typeof config.environment === "object" && config.environment !== null
    ? config.environment
    : {};
  return { command: commandWords(config), env, cwd };
}

/** Never rejects: undefined, and a message, if it cannot be found out. */
export async function collect(
  context: Context,
  { command, env, cwd }: RunsCode,
): Promise<Collected | undefined> {
  try {
    const { collectCode, tellsSomething } = await import("../../provenance/collect.ts");
    const seen = { HOME: context.env("HOME"), PATH: context.env("PATH"), ...env };
    const found = await collectCode(
      command,
      seen,
      (script, words, scriptEnv) =>
        context.runScript(script, words, { env: scriptEnv, cwd, limitMs: LOOK_MS }),
    );
    return tellsSomething(found) ? found : undefined;
  } catch (error) {
    context.err.write(
      `mosaic: the run's code is not recorded: ${escapeControl(messageOf(error))}\n`,
    );
    return undefined;
  }
}

export async function sendCode(
  context: Context,
  link: Link,
  runId: string,
  found: Collected,
): Promise<void> {
  const { code, environment, diff } = found;
  try {
    await link.unary(link.methods.recordCode, {
      ...{
        runId,
        attempt: 0,
        codeJson: JSON.stringify(code),
        environmentJson: JSON.stringify(environment),
        diff,
      },
    });
  } catch (error) {
    // The run is submitted: its record is an addition.
    if (!(error instanceof MosaicError)) throw error;
    context.err.write(
      `mosaic: the run's code is not recorded: ${escapeControl(messageOf(error))}\n`,
    );
  }
}
