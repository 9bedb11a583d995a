/**
 * Operations that Deno refuses under a permission set, done through /bin/sh: starting any program
 * with any environment, reading any path. Needs only the permission to run /bin/sh.
 */

/**
 * Variables that make the loader run other code; Deno passes them to children only with permission
 * to run everything.
 */
export function withoutLoader(env: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(LD|DYLD)_/.test(name)));
}

/** A shell cannot export these: they are no names to it, or it gives them values of its own. */
const NOT_EXPORTED =
  /^(?![A-Za-z_]\w*$)|^(BASH\w*|E?UID|PPID|SHELLOPTS|OPTIND|GROUPS|FUNCNAME|DIRSTACK|S?RANDOM|SECONDS|LINENO|HISTCMD|EPOCH\w*|COMP_\w*)$/;

/**
 * Carries variables through programs that they must not affect, such as a loader of libraries or a
 * shell that imports functions: each is the value of a variable whose name means nothing. `apply`,
 * run by the last shell, gives them their names; then it must `exec "$@"`.
 */
export function carry(env: Record<string, string>): { env: Record<string, string>; apply: string } {
  let prefix = "_mosaic_";
  while (Object.keys(env).some((name) => name.startsWith(prefix))) prefix += "_";
  const names = Object.keys(env);
  const exported = names.filter((name) => !NOT_EXPORTED.test(name));
  // `ps` shows an argument of env until it has started the program; exported values are never
  // shown.
  const byEnv = names.filter((name) => NOT_EXPORTED.test(name));
  const carried: Record<string, string> = {};
  for (const [i, name] of [...exported, ...byEnv].entries()) {
    carried[`${prefix}${i}`] = `${name}=${env[name]}`;
  }
  const at = `${prefix}at`;
  const each = (end: number, take: (carrier: string) => string) =>
    `while [ "$${at}" -lt ${end} ]; do
  eval "${take(`${prefix}$${at}`)}; unset ${prefix}$${at}"
  ${at}=$(($${at} + 1))
done
`;
  let apply = `${at}=0\n` + each(exported.length, (carrier) => `export \\"\\$${carrier}\\"`);
  if (byEnv.length > 0) {
    apply +=
      'case $1 in *=*) echo "mosaic: no program with \\"=\\" in its path gets variables that only env can set: $1" >&2; exit 126 ;; esac\n';
    apply += each(names.length, (carrier) => `set -- \\"\\$${carrier}\\" \\"\\$@\\"`) +
      'set -- /usr/bin/env -- "$@"\n';
  }
  return { env: carried, apply: `${apply}unset ${at}\n` };
}

/**
 * Options for `Deno.Command("/bin/sh", …)` that run `argv` with exactly `environment`; a missing
 * program is exit 127.
 */
export function underShell(
  argv: readonly string[],
  environment: Record<string, string>,
): { args: string[]; env: Record<string, string>; clearEnv: true } {
  const { env, apply } = carry(environment);
  return { args: ["-c", `${apply}exec "$@"`, "sh", ...argv], env, clearEnv: true };
}

/** For a child that outlives this process and its terminal: it inherits nothing of either. */
export const DETACHED = {
  clearEnv: true,
  stdin: "null",
  stdout: "null",
  stderr: "null",
  detached: true,
} as const;

/**
 * The same, with output appended to the file `$0`. A negative nice value is not passed on:
 * otherwise a daemon with precedence would share it with all workers.
 */
const BECOME_INTO = 'level() { shift 18; if [ "$1" -lt 0 ]; then by=$((-$1)); fi; }; by=; ' +
  'read -r stat </proc/$$/stat; level $stat; set -- ${by:+nice -n $by} "$@"; ';

/**
 * Starts `argv` with exactly `environment` in a session of its own, so that it outlives this
 * process and its terminal. Its output goes to a file, because a pipe would break when this process
 * ends; the runtime cannot pass a file to a child.
 */
export function startDetached(
  argv: readonly string[],
  environment: Record<string, string>,
  output: string,
  cwd?: string,
): Deno.ChildProcess {
  const { env, apply } = carry(environment);
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", `${BECOME_INTO}${apply}exec "$@" >>"$0" 2>&1`, output, ...argv],
    ...(cwd === undefined ? {} : { cwd }),
    env,
    ...DETACHED,
  }).spawn();
  // The child must not keep this process alive.
  child.unref();
  return child;
}

/**
 * Standard output of a short script; undefined if it fails. `$0`, `$1` … are `words`. It blocks the
 * thread without a limit: only for what the kernel or a local file answers at once. Anything else:
 * external_program.ts, or `SOON` before it.
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

/**
 * Before a program that may ask a server of the network (a directory of users): it is killed after
 * ten seconds.
 */
export const SOON =
  'soon() { if command -v timeout >/dev/null; then timeout -s KILL 10 "$@"; else "$@"; fi; }; soon ';
