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

/** Standard output of a short shell script; undefined if it fails. `words` are `$0`, `$1` … */
export function askShell(script: string, ...words: string[]): string | undefined {
  const out = new Deno.Command("/bin/sh", {
    args: ["-c", script, ...words],
    stdin: "null",
    stderr: "null",
    env: {},
    clearEnv: true,
  }).outputSync();
  return out.success ? new TextDecoder().decode(out.stdout) : undefined;
}
