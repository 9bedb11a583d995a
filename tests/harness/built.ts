/** The built executable, for tests that run it. */
import assert from "node:assert/strict";

const ROOT = new URL("../..", import.meta.url).pathname;

/** Builds the portable form of the sources in `root` as `output`, with fast compression. */
export async function buildMosaic(output: string, root = ROOT): Promise<void> {
  const made = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "scripts/compile.ts",
      "--offline",
      "--compression",
      "1",
      "--output",
      output,
    ],
    cwd: root,
    stdin: "null",
  }).output();
  assert.ok(made.success, new TextDecoder().decode(made.stderr));
}

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program with exactly the given environment. */
export async function start(
  file: string,
  args: string[],
  env: Record<string, string>,
): Promise<Ended> {
  const out = await new Deno.Command(file, {
    args,
    env: { PATH: "/usr/bin:/bin", ...env },
    clearEnv: true,
    stdin: "null",
  }).output();
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code: out.code, stdout: decode(out.stdout), stderr: decode(out.stderr) };
}
