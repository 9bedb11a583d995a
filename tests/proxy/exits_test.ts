import assert from "node:assert/strict";
import { signalGroup, signalProcess } from "../../src/os/processes/signals.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { until } from "../harness/wait.ts";
import { inScene, isAlive, numbers, processRef } from "./scene.ts";

Deno.test("proxy: a signal of the worker's own is reported by name, the status is 128 + n", () =>
  inScene(async (scene) => {
    assert.equal(await scene.shell("kill -TERM $$; sleep 60").code(), 143);
    assert.equal(scene.daemon.exit?.signal, "SIGTERM");
    assert.equal(scene.daemon.exit?.code, undefined);
    assert.deepEqual([scene.exitRecord()!.code, scene.exitRecord()!.signal], [null, "SIGTERM"]);
  }));

Deno.test("proxy: an exit code above 128 is the program's own, and no signal", async () => {
  for (const code of [129, 130, 137, 143, 255, ...(LONG_TESTS ? [134, 139, 147, 160, 200] : [])]) {
    await inScene(async (scene) => {
      assert.equal(await scene.shell(`exit ${code}`).code(), code);
      assert.deepEqual([scene.daemon.exit?.code, scene.daemon.exit?.signal], [code, ""]);
      assert.equal(scene.daemon.exit?.byItself, true);
      const { code: written, signal } = scene.exitRecord()!;
      assert.deepEqual([written, signal], [code, ""]);
    });
  }
});

Deno.test("proxy: a signal that ends the worker is told from a code, or nothing is claimed", async () => {
  const told = ["HUP", "ABRT", "KILL", "SEGV", "ALRM", "TERM"].map((
    signal,
  ) => [signal, undefined, `SIG${signal}`]);
  for (const [signal, code, reported] of [...told, ["INT", 130, ""], ["PIPE", 141, ""]]) {
    await inScene(async (scene) => {
      await scene.shell(`ulimit -c 0; kill -${signal} $$; sleep 60`).code();
      assert.deepEqual([scene.daemon.exit?.code, scene.daemon.exit?.signal], [code, reported]);
      const left = [...Deno.readDirSync(scene.directory)].filter(({ name }) =>
        name.endsWith(".tmp")
      );
      assert.deepEqual(left, []);
    });
  }
});

Deno.test("proxy: SIGKILL to the whole group is recorded by the proxy", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(`echo '{"type":"step"}'; sleep 600`);
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    signalGroup(scene.leader()!, "SIGKILL");
    assert.equal(await proxy.code(), 137);
    assert.equal(scene.daemon.exit?.signal, "SIGKILL");
    assert.equal(scene.exitRecord()!.signal, "SIGKILL");
  }));

Deno.test("proxy: a program that does not exist is named", () =>
  inScene(async (scene) => {
    assert.equal(await scene.proxy(["no-such-program", "x"]).code(), 127);
    assert.match(
      scene.daemon.exit!.spawnError,
      /^no such program: no-such-program is not on the worker's PATH$/,
    );
    assert.match(Deno.readTextFileSync(scene.files.proxyLog), /path=\/usr\/bin:\/bin$/m);
    assert.equal(scene.daemon.exit?.code, 127);
    assert.match(String(scene.exitRecord()!.spawn_error), /no-such-program/);
    assert.equal(scene.leader(), undefined);
  }));

Deno.test("proxy: a file that is not executable is named", () =>
  inScene(async (scene) => {
    Deno.writeTextFileSync(`${scene.directory}/plain`, "text", { mode: 0o600 });
    assert.equal(await scene.proxy(["./plain"]).code(), 126);
    assert.match(scene.daemon.exit!.spawnError, /\/plain is not executable/);
  }));

Deno.test("proxy: a working directory that does not exist is named", () =>
  inScene(async (scene) => {
    assert.equal(await scene.proxy(["true"], { start: { cwd: "/no/such/place" } }).code(), 126);
    assert.match(scene.daemon.exit!.spawnError, /\/no\/such\/place is no directory/);
  }));

Deno.test("proxy: the worker has the given environment and nothing else, a group of its own, no open descriptors", () =>
  inScene(async (scene) => {
    const env = { PATH: "/usr/bin:/bin", GREETING: "a b'c\"d", code: "kept" };
    const proxy = scene.shell(
      `env | sort >env.txt; ls /proc/self/fd | grep -x '[0-9]' >fds.txt; pwd >pwd.txt; grep SigIgn /proc/self/status >signals.txt
       ps -o pgid= -p $$ >group.txt`,
      { start: { env } },
    );
    assert.equal(await proxy.code(), 0);
    const read = (name: string) => Deno.readTextFileSync(`${scene.directory}/${name}`).trim();
    const names = read("env.txt").split("\n").map((line) => line.split("=")[0]);
    assert.deepEqual(names.filter((n) => !["PWD", "OLDPWD", "SHLVL", "_"].includes(n!)), [
      "GREETING",
      "PATH",
      "code",
    ]);
    assert.match(read("env.txt"), /GREETING=a b'c"d/);
    assert.match(read("env.txt"), /code=kept/);
    // 0, 1, 2 and the one by which ls reads the directory. A shell can close the first ten.
    assert.equal(read("fds.txt").split("\n").length, 4);
    assert.equal(read("pwd.txt"), Deno.realPathSync(scene.directory));
    assert.equal(Number(read("group.txt")), scene.leader()!.pid);
    // The classic signals; others may be ignored by whoever runs the tests.
    assert.match(read("signals.txt"), /SigIgn:\s*[0-9a-f]*0000$/);
  }));

Deno.test("proxy: a grandchild that holds the output open is ended and does not delay the exit", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(`echo '{"type":"step"}'; sleep 600 & exit 4`);
    assert.equal(await proxy.code(), 4);
    assert.equal(scene.daemon.exit?.code, 4);
    assert.equal(scene.daemon.steps.length, 1);
    assert.deepEqual(scene.group(), []);
  }));

