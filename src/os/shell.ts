/**
 * Operations that Deno refuses under a permission set, done through /bin/sh: starting any program with any environment,
 * reading any path. Needs only the permission to run /bin/sh.
 */

/** Exports the variables before `--`, then execs the command after it. */
const BECOME = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec "$@"';

/** Variables that make the loader run other code; Deno passes them to children only with permission to run everything. */
function isLoaderVariable(name: string): boolean {
  return name.startsWith("LD_") || name.startsWith("DYLD_");
}

/** Splits `env` into variables that Deno can pass and `NAME=value` words for the shell to export. */
export function splitEnvironment(env: Record<string, string>): { env: Record<string, string>; exports: string[] } {
  const plain: Record<string, string> = {};
  const exports: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    if (isLoaderVariable(name)) exports.push(`${name}=${value}`);
    else plain[name] = value;
  }
  return { env: plain, exports };
}

/** Options for `Deno.Command("/bin/sh", …)` that run `argv` with exactly `env`; a missing program is exit 127. */
export function underShell(
  argv: readonly string[],
  environment: Record<string, string>,
): { args: string[]; env: Record<string, string>; clearEnv: true } {
  const { env, exports } = splitEnvironment(environment);
  return { args: ["-c", BECOME, "sh", ...exports, "--", ...argv], env, clearEnv: true };
}

/** For a child that outlives this process and its terminal: it inherits nothing of either. */
export const DETACHED = { clearEnv: true, stdin: "null", stdout: "null", stderr: "null", detached: true } as const;

/**
 * The same, with output appended to the file `$0`. A negative nice value is not passed on: otherwise a daemon with
 * precedence would share it with all workers.
 */
const BECOME_INTO = 'level() { shift 18; if [ "$1" -lt 0 ]; then by=$((-$1)); fi; }; by=; ' +
  "read -r stat </proc/$$/stat; level $stat; " +
  'while [ "$1" != -- ]; do export "$1"; shift; done; shift; exec ${by:+nice -n $by} "$@" >>"$0" 2>&1';

/**
 * Starts `argv` with exactly `environment` in a session of its own, so that it outlives this process and its terminal. Its
 * output goes to a file, because a pipe would break when this process ends; the runtime cannot pass a file to a child.
 */
export function startDetached(
  argv: readonly string[],
  environment: Record<string, string>,
  output: string,
  cwd?: string,
): Deno.ChildProcess {
  const { env, exports } = splitEnvironment(environment);
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", BECOME_INTO, output, ...exports, "--", ...argv],
    ...(cwd === undefined ? {} : { cwd }),
    env,
    ...DETACHED,
  }).spawn();
  // The child must not keep this process alive.
  child.unref();
  return child;
}

/**
 * Standard output of a short script; undefined if it fails. `$0`, `$1` … are `words`. It blocks the thread without a limit:
 * only for what the kernel or a local file answers at once. Anything else: external_program.ts, or `SOON` before it.
 */
export function shellOutput(script: string, ...words: string[]): string | undefined {
  const out = new Deno.Command("/bin/sh", {
    args: ["-c", script, ...words],
    stdin: "null",
    stderr: "null",
    env: {},
    clearEnv: true,
  }).outputSync();
  return out.success ? new TextDecoder().decode(out.stdout) : undefined;
}

/** Before a program that may ask a server of the network (a directory of users): it is killed after ten seconds. */
export const SOON = 'soon() { if command -v timeout >/dev/null; then timeout -s KILL 10 "$@"; else "$@"; fi; }; soon ';
