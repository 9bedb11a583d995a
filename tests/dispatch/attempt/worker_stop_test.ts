/** How a worker is stopped: by its proxy, or by the daemon itself. */
import assert from "node:assert/strict";
import {
  advance,
  beginStop,
  shorten,
  type WorkerStop,
} from "../../../src/dispatch/attempt/state/worker_stop.ts";
import type { WorkerGroup } from "../../../src/dispatch/attempt/state/host.ts";
import type { ProxyLink } from "../../../src/dispatch/attempt/state/connected_proxy.ts";
import { LocalAttempt } from "../../../src/dispatch/launch/local/local_attempt.ts";
import { RunFiles } from "../../../src/base/layout.ts";
import { isAlive, processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { newRun } from "../../registry/fixture.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { until } from "../../harness/wait.ts";

const link = (): ProxyLink => ({
  accompanied: () => {},
  control: () => {},
  saveCheckpoint: () => {},
  stop: () => {},
  close: () => {},
});

/** What is done at each point: "tell 5", "SIGTERM SIGCONT", "". */
function course(stop: WorkerStop, points: { now: number; group: WorkerGroup; link?: ProxyLink }[]) {
  const done = points.map(({ now, group, link }) => {
    const step = advance(stop, { now, group, link });
    stop = step.stop;
    return step.effects.map((e) =>
      e.do === "signal" ? e.signals.join(" ") : `tell ${e.graceSeconds}`
    ).join(", ");
  });
  return { done, stop };
}

Deno.test("worker stop: without a proxy the daemon sends SIGTERM once, and SIGKILL after the grace period until all are gone", () => {
  const { done, stop } = course(beginStop(1000, 0), [
    { now: 0, group: "alive" },
    { now: 500, group: "alive" },
    { now: 1001, group: "alive" },
    { now: 1100, group: "alive" },
    { now: 1200, group: "gone" },
    { now: 1300, group: "gone" },
  ]);
  assert.deepEqual(done, ["SIGTERM SIGCONT", "", "SIGKILL", "SIGKILL", "", ""]);
  assert.equal(stop.goneSince, 1200);
});

Deno.test("worker stop: each proxy that connects is told once, with what is left of the grace period; the daemon waits two seconds longer for it", () => {
  const [first, second] = [link(), link()];
  const { done } = course(beginStop(5000, 0), [
    { now: 0, group: "alive", link: first },
    { now: 100, group: "alive", link: first },
    { now: 2000, group: "alive", link: second },
    { now: 6999, group: "alive", link: second },
    { now: 7001, group: "alive", link: second },
  ]);
  assert.deepEqual(done, ["tell 5", "", "tell 3", "", "SIGKILL"]);
});

Deno.test("worker stop: a further request shortens the grace period and tells the proxy again; it never lengthens it", () => {
  const proxy = link();
  const { stop } = course(beginStop(5000, 0), [{ now: 0, group: "alive", link: proxy }]);
  assert.equal(shorten(stop, 6000), stop);
  assert.deepEqual(course(shorten(stop, 1000), [{ now: 500, group: "alive", link: proxy }]).done, [
    "tell 0.5",
  ]);
});

Deno.test("worker stop: of a worker on another host nothing is known: its proxy is told, and nobody is signalled", () => {
  const { done, stop } = course(beginStop(0, 0), [
    { now: 0, group: "unknown" },
    { now: 10_000, group: "unknown", link: link() },
    { now: 20_000, group: "unknown" },
  ]);
  assert.deepEqual(done, ["", "tell 0", ""]);
  assert.equal(stop.goneSince, undefined);
});

Deno.test("worker stop: a helper that ignores SIGTERM in a session of the worker's own is killed after the grace period", async () => {
  const file = Deno.makeTempFileSync();
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-stop-" });
  const child = new Deno.Command("sh", {
    args: [
      "-c",
      `setsid sh -c 'trap "" TERM; sleep 600 & echo $! >"$0"; trap - TERM; wait' "$0" & wait`,
      file,
    ],
    stdin: "null",
    detached: true,
  }).spawn();
  await until(() => Deno.readTextFileSync(file).endsWith("\n"), { what: "the helper" });
  const helper = processRef(Number(Deno.readTextFileSync(file)))!;
  using registry = closing(Registry.open(`${directory}/registry.db`));
  try {
    const worker = processRef(child.pid)!;
    const row = { ...registry.open.insert(newRun(1)), worker };
    const host = new LocalAttempt(row, {
      files: new RunFiles(directory, ""),
      now: 0,
      absenceMs: Infinity,
      attach: () => undefined,
    });
    let stop = beginStop(1000, 0);
    const advanceAt = (now: number) => {
      const step = advance(stop, { now, group: host.group(true), link: undefined });
      stop = step.stop;
      for (const effect of step.effects) {
        if (effect.do === "signal") effect.signals.forEach((s) => host.signal(s));
      }
    };
    advanceAt(0);
    await child.status;
    advanceAt(500);
    assert.equal(stop.goneSince, undefined, "the helper lives");
    assert.ok(host.group(true) === "alive" && isAlive(helper));
    advanceAt(1001);
    await until(() => host.group(true) === "gone", { what: "the helper to be gone" });
    advanceAt(1100);
    assert.equal(stop.goneSince, 1100);
    assert.ok(!isAlive(helper));
  } finally {
    signalProcess(helper, "SIGKILL");
    Deno.removeSync(file);
    Deno.removeSync(directory, { recursive: true });
  }
});

function closing(open: Registry): Disposable & { open: Registry } {
  return { open, [Symbol.dispose]: () => open.close() };
}
