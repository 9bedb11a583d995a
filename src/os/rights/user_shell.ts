/**
 * Short scripts with the rights of a worker's user. A path that a config names is looked at and
 * read here: with the daemon's rights, whoever may submit a run could read what only the daemon
 * may. No script reads in the daemon's thread, and none may take for ever.
 */
import { MosaicError } from "../../base/errors.ts";
import { CLOSE_DESCRIPTORS } from "./crossing.ts";
import { shellOutput, SOON } from "../processes/shell.ts";
import { userCommand, type WorkerUser } from "./worker_user.ts";

function asUser(user: WorkerUser, script: string, words: readonly string[]): [string, ...string[]] {
  return [
    `cd /${CLOSE_DESCRIPTORS}exec "$@"`,
    "sh",
    ...userCommand(user),
    "/bin/sh",
    "-c",
    script,
    ...words,
  ];
}

/**
 * As `shellOutput`. Only for scripts that look at names: they must open nothing. A user may have
 * mounted a file system that never answers, so its script is killed after some seconds. @param user
 * undefined: this process's
 */
export function outputAs(
  user: WorkerUser | undefined,
  script: string,
  ...words: string[]
): string | undefined {
  if (user === undefined) {
    return shellOutput(`${SOON} "$0" "$@"`, "/bin/sh", "-c", script, ...words);
  }
  const [begin, ...command] = asUser(user, script, words);
  return shellOutput(begin.replace('exec "$@"', `${SOON} "$@"`), ...command);
}

/**
 * Standard output of `script`; undefined if it fails. `script` must `exec` what may take long.
 * @throws MosaicError `deadline_exceeded` if it takes longer than `timeoutMs`
 */
export async function outputOfUser(
  user: WorkerUser | undefined,
  timeoutMs: number,
  script: string,
  ...words: string[]
): Promise<string | undefined> {
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", ...user === undefined ? [script, ...words] : asUser(user, script, words)],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    env: {},
    clearEnv: true,
  }).spawn();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      // It may be stuck in a file system that does not answer, so nothing waits for its end.
      child.unref();
      try {
        child.kill("SIGKILL");
      } catch {
        // It has just ended.
      }
      reject(new MosaicError("deadline_exceeded", `this took longer than ${timeoutMs / 1000} s`));
    }, timeoutMs);
  });
  try {
    const { success, stdout } = await Promise.race([child.output(), late]);
    return success ? new TextDecoder().decode(stdout) : undefined;
  } finally {
    clearTimeout(timer);
  }
}
