/**
 * The original's ring of frames, filled by a run's proxy from render payloads, as its GUI reads it.
 */
import assert from "node:assert/strict";
import { infoIfThere } from "../../../src/os/files/files.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { SharedMemory } from "../../../src/frames/shared_memory.ts";
import { ringName, RingReader } from "../../../src/frames/fastlane.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { PlannedDaemon } from "../../harness/planned_daemon.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";

const isThere = (path: string) => infoIfThere(path)?.isFile === true;

/** SIGKILL for the perls that a process has started. */
async function killReaders(pid: number): Promise<void> {
  const { stdout } = await new Deno.Command("pgrep", { args: ["-P", String(pid), "perl"] })
    .output();
  const perls = new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "").map(
    Number,
  );
  assert.ok(perls.length > 0);
  for (const perl of perls) Deno.kill(perl, "SIGKILL");
  await until(() => perls.every((perl) => processRef(perl) === undefined), {
    what: "its perl to be gone",
  });
}

/** Prints what is in the file `next` of its directory whenever it changes, until there is `end`. */
const WORKER = `last=; while [ ! -e end ]; do
  now=$(cat next 2>/dev/null); [ "$now" = "$last" ] || { echo "$now"; last=$now; }
  sleep 0.02
done`;

Deno.test("permissions: a daemon and a proxy with planned ones read and write rings", async () => {
  await using planned = await PlannedDaemon.start();
  const { daemon } = planned;
  const line = '{"type":"step","render_payload":{"rgb":[[[1,2,3]]]}}';
  const script = `while :; do echo '${line}'; sleep 0.05; done`;
  const worker = { script: "/bin/sh", arguments: ["-c", script], use_grpc: false };
  const run = await submit(
    daemon,
    configOf({ command: ["sh"], metadata: { worker, ui: { fastlane_only: true } } }),
  );
  await until(() => isThere(`/dev/shm/${ringName(run)}`), { what: "the ring" });
  const { body } = await fetch(`http://${daemon.http}/api/frames/live?of=${run}`);
  let text = "";
  const decoder = new TextDecoder("latin1");
  for await (const part of body!) {
    text += decoder.decode(part);
    if (text.includes('"source":"ring"') && text.endsWith("\u0001\u0002\u0003")) break;
    // Steps are shown until the ring is found.
    assert(text.length < 1 << 20, text.slice(-1000));
  }
  await daemon.client.unary(Mosaic.method.cancelRun, { run });
  await untilState(daemon, run, "CANCELLED");
  const killed = {
    script: "/bin/sh",
    arguments: ["-c", "printf FLAN > /dev/shm/mosaic.fastlane.$RUN_ID-w1; kill -9 $$"],
  };
  const environment = { RAY_FASTLANE_ENABLED: "1" };
  const metadata = { worker: { ...killed, use_grpc: false } };
  const ray = await submit(daemon, configOf({ command: ["sh"], environment, metadata }));
  await untilState(daemon, ray, "FAULTED");
  assert.equal(isThere(`/dev/shm/${ringName(ray)}-w1`), false);
});

