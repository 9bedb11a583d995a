/**
 * Workers that open their output files anew (`> /dev/stdout`), and others that empty the journal:
 * what is printed later is delivered once, and what is lost is reported.
 */
import assert from "node:assert/strict";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { until } from "../harness/wait.ts";
import { inScene, numbers, printSteps, type Scene } from "../proxy/scene.ts";

/** A root that may do no more than its uid's own files allow. */
const AS_PLAIN_USER = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];

const isRoot = opensAnything();
const mayBecomePlain = isRoot && "path" in findProgram("setpriv", "/", "/usr/bin:/bin:/usr/sbin");
const plain = isRoot ? AS_PLAIN_USER : [];
if (isRoot && !mayBecomePlain) {
  console.log("SKIPPED: setpriv is not installed, so a plain user's worker is not tried");
}
if (!isRoot) console.log("NOT ALLOWED HERE: this user is not root, so root's worker is not tried");

/** Whether a file's mode stops this process, as it does not stop root with its capabilities. */
function opensAnything(): boolean {
  const path = Deno.makeTempFileSync();
  try {
    Deno.chmodSync(path, 0o400);
    Deno.openSync(path, { write: true }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  } finally {
    Deno.removeSync(path);
  }
}

const stepsOf = (scene: Scene) => scene.daemon.steps.map(({ step }) => step);
const stderrOf = (scene: Scene) => Deno.readTextFileSync(scene.files.stderr(1));

function lost(scene: Scene): { from: number; bytes: number | null; reason: string }[] {
  return scene.daemon.events.filter(({ kind }) => kind === "journal_lost").map(({ dataJson }) =>
    JSON.parse(dataJson)
  );
}

const REOPENING = `echo before >&2; ${printSteps(0, 50)}
  echo x >/dev/stdout; echo x >>/dev/stdout; echo x >/dev/stderr; echo x | tee /dev/stderr >/dev/null
  ${printSteps(50, 100)}; echo after >&2`;

Deno.test({
  name:
    "stdout opened anew by a plain user's worker: it fails aloud, and everything around it is kept",
  ignore: isRoot && !mayBecomePlain,
  fn: () =>
    inScene(async (scene) => {
      assert.equal(await scene.shell(REOPENING, { under: plain }).code(), 0);
      assert.deepEqual(stepsOf(scene), numbers(0, 100));
      assert.deepEqual(lost(scene), []);
      const stderr = stderrOf(scene);
      assert.match(stderr, /^before\n[^]*\nafter\n$/);
      assert.match(stderr, /\/dev\/stdout: Permission denied/);
      assert.match(stderr, /\/dev\/stderr: Permission denied/);
      assert.equal(Deno.statSync(scene.files.stdout(1)).mode! & 0o777, 0o400);
      assert.equal(Deno.statSync(scene.files.stderr(1)).mode! & 0o777, 0o400);
    }),
});

Deno.test({
  name: "stdout opened anew by root's worker: the loss is reported, the rest is delivered once",
  ignore: !isRoot,
  fn: () =>
    inScene(async (scene) => {
      assert.equal(await scene.shell(REOPENING).code(), 0);
      const steps = stepsOf(scene);
      assert.deepEqual(steps.slice(-50), numbers(50, 100));
      assert.deepEqual(
        steps,
        [...new Set(steps)].sort((a, b) => a - b),
        "nothing twice, nothing out of order",
      );
      assert.equal(lost(scene).length, 1);
      assert.match(lost(scene)[0]!.reason, /> \/dev\/stdout/);
      // The proxy's own blank line is none of the worker's.
      assert.equal(scene.daemon.otherLines, 2);
    }),
});

/** Empties the journal as its owner could. */
function empty(scene: Scene): void {
  Deno.chmodSync(scene.files.stdout(1), 0o600);
  Deno.truncateSync(scene.files.stdout(1), 0);
}

const gate = (name: string) => `while [ ! -e ${name} ]; do sleep 0.05; done`;
const open = (scene: Scene, name: string) =>
  Deno.writeTextFileSync(`${scene.directory}/${name}`, "");

// What follows is shorter than what was there, or longer: then the file's size alone would tell
// nothing.
for (const [count, form] of [[20, "shorter"], [300, "longer"]] as const) {
  Deno.test(`journal emptied by somebody under its proxy, then ${form}: reported once, and delivery goes on`, () =>
    inScene(async (scene) => {
      const proxy = scene.shell(
        `${printSteps(0, 100)}; ${gate("a")}; ${printSteps(100, 100 + count)}; ${gate("b")}
        ${printSteps(100 + count, 200 + count)}; exit 4`,
      );
      await until(() => scene.daemon.steps.length === 100, { what: "the first part" });
      empty(scene);
      open(scene, "a");
      await until(() => scene.daemon.steps.length === 100 + count, { what: "the second part" });
      open(scene, "b");
      assert.equal(await proxy.code(), 4);
      assert.deepEqual(stepsOf(scene), numbers(0, 200 + count));
      assert.equal(lost(scene).length, 1);
    }));

  Deno.test(`journal emptied by somebody while no proxy was there, then ${form}: reported once, and delivery goes on`, () =>
    inScene(async (scene) => {
      const first = scene.shell(
        `${printSteps(0, 100)}; ${gate("a")}; ${printSteps(100, 100 + count)}; ${gate("b")}
        ${printSteps(100 + count, 200 + count)}; exit 4`,
      );
      await until(() => scene.daemon.steps.length === 100, { what: "the first part" });
      await first.kill();
      empty(scene);
      open(scene, "a");
      await until(() => scene.journal().includes(`"step_index":${99 + count}}`), {
        what: "the worker to go on",
      });
      const second = scene.proxy([], { args: ["--attach"] });
      await until(() => scene.daemon.steps.length === 100 + count, { what: "the second part" });
      await second.kill();
      open(scene, "b");
      await until(() => scene.exitRecord(), { what: "the worker to end" });
      assert.equal(await scene.proxy([], { args: ["--attach"] }).code(), 4);
      assert.deepEqual(stepsOf(scene), numbers(0, 200 + count));
      assert.equal(lost(scene).length, 1);
    }));
}