/** Prints until it is killed, also after its parent's end. */
const STUBBORN =
  `(trap '' TERM; i=0; while :; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i}"; i=$((i+1)); sleep 0.01; done) &`;

for (
  const [how, attached] of [["its own proxy", false], [
    "a proxy that attaches after the exit",
    true,
  ]] as const
) {
  Deno.test(`proxy: a child that outlives the worker is ended, and all that it has printed is stored before the exit: ${how}`, () =>
    inScene(async (scene) => {
      const start = { graceS: 0.3 };
      let proxy = scene.shell(
        `${STUBBORN} sleep 0.2; while [ ! -e go ]; do sleep 0.05; done; exit 4`,
        { start },
      );
      await until(() => scene.daemon.steps.length > 0, { what: "the child's first steps" });
      if (attached) await proxy.kill();
      Deno.writeTextFileSync(`${scene.directory}/go`, "");
      if (attached) {
        await until(() => scene.exitRecord(), { what: "the exit record" });
        proxy = scene.proxy([], { start, args: ["--attach"] });
      }
      assert.equal(await proxy.code(), 4);
      assert.deepEqual(scene.group(), []);
      // The last line may be torn by the kill.
      const whole = scene.journal().split("\n").slice(0, -1).length;
      const stored = scene.daemon.steps.map(({ step }) => step);
      assert.deepEqual(stored.slice(0, whole), numbers(0, whole));
      assert(stored.length - whole <= 1, `${stored.length} of ${whole}`);
    }));
}

Deno.test("proxy: a stop ends the whole group by SIGTERM", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(
      `sleep 600 & trap 'echo "{\\"type\\":\\"step\\"}"; exit 6' TERM; echo '{"type":"step"}'
      while :; do sleep 0.05; done`,
    );
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    scene.daemon.tell({ case: "stop", value: { graceSeconds: 60 } });
    assert.equal(await proxy.code(), 6);
    assert.deepEqual([scene.daemon.exit?.code, scene.daemon.exit?.byItself], [6, false]);
    assert.equal(scene.daemon.steps.length, 2);
    assert.deepEqual(scene.group(), []);
  }));

Deno.test("proxy: who ignores SIGTERM is killed after the grace period", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(
      `trap '' TERM; sleep 600 & echo '{"type":"step"}'; while :; do sleep 0.05; done`,
    );
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    scene.daemon.tell({ case: "stop", value: { graceSeconds: 0.2 } });
    assert.equal(await proxy.code(), 137);
    assert.equal(scene.daemon.exit?.signal, "SIGKILL");
    assert.deepEqual(scene.group(), []);
  }));

Deno.test("proxy: a helper that ignores SIGTERM in a session of the worker's own is killed after the grace period", () =>
  inScene(async (scene) => {
    const worker =
      `sh -c 'trap "" TERM; echo $$ >helper; echo "{\\"type\\":\\"step\\"}"; exec sleep 600' &
      trap 'exit 6' TERM; while :; do sleep 0.05; done`;
    const proxy = scene.proxy(["setsid", "sh", "-c", worker]);
    await until(() => scene.daemon.steps.length === 1, { what: "the helper" });
    const helper = processRef(Number(Deno.readTextFileSync(`${scene.directory}/helper`)))!;
    try {
      scene.daemon.tell({ case: "stop", value: { graceSeconds: 0.5 } });
      assert.equal(await proxy.code(), 6);
      assert(!isAlive(helper));
    } finally {
      signalProcess(helper, "SIGKILL");
    }
  }));

Deno.test("proxy: SIGTERM to the proxy stops the worker and delivers what it said", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(
      `trap 'echo "{\\"type\\":\\"step\\"}"; exit 0' TERM; echo '{"type":"step"}'
      while :; do sleep 0.05; done`,
    );
    await until(() => scene.daemon.steps.length === 1, { what: "the step" });
    await proxy.kill("SIGTERM");
    assert.equal(await proxy.code(), 0);
    assert.equal(scene.daemon.steps.length, 2);
    assert.equal(scene.daemon.exit?.code, 0);
  }));

Deno.test("proxy: a run that is over stops its worker and leaves with 70", () =>
  inScene(async (scene) => {
    scene.daemon.refusal = new MosaicError("failed_precondition", "attempt 1 of run R has ended");
    assert.equal(await scene.shell("sleep 600").code(), 70);
    assert.deepEqual(scene.group(), []);
    assert.match(Deno.readTextFileSync(scene.files.proxyLog), /attempt 1 of run R has ended/);
  }));

Deno.test("proxy: a daemon of another protocol, or not the run's own, does not harm the worker", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    daemon.refusal = new MosaicError(
      "failed_precondition",
      'the proxy speaks "mosaic-ingest/1.0" and the daemon "mosaic-ingest/2.0"',
    );
    const proxy = scene.shell(`while [ ! -e go ]; do sleep 0.05; done`);
    await until(() => daemon.hellos.length > 2, { what: "some tries" });
    Deno.removeSync(scene.daemonJson);
    daemon.refusal = new MosaicError("not_found", "there is no such run");
    const tries = daemon.hellos.length;
    await until(() => daemon.hellos.length > tries + 1, { what: "some more tries" });
    daemon.refusal = undefined;
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await proxy.code(), 0);
    assert.equal(daemon.exit?.code, 0);
  }));
