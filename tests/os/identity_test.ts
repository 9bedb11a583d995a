/** Identities of processes where not all of /proc can be read. */
import assert from "node:assert/strict";

const SOURCE = new URL("../../src/os/processes/identity.ts", import.meta.url).href;

Deno.test("identity: without a readable boot id, a living process is not taken for dead", async () => {
  const empty = Deno.makeTempDirSync();
  const script = `${empty}.ts`;
  Deno.writeTextFileSync(
    script,
    `import { identityOf, isAlive } from "${SOURCE}";
    const identity = identityOf(Deno.pid);
    console.log(JSON.stringify([identity, isAlive({ pid: Deno.pid, identity })]));`,
  );
  const hidden = async (...command: string[]) => {
    const hide = 'mount --bind "$0" /proc/sys/kernel/random && exec "$@"';
    const args = ["--mount", "sh", "-c", hide, empty, ...command];
    const { success, stdout } = await new Deno.Command("unshare", { args, stderr: "null" })
      .output();
    return { success, text: new TextDecoder().decode(stdout) };
  };
  try {
    if (!(await hidden("true")).success) {
      return console.log("NOT ALLOWED HERE: the boot id cannot be hidden");
    }
    // With the permissions of a daemon: /proc is read by a shell.
    const options = ["--no-config", "--no-lock", "--no-prompt", "--allow-run", "--allow-read=/tmp"];
    const { text } = await hidden(Deno.execPath(), "run", ...options, script);
    const [identity, alive] = JSON.parse(text);
    assert.match(identity, /^boot\/\d+$/);
    assert.equal(alive, true);
  } finally {
    Deno.removeSync(empty);
    Deno.removeSync(script);
  }
});
