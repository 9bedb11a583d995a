/**
 * A daemon and its proxies at work under exactly the permissions planned for them, and clients
 * under theirs.
 */
import assert from "node:assert/strict";
import { flagsOf } from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/part_plan.ts";
import { realWorld } from "../../src/permissions/world.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { MAIN, TestDaemon } from "../harness/daemon.ts";
import { processesOf } from "../harness/processes.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { clientFlags } from "./client_flags.ts";

const RUNTIME = [Deno.execPath(), "run", "--no-check", "--no-prompt"];

async function withDaemon(body: (daemon: TestDaemon) => Promise<void>): Promise<void> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  const args = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
  const flags = flagsOf(await planFor("daemon", ["--state-dir", stateDir, ...args], realWorld()));
  try {
    // Output of the harness goes into the state directory by the shell around it, not by the
    // daemon.
    await using daemon = await TestDaemon.start({
      stateDir,
      args,
      program: [...RUNTIME, ...flags, MAIN],
    });
    await body(daemon);
  } finally {
    await Deno.remove(stateDir, { recursive: true });
  }
}

async function mosaic(...words: string[]): Promise<{ code: number; out: string; err: string }> {
  const out = await new Deno.Command(Deno.execPath(), {
    args: [...RUNTIME.slice(1), ...clientFlags(words), MAIN, ...words],
    env: { BY_NAME: "nine" },
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code: out.code, out: text(out.stdout), err: text(out.stderr) };
}

Deno.test("under their plans: a run is submitted, carried out, looked at and read", async () => {
  await withDaemon(async (daemon) => {
    const config = `${daemon.stateDir}/a config.json`;
    // A variable of the loader's is what the runtime would refuse to hand on by itself.
    const environment = { LD_LIBRARY_PATH: "/opt/cuda lib", SEED: "7" };
    const script = 'echo "$LD_LIBRARY_PATH $SEED" >&2; exec "$0" "$@"';
    Deno.writeTextFileSync(
      config,
      configOf({
        command: ["/bin/sh", "-c", script, ...countingWorker({ steps: 20 })],
        environment,
      }),
    );
    const at = ["--state-dir", daemon.stateDir];
    const submitted = await mosaic("submit", config, "--follow", ...at);
    assert.equal(submitted.code, 0, submitted.out + submitted.err + daemon.output());
    const id = submitted.out.split("\n")[0]!;
    const shown = await mosaic("show", id, ...at, "-o", "json");
    assert.equal(JSON.parse(shown.out).state, "TERMINATED", shown.out + shown.err);
    const logs = await mosaic("logs", id, "--stderr", ...at);
    assert.equal(logs.out.trim(), "/opt/cuda lib 7");
    const steps = await mosaic("steps", id, ...at, "-o", "jsonl");
    assert.equal(steps.out.trim().split("\n").length, 20);
    const exported = await mosaic(
      "export",
      id,
      "--format",
      "csv",
      "--out",
      `${daemon.stateDir}/out`,
      ...at,
    );
    assert.equal(exported.code, 0, exported.err);
    const worker = `${daemon.stateDir}/worker.sh`;
    Deno.writeTextFileSync(worker, '#!/bin/sh\necho "$SEED $BY_NAME" >&2\n', { mode: 0o755 });
    const ran = await mosaic(
      "run",
      "-eSEED=8",
      "--env=BY_NAME",
      "-fn",
      "short options",
      ...at,
      worker,
    );
    assert.equal(ran.code, 0, ran.out + ran.err);
    const said = await mosaic("logs", "short options", "--stderr", ...at);
    assert.equal(said.out.trim(), "8 nine");
    const page = await fetch(`http://${daemon.http}/healthz`);
    assert.ok(page.status < 500, await page.text());
  });
});

Deno.test("under their plans: signals reach workers, a dead proxy is replaced, its flags are its own run's", async () => {
  await withDaemon(async (daemon) => {
    const id = await submit(
      daemon,
      configOf({ command: ["/bin/sh", "-c", "while :; do echo '{}'; sleep 0.2; done"] }),
    );
    await untilState(daemon, id, "READY", "EXECUTING");
    const proxy = () =>
      processesOf(daemon.stateDir).find(({ command }) => command.includes(" proxy --target"));
    const first = await until(proxy, { what: "the proxy" });
    const { directory } = await getRun(daemon, id);
    assert.ok(first.command.includes(`${directory} --allow-net`), first.command);
    assert.ok(!/ (-A|--allow-all|--allow-ffi)/.test(first.command), first.command);

    Deno.kill(first.pid, "SIGKILL");
    await until(() => proxy()?.pid !== first.pid && proxy(), { what: "another proxy" });
    const paused = await mosaic("pause", id, "--target", daemon.target);
    assert.equal(paused.code, 0, paused.err);
    await untilState(daemon, id, "PAUSED");
    assert.equal((await mosaic("resume", id, "--target", daemon.target)).code, 0);
    const canceled = await mosaic("cancel", id, "--wait", "--target", daemon.target);
    assert.equal(canceled.code, 0, canceled.err);
    await untilState(daemon, id, "CANCELLED");
    await until(() => !processesOf(directory).length, { what: "nothing of the run to live" });
  });
});

Deno.test("a permission that is missing is named in one line, with its flag", async () => {
  const cases: [flags: string[], words: string[], RegExp][] = [
    [
      [],
      ["submit", "/etc/hostname", "--target", "127.0.0.1:9"],
      /not permitted to read \/etc\/hostname; --allow-read=/,
    ],
    [
      [],
      ["list", "--target", "127.0.0.1:9"],
      /not permitted to connect to .*127.0.0.1:9; --allow-net=127.0.0.1:9/,
    ],
    [
      ["--allow-sys=hostname,uid"],
      ["daemon", "--state-dir", "/x"],
      /not permitted to write to \/x; --allow-write=\/x/,
    ],
  ];
  for (const [flags, words, expected] of cases) {
    const out = await new Deno.Command(Deno.execPath(), {
      args: [...RUNTIME.slice(1), "--allow-env", ...flags, MAIN, ...words],
      stdin: "null",
    }).output();
    const lines = new TextDecoder().decode(out.stderr).split("\n");
    assert.match(lines[0]!, expected);
    assert.notEqual(out.code, 0);
  }
});

Deno.test("without a plan: a part says which of its options is wrong, whatever it may do", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    const lines: [string, RegExp][] = [
      ["daemon --listen nowhere", /--listen "nowhere": must be HOST:PORT/],
      ["daemon --listen 127.0.0.1:65536", /--listen "127\.0\.0\.1:65536": must be/],
      ["daemon --http nowhere", /--http "nowhere": must be HOST:PORT/],
      ["daemon --http unix:/run/m.sock", /--http "unix:\/run\/m\.sock": must be HOST:PORT/],
      ["daemon --http localhost:65536", /--http "localhost:65536": must be/],
      ["daemon --advertise h:65536", /--advertise "h:65536"/],
      ["proxy --target h:65536 --run-id R --run-dir d -- true", /"h:65536"/],
    ];
    for (const [line, says] of lines) {
      const words = line.split(" ");
      const { code, err } = await mosaic(
        ...words,
        ...(words[0] === "daemon" ? ["--state-dir", directory] : []),
      );
      assert.deepEqual([code, says.test(err)], [2, true], `${line}: ${code} ${err}`);
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
