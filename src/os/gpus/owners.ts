/** Whose a process is. */
import { runProgram } from "../processes/external_program.ts";

const SCRIPT =
  `for pid in "$@"; do printf '%s %s ' "$pid" "$(stat -c %U "/proc/$pid" 2>/dev/null)"; cat "/proc/$pid/comm" 2>/dev/null || echo; done`;
/** The users' directory may be on the network. */
const LIMIT_MS = 3000;

export interface Owner {
  user: string;
  /** The kernel's name of the program. */
  name: string;
}

/** Of those that are seen: not of processes of other containers. Empty if it takes too long. */
export async function ownersOf(pids: readonly number[]): Promise<Map<number, Owner>> {
  if (pids.length === 0) return new Map();
  try {
    const { stdout } = await runProgram([
      "/bin/sh",
      "-c",
      SCRIPT,
      "sh",
      ...pids.slice(0, 64).map(String),
    ], {
      env: {},
      limitMs: LIMIT_MS,
    });
    return new Map(
      stdout.split("\n").flatMap((line) => {
        const [, pid, user, name] = /^(\d+) (\S+) (.+)$/.exec(line) ?? [];
        return pid === undefined
          ? []
          : [[Number(pid), { user: user!, name: name!.slice(0, 40) }] as const];
      }),
    );
  } catch {
    // The text names the process without its user.
    return new Map();
  }
}