testWithDaemon("rings of frames", {}, [
  [
    "frames of render_payload are in the ring, also of another size; it goes with the run; a worker's own is left alone",
    async (daemon) => {
      const cwd = Deno.makeTempDirSync();
      const begin = (ui: unknown, environment: Record<string, string> = {}) => {
        const worker = { script: "/bin/sh", arguments: ["-c", WORKER], cwd, use_grpc: false };
        return submit(daemon, configOf({ command: ["sh"], environment, metadata: { worker, ui } }));
      };
      const print = (record: unknown) =>
        Deno.writeTextFileSync(`${cwd}/next`, JSON.stringify(record));
      const step = (step_index: number, rgb: unknown) =>
        print({
          type: "step",
          step_index,
          reward: 0.5,
          episode_reward: 2,
          render_payload: { rgb },
        });
      const path = (run: string) => `/dev/shm/${ringName(run)}`;
      try {
        const run = await begin({ fastlane_only: true });
        step(1, [[[1, 2, 3], [4, 5, 6]]]);
        await until(() => isThere(path(run)), { what: "the ring" });
        const shown = async (wanted: string) => {
          await until(async () => {
            using memory = new SharedMemory();
            const frame = await new RingReader({
              read: (...ranges) => memory.read(ringName(run), ...ranges),
            }).next();
            return frame &&
              `${frame.width}x${frame.height}: ${frame.pixels} ${frame.reward} ${frame.rollingReturn}` ===
                wanted;
          }, { what: wanted });
        };
        await shown("2x1: 1,2,3,4,5,6 0.5 2");
        assert.equal(Deno.statSync(path(run)).mode! & 0o777, 0o600);
        const bytes = Deno.readFileSync(path(run));
        const view = new DataView(bytes.buffer);
        assert.equal(new TextDecoder().decode(bytes.subarray(0, 4)), "FLAN");
        const words = Array.from({ length: 9 }, (_, i) => view.getUint32(4 + 4 * i, true));
        assert.deepEqual(words, [1, 0, 128, 22, 6, 2, 1, 3, 0xb793dab2]);
        assert.deepEqual([view.getBigUint64(40, true), view.getBigUint64(48, true), bytes.length], [
          1n,
          0n,
          80 + 128 * 22,
        ]);
        assert.deepEqual([
          view.getBigUint64(80, true),
          view.getUint32(88, true),
          view.getUint32(92, true),
        ], [4n, 6, 0]);
        // Who writes it is killed, with nobody to remove it.
        const before = Deno.statSync(path(run)).ino;
        await killReaders(Number((await getRun(daemon, run)).proxyPid));
        assert.equal(Deno.statSync(path(run)).ino, before);
        await until(() => {
          step(1, [[[1, 2, 3], [4, 5, Math.floor(Math.random() * 200)]]]);
          return isThere(path(run)) && Deno.statSync(path(run)).ino !== before;
        }, { what: "a ring of the next writer" });
        step(2, [[[7, 8, 9, 255]]]);
        await shown("1x1: 7,8,9,255 0.5 2");
        // How an episode ended is a frame, too.
        print({
          type: "episode",
          episode: 0,
          total_reward: 3,
          steps: 2,
          render_payload: { rgb: [[[9, 9, 9, 9]]] },
        });
        await shown("1x1: 9,9,9,9 0 3");

        // Nobody else's file is written or removed, and without the original's forms there is no
        // ring.
        const own = "01JZZZZZZZZZZZZZZZZZZZZZZZ";
        Deno.writeTextFileSync(path(own), "worker's own");
        const worker = {
          script: "/bin/sh",
          arguments: ["-c", WORKER],
          cwd,
          use_grpc: false,
          config: { run_id: own },
        };
        const ui = { fastlane_only: true };
        assert.equal(
          await submit(daemon, configOf({ command: ["sh"], metadata: { worker, ui } })),
          own,
        );
        const plain = await begin(undefined);
        const log = `${daemon.layout.runDir("custom_scripts", own)}/logs`;
        step(3, [[[1, 1, 1]]]);
        await until(
          () =>
            [...Deno.readDirSync(log)].some(({ name }) =>
              name.endsWith("proxy.log") &&
              Deno.readTextFileSync(`${log}/${name}`).includes("ring of its own")
            ),
          { what: "its proxy to leave it alone" },
        );
        Deno.writeTextFileSync(`${cwd}/end`, "");
        for (const one of [run, own, plain]) await untilState(daemon, one, "TERMINATED");
        await until(() => !isThere(path(run)), { what: "the ring to be removed" });
        assert.equal(isThere(path(plain)), false);
        assert.equal(Deno.readTextFileSync(path(own)), "worker's own");
        Deno.removeSync(path(own));
      } finally {
        Deno.removeSync(cwd, { recursive: true });
      }
    },
  ],

  ["a ring whose writer and proxy were killed goes with the run", async (daemon) => {
    const cwd = Deno.makeTempDirSync();
    const line = '{"type":"step","render_payload":{"rgb":[[[1,2,3]]]}}';
    const script = `echo '${line}'; while [ ! -e end ]; do sleep 0.05; done`;
    const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
    const run = await submit(
      daemon,
      configOf({ command: ["sh"], metadata: { worker, ui: { fastlane_only: true } } }),
    );
    const path = `/dev/shm/${ringName(run)}`;
    await until(() => isThere(path), { what: "the ring" });
    const proxy = Number((await getRun(daemon, run)).proxyPid);
    await killReaders(proxy);
    Deno.kill(proxy, "SIGKILL");
    assert.ok(isThere(path));
    Deno.writeTextFileSync(`${cwd}/end`, "");
    await untilState(daemon, run, "TERMINATED");
    await until(() => !isThere(path), { what: "the ring to be removed" });
    Deno.removeSync(cwd, { recursive: true });
  }],

  ["rings that a killed worker made itself go with its attempt, others stay", async (daemon) => {
    const made =
      "ring=/dev/shm/mosaic.fastlane.$RUN_ID; for f in $ring $ring-w1 $ring-w12x; do printf FLAN > $f; done";
    const worker = { script: "/bin/sh", arguments: ["-c", `${made}; kill -9 $$`], use_grpc: false };
    const begin = (environment: Record<string, string>) =>
      submit(daemon, configOf({ command: ["sh"], environment, metadata: { worker } }));
    const left = (run: string) =>
      ["", "-w1", "-w12x"].filter((part) => isThere(`/dev/shm/${ringName(run)}${part}`));
    const runs = [
      { run: await begin({ MOSAIC_FASTLANE_ENABLED: "1" }), stays: ["-w1", "-w12x"] },
      { run: await begin({ RAY_FASTLANE_ENABLED: "1" }), stays: ["-w12x"] },
      { run: await begin({}), stays: ["", "-w1", "-w12x"] },
    ];
    try {
      for (const { run, stays } of runs) {
        await untilState(daemon, run, "FAULTED");
        assert.deepEqual(left(run), stays);
      }
    } finally {
      for (const { run } of runs) {
        left(run).forEach((part) => Deno.removeSync(`/dev/shm/${ringName(run)}${part}`));
      }
    }
  }],
]);
