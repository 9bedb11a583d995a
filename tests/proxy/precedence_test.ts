import assert from "node:assert/strict";
import { until } from "../harness/wait.ts";
import { inScene, printSteps, type Proxy, RUN, type Scene } from "./scene.ts";

/** A session of its own, as a daemon gives its proxies. */
const under = ["setsid"];
const WORKER = `${printSteps(0, 5)}; while [ ! -e go ]; do sleep 0.05; done`;

/** Undefined where the process or thread has ended, such as a worker's `sleep`. */
function ifAlive<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const ended = error instanceof Deno.errors.NotFound || /\(os error 3\)/.test(String(error));
    if (ended) return undefined;
    throw error;
  }
}

function levelOf(stat: string): number {
  return Number(Deno.readTextFileSync(stat).split(") ")[1]!.split(" ")[16]);
}

/** The nice values of all threads of those processes that are alive, each once. */
function levels(...pids: number[]): number[] {
  const stats = pids.flatMap((pid) => {
    const directory = `/proc/${pid}/task`;
    return ifAlive(() =>
      [...Deno.readDirSync(directory)].map(({ name }) => `${directory}/${name}/stat`)
    ) ?? [];
  });
  return [...new Set(stats.flatMap((stat) => ifAlive(() => levelOf(stat)) ?? []))];
}

/** The nice value of a session; undefined where the kernel has none. */
function autogroup(pid: number): string | undefined {
  return ifAlive(() => Deno.readTextFileSync(`/proc/${pid}/autogroup`).trim().split(" ").at(-1));
}

/** Waits until the proxy has lowered itself, and the worker goes on as the test is. */
async function assertGivesWay(scene: Scene, proxy: Proxy): Promise<void> {
  const own = levelOf("/proc/self/stat");
  const lower = Math.min(19, own + 5);
  await until(() => levels(proxy.child.pid).join() === `${lower}`, {
    what: `all threads of the proxy at ${lower}`,
    state: () => levels(proxy.child.pid),
  });
  if (autogroup(proxy.child.pid) !== undefined) {
    await until(() => autogroup(proxy.child.pid) === "5", {
      what: "the proxy's session at 5",
      state: () => autogroup(proxy.child.pid),
    });
    assert.equal(autogroup(scene.leader()!.pid), "0");
  }
  const group = scene.group();
  assert.ok(group.length >= 2, `${group}`);
  assert.deepEqual(levels(...group), [own]);
}

Deno.test("a daemon's proxy gives way to it once the worker is started, which stays as it was; so does one that takes over", () =>
  inScene(async (scene) => {
    const first = scene.shell(WORKER, { under });
    await until(() => scene.daemon.steps.length === 5, { what: "the steps" });
    await assertGivesWay(scene, first);
    await first.kill();
    const second = scene.proxy([], { under, args: ["--attach"] });
    await assertGivesWay(scene, second);
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await second.code(), 0);
  }));

Deno.test("a proxy in somebody's session does not lower the session", () =>
  inScene(async (scene) => {
    const own = levelOf("/proc/self/stat");
    const session = autogroup(Deno.pid);
    const daemons = scene.shell(WORKER);
    await until(() => levels(daemons.child.pid).join() === `${Math.min(19, own + 5)}`, {
      what: "a lowered proxy",
    });
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await daemons.code(), 0);
    assert.equal(autogroup(Deno.pid), session);
  }));

Deno.test("a proxy that no daemon has started lowers nothing", () =>
  inScene(async (scene) => {
    const alone = scene.bare(
      ["--target", scene.daemon.target, "--run-id", RUN, "--", "sh", "-c", WORKER],
      { env: { MOSAIC_STATE_DIR: `${scene.directory}/alone` }, cwd: scene.directory },
    );
    await until(() => scene.daemon.steps.length === 5, { what: "its steps" });
    assert.deepEqual(levels(alone.child.pid), [levelOf("/proc/self/stat")]);
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await alone.code(), 0);
  }));
