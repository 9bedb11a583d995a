/** A suite that is interrupted: nothing that its tests have started lives on. */
import assert from "node:assert/strict";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { processesOf } from "./processes.ts";
import { until } from "./wait.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** A test that waits for ever, with a daemon, a proxy and a worker. */
const HANGING = `
import { TestDaemon } from "${ROOT}tests/harness/daemon.ts";
import { configOf } from "${ROOT}tests/harness/configs.ts";
import { submit, untilState } from "${ROOT}tests/harness/runs.ts";

Deno.test("hangs", async () => {
  const daemon = await TestDaemon.start();
  const run = await submit(daemon, configOf({ command: ["/bin/sleep", "3600"] }));
  await untilState(daemon, run, "READY");
  Deno.writeTextFileSync(Deno.env.get("TEST_READY_FILE"), Deno.env.get("TMPDIR"));
  await new Promise(() => setInterval(() => {}, 1000));
});
`;

for (
  const [what, signal, who] of [
    ["SIGINT", "SIGINT", "runner"],
    ["SIGHUP", "SIGHUP", "runner"],
    ["SIGKILL", "SIGKILL", "runner"],
    ["the SIGKILL of its parent", "SIGKILL", "parent"],
  ] as const
) {
  Deno.test(`interrupted suite: ${what} leaves no process and no file behind`, async () => {
    const directory = Deno.makeTempDirSync();
    const [file, ready] = [`${directory}/hanging_test.ts`, `${directory}/ready`];
    Deno.writeTextFileSync(file, HANGING);
    const suite = [
      Deno.execPath(),
      "run",
      "--lock=dev.lock",
      "-A",
      "--no-check",
      "scripts/test.ts",
      file,
    ];
    const parent = new Deno.Command("/bin/sh", {
      args: ["-c", '"$@" & echo $! >"$0"; wait', `${directory}/runner`, ...suite],
      cwd: ROOT,
      // Sockets of the daemon have short paths only.
      env: { TMPDIR: "/tmp", TEST_READY_FILE: ready },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    const own = await until(() => readTextIfThere(ready) || undefined, {
      what: "the test that hangs",
      timeoutMs: 60_000,
    });
    const suiteDirectory = own.replace(/-\d+$/, "");
    assert.match(suiteDirectory, /^\/tmp\/mosaic-test-\w+$/);
    const commands = processesOf(own).map(({ command }) => command);
    for (const one of [/ daemon /, / proxy /, /sleep 3600/]) {
      assert.ok(commands.some((c) => one.test(c)), `${one}`);
    }
    const runner = Number(Deno.readTextFileSync(`${directory}/runner`));
    Deno.kill(who === "runner" ? runner : parent.pid, signal);
    await parent.status;
    await until(() => processesOf(suiteDirectory).length === 0, {
      what: "the end of all",
      state: () => processesOf(suiteDirectory).map(({ command }) => command).join("\n"),
    });
    const left = () =>
      [...Deno.readDirSync("/tmp")].some(({ name }) => `/tmp/${name}`.startsWith(suiteDirectory));
    await until(() => !left(), { what: "the removal of the directories" });
    Deno.removeSync(directory, { recursive: true });
  });
}
