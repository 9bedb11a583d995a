import assert from "node:assert/strict";
import { inScene, numbers, printSteps } from "./scene.ts";
import { until } from "../harness/wait.ts";

/** By so much at most is the window passed while lines are shorter. */
const LEAST_CHUNK_BYTES = 64 << 10;

Deno.test("proxy: delivers every line, reports the exit and leaves with the worker's code", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(`${printSteps(0, 3000)}
      echo '{"event":"checkpoint_saved","payload":{"checkpoint_path":"c.pt"}}'
      echo '{"type":"episode","episode_index":1,"total_reward":2.5,"steps":3000}'
      echo 'plain text'; echo '{"type":"step","step_in'; echo trouble >&2; exit 7`);
    assert.equal(await proxy.code(), 7);
    const { daemon } = scene;
    assert.deepEqual(daemon.steps.map((s) => s.step), numbers(0, 3000));
    assert.equal(daemon.steps[0]!.agent, "agent_1");
    assert.deepEqual(daemon.events.map((e) => e.kind), ["checkpoint_saved"]);
    assert.equal(daemon.episodes[0]!.totalReward, 2.5);
    assert.equal(daemon.otherLines, 1);
    assert.equal(daemon.malformedLines, 1);
    assert.match(daemon.samples[0]!, /not valid JSON/);
    assert.equal(daemon.exit?.code, 7);
    assert.equal(daemon.exit?.lost, false);
    assert.deepEqual(daemon.exit?.stderrTail, ["trouble"]);
    assert.equal(scene.exitRecord()!.code, 7);
    assert.equal(daemon.position, scene.journal().length);
    const hello = daemon.hellos[0]!;
    assert.equal(hello.runId, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    assert.equal(Number(hello.workerPid), scene.leader()!.pid);
    assert.equal(hello.workerIdentity, scene.leader()!.identity);
  }));

Deno.test("proxy: huge lines, bytes that are no UTF-8 and a last line without newline arrive", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(`
      printf '{"type":"step","step_index":0,"action":"'; head -c 300000 /dev/zero | tr '\\0' x; echo '"}'
      printf '{"type":"step","step_index":1,"render_payload":{"rgb":['
      head -c 3000000 /dev/zero | sed 's/\\x00/1,/g'; echo '1]}}'
      printf '{"type":"step","step_index":2,"action":"\\377\\376"}\\r\\n\\n'
      printf '\\000\\001\\002\\377\\n'
      printf '{"type":"step","step_index":3}'`);
    assert.equal(await proxy.code(), 0);
    const { steps, otherLines, malformedLines } = scene.daemon;
    assert.deepEqual(steps.map((s) => s.step), [0, 1, 2, 3]);
    assert.equal(steps[0]!.action.length, 300_002);
    assert.equal(steps[1]!.render.length, '{"rgb":['.length + 6_000_000 + "1]}".length);
    assert.equal(steps[2]!.action, '"\ufffd\ufffd"');
    assert.equal(otherLines, 1);
    assert.equal(malformedLines, 0);
  }));

Deno.test("proxy: a torn line waits for its rest", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(`echo '{"type":"step","step_index":0}'
      printf '{"type":"step","st'; while [ ! -e go ]; do sleep 0.05; done; echo 'ep_index":1}'`);
    await until(() => scene.daemon.steps.length === 1, { what: "the first step" });
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await proxy.code(), 0);
    assert.deepEqual(scene.daemon.steps.map((s) => s.step), [0, 1]);
    assert.equal(scene.daemon.malformedLines, 0);
  }));

Deno.test("proxy: the daemon may be away, cut the stream and come back elsewhere", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const proxy = scene.shell(`${printSteps(0, 500)}; while [ ! -e a ]; do sleep 0.05; done
      ${printSteps(500, 1000)}; while [ ! -e b ]; do sleep 0.05; done; ${printSteps(1000, 1500)}`);
    await until(() => daemon.steps.length === 500, { what: "the first steps" });
    daemon.cut();
    Deno.writeTextFileSync(`${scene.directory}/a`, "");
    await until(() => daemon.steps.length === 1000, { what: "the next steps" });
    await daemon.stop();
    Deno.writeTextFileSync(`${scene.directory}/b`, "");
    await until(() => scene.exitRecord(), { what: "the worker's exit" });
    const before = daemon.target;
    daemon.start();
    assert.notEqual(daemon.target, before);
    scene.announce();
    assert.equal(await proxy.code(), 0);
    assert.deepEqual(daemon.steps.map((s) => s.step), numbers(0, 1500));
    assert.ok(daemon.hellos.length >= 3);
  }));

