/**
 * The crossing from this process's rights to a run's. What a config says (environment, working
 * directory) has no effect on any program before it: those that change the user, create the sandbox
 * or wait for the worker have a fixed environment and working directory. The last program before
 * the run's, which has the run's rights, applies the config.
 */
import { carry } from "../processes/shell.ts";
import { userCommand, type WorkerUser } from "./worker_user.ts";

export interface Confinement {
  /** The run's user; undefined: this process's. */
  user?: WorkerUser | undefined;
  /** Words before a command that run it in the run's sandbox; empty: none. */
  sandbox: readonly string[];
}

export interface Crossing {
  /** Begins with a program of the host. */
  argv: string[];
  /** For every program up to the last. */
  env: Record<string, string>;
  cwd: "/";
}

/** A directory that the worker's user cannot enter; as for a program that cannot be executed. */
const ENTER =
  `cd -P -- "$1" || { echo "mosaic: the working directory $1 cannot be entered" >&2; exit 126; }
shift
unset OLDPWD
`;

/**
 * A shell's beginning that closes inherited descriptors except the standard ones, and keeps its
 * arguments. dash takes only descriptors of one digit, so another program closes the rest. If none
 * is there, nothing is started.
 */
export const CLOSE_DESCRIPTORS = `
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
for _mosaic_fd in /proc/self/fd/??*; do
  [ -e "$_mosaic_fd" ] || continue
  if [ -x /bin/bash ]; then
    exec /bin/bash -p -c 'for fd in /proc/self/fd/??*; do eval "exec \${fd##*/}>&-"; done; unset SHLVL; exec "$@"' bash "$@"
  elif [ -x /usr/bin/perl ]; then
    exec /usr/bin/perl -MPOSIX=close -e 'close($_) for 3 .. 4096; exec { $ARGV[0] } @ARGV' -- "$@"
  fi
  (eval "exec \${_mosaic_fd##*/}>&-") 2>/dev/null || {
    echo "mosaic: descriptor \${_mosaic_fd##*/}, open since the daemon's start, cannot be closed: install bash or perl" >&2
    exit 126
  }
  eval "exec \${_mosaic_fd##*/}>&-"
done
`;

/**
 * The command that runs `argv` with the run's rights, and then with its environment and in its
 * working directory.
 */
export function crossing(
  argv: readonly string[],
  { user, sandbox, env, cwd }: Confinement & { env: Record<string, string>; cwd: string },
): Crossing {
  const { env: carried, apply } = carry(env);
  return {
    argv: [
      ...(user === undefined ? [] : userCommand(user)),
      ...sandbox,
      ...["/bin/sh", "-c", `${ENTER}${apply}exec "$@"`, "mosaic-worker", cwd, ...argv],
    ],
    env: carried,
    cwd: "/",
  };
}

/** The same as options for `Deno.Command("/bin/sh", …)`. */
export function crossingShell(...given: Parameters<typeof crossing>) {
  const { argv, env, cwd } = crossing(...given);
  return { args: ["-c", `${CLOSE_DESCRIPTORS}exec "$@"`, "sh", ...argv], env, cwd, clearEnv: true };
}
