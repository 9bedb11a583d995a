import assert from "node:assert/strict";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { signalGroup, signalProcess } from "../../src/os/processes/signals.ts";
import { until } from "../harness/wait.ts";
import { inScene, isAlive, numbers, printSteps } from "./scene.ts";

Deno.test("proxy killed in mid-run: the worker goes on, another proxy takes over, nothing is lost or repeated", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const first = scene.shell(`${printSteps(0, 700)}; while [ ! -e a ]; do sleep 0.05; done
      ${printSteps(700, 1400)}; while [ ! -e b ]; do sleep 0.05; done; ${
      printSteps(1400, 2000)
    }; exit 5`);
    await until(() => daemon.steps.length === 700, { what: "the first steps" });
    const leader = scene.leader()!;
    await first.kill();
    Deno.writeTextFileSync(`${scene.directory}/a`, "");
    await until(() => scene.journal().includes('"step_index":1399}'), {
      what: "the worker to go on",
    });
    assert(isAlive(leader));
    const second = scene.proxy([], { args: ["--attach"] });
    await until(() => daemon.steps.length === 1400, { what: "the second part" });
    assert.equal(Number(daemon.hellos.at(-1)!.workerPid), leader.pid);
    Deno.writeTextFileSync(`${scene.directory}/b`, "");
    assert.equal(await second.code(), 5);
    assert.deepEqual(daemon.steps.map((s) => s.step), numbers(0, 2000));
    assert.equal(daemon.exit?.code, 5);
  }));

Deno.test("proxy: a worker that ended without a proxy has its true exit reported", () =>
  inScene(async (scene) => {
    const first = scene.shell(
      `echo '{"type":"step"}'; while [ ! -e go ]; do sleep 0.05; done; ${
        printSteps(1, 50)
      }; exit 9`,
    );
    await until(() => scene.daemon.steps.length === 1, { what: "the first step" });
    await first.kill();
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    await until(() => scene.exitRecord(), { what: "the exit record" });
    assert.equal(await scene.proxy([], { args: ["--attach"] }).code(), 9);
    assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 50));
    assert.equal(scene.daemon.exit?.code, 9);
  }));

Deno.test("proxy: a worker that is gone without a record is lost, what it printed is delivered", () =>
  inScene(async (scene) => {
    const first = scene.shell(
      `${printSteps(0, 50)}; printf '{"type":"step","step_index":50}'; sleep 600`,
    );
    await until(() => scene.daemon.steps.length === 50, { what: "the steps" });
    await first.kill();
    signalGroup(scene.leader()!, "SIGKILL");
    await until(() => scene.group().length === 0, { what: "the group is gone" });
    assert.equal(await scene.proxy([], { args: ["--attach"] }).code(), 71);
    assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 51));
    assert.equal(scene.daemon.exit?.lost, true);
    assert.equal(scene.daemon.exit?.code, undefined);
    assert.equal(scene.exitRecord(), undefined);
  }));

Deno.test("proxy: started again for an attempt that has a worker, it takes that one over", () =>
  inScene(async (scene) => {
    const script =
      `echo '{"type":"step"}'; echo started >>starts; while [ ! -e go ]; do sleep 0.05; done`;
    const first = scene.shell(script);
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    await first.kill();
    const second = scene.shell(script);
    await until(() => scene.daemon.hellos.length === 2, { what: "the second hello" });
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await second.code(), 0);
    assert.equal(Deno.readTextFileSync(`${scene.directory}/starts`), "started\n");
  }));

Deno.test("proxy: a second one for the same attempt leaves at once with 3", () =>
  inScene(async (scene) => {
    const first = scene.shell("while [ ! -e go ]; do sleep 0.05; done");
    await until(() => scene.daemon.hellos.length === 1, { what: "the first has connected" });
    assert.equal(await scene.shell("exit 0").code(), 3);
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await first.code(), 0);
    assert.equal(scene.daemon.hellos.length, 1);
  }));

Deno.test("proxy: nothing to attach to is a lost worker", () =>
  inScene(async (scene) => {
    assert.equal(await scene.proxy([], { args: ["--attach"] }).code(), 71);
    assert.equal(scene.daemon.exit?.lost, true);
  }));

Deno.test("proxy: a stopped worker left behind by another proxy goes on", () =>
  inScene(async (scene) => {
    const first = scene.shell(`echo '{"type":"step"}'; while [ ! -e go ]; do sleep 0.05; done`);
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    await first.kill();
    signalGroup(scene.leader()!, "SIGSTOP");
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await scene.proxy([], { args: ["--attach"] }).code(), 0);
  }));

Deno.test("proxy: when only the wrapper is killed the worker runs to its end, which is then unknown", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(
      `echo '{"type":"step"}'; while [ ! -e go ]; do sleep 0.05; done; echo '{"type":"step"}'`,
    );
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    signalProcess(scene.leader()!, "SIGKILL");
    // One that ended within moments of its wrapper could not be told from a group that was killed
    // as one.
    await until(() => readTextIfThere(scene.files.proxyLog)?.includes("wrapper has ended"), {
      what: "the proxy to notice",
    });
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await proxy.code(), 71);
    assert.equal(scene.daemon.exit?.lost, true);
    assert.equal(scene.daemon.steps.length, 2);
  }));