Deno.test("proxy: an exit that is not acknowledged is reported again", () =>
  inScene(async (scene) => {
    scene.daemon.forgetExits = 2;
    assert.equal(await scene.shell("exit 3").code(), 3);
    assert.equal(scene.daemon.exit?.code, 3);
    assert.equal(scene.daemon.hellos.length, 3);
  }));

Deno.test("proxy: what is unacknowledged stays within the window", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    daemon.windowBytes = 64 << 10;
    daemon.silent = true;
    const proxy = scene.shell(printSteps(0, 20_000));
    await until(() => scene.exitRecord(), { what: "the worker's exit" });
    await until(() => daemon.seen >= daemon.windowBytes, { what: "a full window" });
    assert.ok(
      daemon.seen < daemon.windowBytes + LEAST_CHUNK_BYTES,
      `${daemon.seen} bytes were under way`,
    );
    daemon.silent = false;
    daemon.cut();
    assert.equal(await proxy.code(), 0);
    assert.deepEqual(daemon.steps.map((s) => s.step), numbers(0, 20_000));
  }));

Deno.test("proxy: long lines stay within the window, too", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    daemon.windowBytes = 160 << 10;
    daemon.silent = true;
    // All is there before the first chunk is read, so that it could be a large one.
    await daemon.stop();
    const proxy = scene.shell(`pad=$(head -c 20000 /dev/zero | tr '\\0' x)
      ${printSteps(0, 100, ',\\"action\\":\\"$pad\\"')}`);
    await until(() => scene.exitRecord(), { what: "the worker's exit" });
    daemon.start();
    scene.announce();
    await until(() => daemon.seen >= daemon.windowBytes, { what: "a full window" });
    assert.ok(
      daemon.seen < daemon.windowBytes + LEAST_CHUNK_BYTES,
      `${daemon.seen} bytes were under way`,
    );
    daemon.silent = false;
    daemon.cut();
    assert.equal(await proxy.code(), 0);
    assert.deepEqual(daemon.steps.map((s) => s.step), numbers(0, 100));
    assert.equal(daemon.steps[99]!.action.length, 20_002);
  }));

Deno.test("proxy: the window is what the last acknowledgement says", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    daemon.windowBytes = 1;
    daemon.ackWindowBytes = 256 << 10;
    daemon.silentOnceHeard = true;
    const proxy = scene.shell(printSteps(0, 20_000));
    const underWay = () => daemon.seen - daemon.position;
    await until(() => underWay() >= daemon.ackWindowBytes, { what: "the wider window to be full" });
    assert.ok(
      underWay() < daemon.ackWindowBytes + LEAST_CHUNK_BYTES,
      `${underWay()} bytes were under way`,
    );
    daemon.silent = daemon.silentOnceHeard = false;
    daemon.cut();
    assert.equal(await proxy.code(), 0);
    assert.deepEqual(daemon.steps.map((s) => s.step), numbers(0, 20_000));
  }));

Deno.test("proxy: records are checked against the run's schema", () =>
  inScene(async (scene) => {
    const start = { schema: { id: "telemetry.step.default", definition: null } };
    const proxy = scene.shell(printSteps(0, 10), { start });
    assert.equal(await proxy.code(), 0);
    assert.equal(scene.daemon.steps.length, 10);
    assert.deepEqual(scene.daemon.violations, { "step: reward: required": 10 });
    assert.match(scene.daemon.samples[0]!, /"step_index":0/);
  }));

Deno.test("proxy: the session token travels with the stream, heartbeats come", () =>
  inScene(async (scene) => {
    const start = { sessionToken: "secret", heartbeatIntervalS: 0.05 };
    const proxy = scene.shell("while [ ! -e go ]; do sleep 0.05; done", { start });
    await until(() => scene.daemon.heartbeats > 2, { what: "heartbeats" });
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    assert.equal(await proxy.code(), 0);
    assert.equal(scene.daemon.tokens[0], "Bearer secret");
  }));

Deno.test("proxy: a line that the daemon fails to store twice is passed over and counted, and no other is lost", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    daemon.poison = "arsenic";
    const proxy = scene.shell(
      `${printSteps(0, 500)}; echo '{"type":"step","step_index":500,"action":"arsenic"}'
      ${printSteps(501, 1000)}; exit 4`,
    );
    assert.equal(await proxy.code(), 4);
    assert.deepEqual(
      daemon.steps.map((s) => s.step),
      numbers(0, 1000).filter((step) => step !== 500),
    );
    assert.equal(daemon.malformedLines, 1);
    assert.match(daemon.samples[0]!, /a line of 52 bytes at \d+ is left out: internal error/);
    assert.equal(daemon.position, scene.journal().length);
  }));
