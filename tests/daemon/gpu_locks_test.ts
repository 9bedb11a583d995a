/** Two daemons on one host, whose drivers list the same card. */
import assert from "node:assert/strict";
import { GpuLocks } from "../../src/os/gpus/gpu_locks.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { FakeGpuTools, recorded } from "../harness/fake_gpu_tools.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

/** The recorded card, free; its workers use none of its memory. */
const FREE = recorded("h200-busy", "cards")!.split("\n")[0]!.replace("130013, 100", "4, 0") + "\n";

async function withTwo(
  work: (one: TestDaemon, other: TestDaemon, directory: string) => Promise<void>,
): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-locks-" });
  try {
    using fake = new FakeGpuTools("h200-busy");
    fake.becomes("h200-busy", { cards: FREE, processes: "" });
    const options = {
      gpus: "auto",
      env: fake.env,
      args: ["--gpu-locks", `${directory}/locks`],
    };
    await using one = await TestDaemon.start(options);
    await using other = await TestDaemon.start(options);
    await work(one, other, directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const gpus = { requested: 1, mandatory: true };

Deno.test("two daemons give one card out in turn, although neither sees the other's workers use it", () =>
  withTwo(async (one, other, directory) => {
    // Of two runs that have the card at one time, one fails.
    const alone = `mkdir ${directory}/busy && sleep 0.2 && rmdir ${directory}/busy`;
    const config = configOf({ command: ["/bin/sh", "-c", alone], gpus });
    const runs = await Promise.all(
      [one, other, one, other].map(async (daemon) => ({
        daemon,
        run: await submit(daemon, config),
      })),
    );
    for (const { daemon, run } of runs) await untilState(daemon, run, "TERMINATED");
  }));

Deno.test("a run waits for the card that another daemon has given out, says which, and gets it when that daemon dies", () =>
  withTwo(async (one, other) => {
    const config = configOf({ command: ["/bin/sh", "-c", "exec sleep 300"], gpus });
    const holder = await submit(one, config);
    await until(async () => (await getRun(one, holder)).workerPid, { what: "the first worker" });
    // The next daemon of the same directory has the lock again.
    await one.restart();
    const { gpus: [slot] } = await one.client.unary(Mosaic.method.getHost, {});
    assert.equal(slot!.runId, holder);
    const waiting = await submit(other, config);
    const said = new RegExp(
      `^1 GPU \\(0 free; gpu 0: given out by another mosaic daemon, pid ${one.pid} of \\S+\\)$`,
    );
    await until(async () => said.test((await getRun(other, waiting)).waitingFor), {
      what: "the run to say who has the card",
      state: async () => (await getRun(other, waiting)).waitingFor,
    });
    await one.kill9();
    await until(async () => (await getRun(other, waiting)).workerPid, {
      what: "the second worker",
      state: async () => (await getRun(other, waiting)).waitingFor,
    });
  }));

Deno.test("a link in the place of the directory is not followed: no card is locked, and the reason is told", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-locks-" });
  try {
    Deno.mkdirSync(`${directory}/elsewhere`);
    Deno.symlinkSync(`${directory}/elsewhere`, `${directory}/locks`);
    using locks = new GpuLocks(`${directory}/locks`);
    await locks.look(["GPU-1"]);
    assert.match(locks.problem, /locks: it is not a directory/);
    assert.deepEqual([...Deno.readDirSync(`${directory}/elsewhere`)], []);
    assert.equal(locks.lock("GPU-1"), true, "the card is given out, as without locks");
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
