import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };

const ROOT = new URL("../..", import.meta.url).pathname;

async function task(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", ...args],
    cwd: ROOT,
    stdin: "null",
  }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  // What the runtime says while it fetches packages of a fresh checkout is not the task's.
  return { code, out: out!, err: err!.replaceAll(/^(Download|Initialize) .*\n/gm, "") };
}

for (const name of Object.keys(config.tasks)) {
  Deno.test(`tasks: ${name} --help says what it does, and does nothing`, async () => {
    const { code, out, err } = await task(name, "--help");
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /--help|deno task \w+|Usage/);
  });
}

for (const [name, command] of Object.entries(config.tasks)) {
  if (!/ (scripts|bench)\//.test(command)) continue;
  Deno.test(`tasks: ${name} refuses an option that it does not have`, async () => {
    const { code, out, err } = await task(name, "--no-such-option");
    assert.deepEqual([code, out], [2, ""]);
    assert.match(err, /^Unknown option '--no-such-option'/);
  });
}
