/** A daemon whose external programs hang: it starts, and it can be stopped. */
import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

/**
 * Ignores SIGTERM, and leaves a process that holds its output; written to `started` when it runs.
 */
const STUCK = `#!/bin/sh
trap '' TERM
setsid sleep 900 &
echo $! >>"$(dirname "$0")/left"
echo >"$(dirname "$0")/started"
while :; do sleep 1; done
`;

interface Scene {
  directory: string;
  env: Record<string, string>;
  started: () => boolean;
}

async function withStuck(program: string, test: (scene: Scene) => Promise<void>): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-stuck-" });
  Deno.writeTextFileSync(`${directory}/${program}`, STUCK, { mode: 0o755 });
  try {
    const exists = () => [...Deno.readDirSync(directory)].some(({ name }) => name === "started");
    await test({
      directory,
      env: { PATH: `${directory}:${Deno.env.get("PATH")}` },
      started: exists,
    });
  } finally {
    for (const pid of Deno.readTextFileSync(`${directory}/left`).trim().split("\n")) {
      try {
        Deno.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended.
      }
    }
    Deno.removeSync(directory, { recursive: true });
  }
}

async function secondsToStop(daemon: TestDaemon): Promise<number> {
  const began = performance.now();
  assert.equal(await daemon.stop(), 0);
  return (performance.now() - began) / 1000;
}

for (const gpus of ["2", "auto"]) {
  Deno.test(`a stuck nvidia-smi: a daemon with --gpus ${gpus} starts, says so, and stops`, () =>
    withStuck("nvidia-smi", async ({ env, started }) => {
      await using daemon = await TestDaemon.start({ gpus, env });
      assert.ok(started());
      assert.match(daemon.output(), /the GPU driver's tool has not answered yet/);
      const { gpus: slots } = await daemon.client.unary(Mosaic.method.getHost, {});
      assert.equal(slots.length, gpus === "2" ? 2 : 0);
      assert.ok(await secondsToStop(daemon) < 20);
    }));
}

Deno.test("SIGTERM ends a daemon in ten seconds, whatever a part of it waits for", () =>
  withStuck("python-of-the-run", async ({ directory, env, started }) => {
    await using daemon = await TestDaemon.start({ env });
    const config = configOf({
      command: ["true"],
      metadata: {
        worker: {
          script: `${directory}/no.py`,
          python: `${directory}/python-of-the-run`,
          use_grpc: false,
        },
        preflight: { modules: ["numpy"] },
      },
    });
    await submit(daemon, config);
    await until(started, { what: "the check to begin" });
    const seconds = await secondsToStop(daemon);
    assert.ok(seconds < 25, `${seconds}`);
    assert.match(daemon.output(), /the stop takes too long; this daemon ends now/);
  }));
