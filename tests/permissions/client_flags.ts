/**
 * The flags that the portable executable gives a client, by the very part of its stub that says
 * them.
 */
import { clientPermissions } from "../../scripts/compile/client_permissions.ts";

// As the stub is when it comes to this part.
const BEFORE = "newline='\n'\nIFS=$newline\nset -f\n";

export interface ClientFlags {
  code: number;
  flags: string[];
  err: string;
}

/** @param env all of the environment */
export function runClientFlags(
  words: readonly string[],
  env: Record<string, string>,
  cwd = "/",
): ClientFlags {
  const script =
    `${BEFORE}${clientPermissions()}\nflags=$(client_flags "$@") || exit\nprintf '%s\\n' "$flags"`;
  const { code, stdout, stderr } = new Deno.Command("/bin/sh", {
    args: ["-c", script, "stub", ...words],
    clearEnv: true,
    env,
    cwd,
  }).outputSync();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, flags: out!.split("\n").slice(0, -1), err: err! };
}

export function clientFlags(words: readonly string[], env: Record<string, string> = {}): string[] {
  const { code, flags, err } = runClientFlags(words, {
    PATH: "/usr/bin:/bin",
    HOME: "/nowhere",
    ...env,
  });
  if (code !== 0) throw new Error(`no flags of ${words.join(" ")}: ${err}`);
  return flags;
}
