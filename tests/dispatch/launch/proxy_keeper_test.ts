import assert from "node:assert/strict";
import { ProxyKeeper } from "../../../src/dispatch/launch/local/proxy_keeper.ts";
import { RunFiles } from "../../../src/base/layout.ts";
import { isAlive, processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";

/**
 * A run's directory in which a worker was started, and a living process that stands for its proxy.
 */
async function withProxy(
  test: (files: RunFiles, child: Deno.ChildProcess) => Promise<void>,
): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-keeper-" });
  const files = new RunFiles(directory, "");
  Deno.mkdirSync(files.control);
  Deno.writeTextFileSync(files.workerFile(1), "{}");
  const child = new Deno.Command("sleep", {
    args: ["600"],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const process = processRef(child.pid)!;
  try {
    await test(files, child);
  } finally {
    signalProcess(process, "SIGKILL");
    await child.status;
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("proxy keeper: one that stays away is killed and replaced, and it counts as one until the new one connects", () =>
  withProxy(async (files, child) => {
    const process = processRef(child.pid)!;
    const keeper = new ProxyKeeper(files, 1, process, 0, 5000);
    assert.deepEqual(keeper.step(5000, true, true), { do: "wait" });
    assert.ok(isAlive(process));
    // Too many others are being replaced: it is left alone.
    keeper.step(5001, true, false);
    assert.ok(isAlive(process));
    keeper.step(5002, true, true);
    await child.status;
    assert.ok(keeper.replacing);
    assert.deepEqual(keeper.step(5003, true, false), { do: "attach" });
    keeper.attach(() => process, 5003);
    assert.ok(keeper.replacing);
    keeper.connected(process);
    assert.equal(keeper.replacing, false);
  }));

Deno.test("proxy keeper: one that keeps asking is left alone, though a full disk keeps it from being connected", () =>
  withProxy((files, child) => {
    const process = processRef(child.pid)!;
    const keeper = new ProxyKeeper(files, 1, process, 0, 5000);
    for (let now = 4000; now < 100_000; now += 4000) {
      keeper.seen(process, now);
      assert.deepEqual(keeper.step(now + 3999, true, true), { do: "wait" });
      assert.equal(keeper.replacing, false);
    }
    assert.ok(isAlive(process));
    return Promise.resolve();
  }));

Deno.test("proxy keeper: replacements that die wait longer each time, and are given up in the end", () =>
  withProxy(async (files, child) => {
    const gone = processRef(child.pid)!;
    signalProcess(gone, "SIGKILL");
    await child.status;
    const keeper = new ProxyKeeper(files, 1, gone, 0, 5000);
    const waits: number[] = [];
    let now = 0;
    for (;;) {
      const from = now;
      let step = keeper.step(now, true, true);
      while (step.do === "wait") step = keeper.step(now += 100, true, true);
      if (step.do === "give_up") break;
      assert.equal(step.do, "attach");
      waits.push(now - from);
      keeper.attach(() => gone, now);
    }
    assert.deepEqual(waits, [0, 500, 1000, 2000, 4000, 8000]);
  }));

Deno.test("proxy keeper: those that connect and die, or hang, before anything is stored count as failures", () =>
  withProxy(async (files, child) => {
    const gone = processRef(child.pid)!;
    signalProcess(gone, "SIGKILL");
    await child.status;
    const keeper = new ProxyKeeper(files, 1, gone, 0, 5000);
    let now = 0;
    /** Replacements until the keeper gives up, at most 20. */
    const replaced = (work: (now: number) => void) => {
      for (let n = 0; n < 20; n++) {
        let step = keeper.step(now, true, true);
        while (step.do === "wait") step = keeper.step(now += 100, true, true);
        if (step.do === "give_up") return n;
        keeper.attach(() => gone, now);
        keeper.seen(gone, now);
        keeper.connected(gone);
        work(now);
      }
      return 20;
    };
    // One that is connected for a minute works, and so does one of whose data something is stored.
    assert.equal(replaced(() => keeper.disconnected(now += 60_000)), 20);
    assert.equal(replaced(() => keeper.delivered()), 20);
    assert.equal(replaced(() => keeper.disconnected(now += 30_000)), 6);
  }));

Deno.test("proxy keeper: an attempt of which nothing was started begins anew", () =>
  withProxy((files) => {
    Deno.removeSync(files.workerFile(1));
    const keeper = new ProxyKeeper(files, 1, undefined, 0, 5000);
    assert.deepEqual(keeper.step(0, false, true), { do: "start_again" });
    return Promise.resolve();
  }));
