/**
 * Workers in control groups of the host's own cgroup v2, as far as this user may make them and the
 * kernel has controllers.
 */
import assert from "node:assert/strict";
import { RunCgroups } from "../../src/os/processes/cgroups.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { identityOf } from "../../src/os/processes/identity.ts";
import { shellOutput } from "../../src/os/processes/shell.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

/** A group of the test's own; undefined where none can be made. */
function ownGroup(): string | undefined {
  for (const mount of ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]) {
    const path = `${mount}/test-of-mosaic-${Deno.pid}`;
    const made =
      'cd "$0" && [ -e cgroup.controllers ] && mkdir "$1" && echo "+memory +cpu" >cgroup.subtree_control; [ -d "$1" ]';
    if (shellOutput(made, mount, path) !== undefined) return path;
  }
  return undefined;
}

const parent = ownGroup();
if (parent === undefined) {
  console.log("NOT ALLOWED HERE: no control group (cgroup v2) can be made, so none is tried");
}
const controllers = parent === undefined
  ? []
  : readTextIfThere(`${parent}/cgroup.controllers`)!.trim().split(" ");
const hasMemory = controllers.includes("memory");
if (parent !== undefined && !hasMemory) {
  console.log(
    "NOT ALLOWED HERE: cgroup v2 has no memory controller, so no worker is held to its memory",
  );
}
globalThis.addEventListener("unload", () => parent && shellOutput('rmdir "$0"/* "$0"', parent));

const startWith = (place: string) => TestDaemon.start({ args: ["--cgroup-parent", place] });

async function show(daemon: TestDaemon, run: string): Promise<string> {
  const [program, ...args] = PROGRAM;
  const shown = new Deno.Command(program!, {
    args: [...args, "show", run, "--state-dir", daemon.stateDir],
  });
  return new TextDecoder().decode((await shown.output()).stdout);
}

Deno.test("cgroups: what is no place for groups is refused, with what to do about it", () => {
  assert.throws(
    () => RunCgroups.open("/tmp"),
    (error) =>
      error instanceof MosaicError && error.code === "failed_precondition" &&
      /--cgroup-parent \/tmp: it is not a cgroup v2 directory/.test(error.message) &&
      /delegated/.test(error.hint ?? ""),
  );
});

Deno.test("cgroups: without a parent the limits are advice, and both the log and `show` say so", async () => {
  await using daemon = await TestDaemon.start();
  const run = await submit(daemon, configOf({ command: countingWorker({ steps: 1 }) }));
  await untilState(daemon, run, "TERMINATED");
  assert.match(daemon.output(), /cpus and memory_mb of configs are not enforced/);
  assert.match(await show(daemon, run), /limits +1 CPU, 256 MiB \(not enforced\)/);
});

/** Says aloud what was not tried, above; it is not the test's to grant. */
const where = (allowed: boolean, name: string, test: () => Promise<void>) =>
  allowed && Deno.test(name, test);

where(
  parent !== undefined,
  "cgroups: who leaves the worker's session does not outlive the run",
  async () => {
    await using daemon = await startWith(parent!);
    const pidFile = `${daemon.stateDir}/escaped`;
    const script = `setsid sh -c 'echo $$ >"$0".new; mv "$0".new "$0"; exec sleep 1000' ${pidFile} &
while [ ! -e ${pidFile} ]; do sleep 0.05; done
grep -h '^0::' /proc/self/cgroup >${daemon.stateDir}/cgroup
mkdir -p ${parent}/mosaic-$MOSAIC_RUN_ID-1/of-the-worker/deeper
printf '{"type":"step","step":0}\\n'`;
    const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script] }));
    const ended = await untilState(daemon, run, "TERMINATED");
    assert.match(
      readTextIfThere(`${daemon.stateDir}/cgroup`)!,
      new RegExp(`/mosaic-${run}-1$`, "m"),
    );
    assert.equal(identityOf(Number(readTextIfThere(pidFile))), undefined);
    assert.deepEqual([...Deno.readDirSync(parent!)].filter((e) => e.isDirectory), []);
    assert.equal(ended.outcome, "succeeded");
    assert.deepEqual((await getRun(daemon, run)).enforcedLimits, [
      ...(hasMemory ? ["memory_mb"] : []),
      ...(controllers.includes("cpu") ? ["cpus"] : []),
    ]);
  },
);

where(
  parent !== undefined,
  "cgroups: a run that an earlier daemon has started keeps its group",
  async () => {
    await using daemon = await startWith(parent!);
    const run = await submit(
      daemon,
      configOf({ command: countingWorker({ steps: 100_000, everySeconds: 0.2 }) }),
    );
    await untilState(daemon, run, "EXECUTING");
    await daemon.restart();
    await untilState(daemon, run, "EXECUTING");
    const group = `${parent}/mosaic-${run}-1`;
    assert.match(readTextIfThere(`${group}/cgroup.events`) ?? "", /populated 1/);
    await daemon.client.unary(Mosaic.method.cancelRun, { run });
    await untilState(daemon, run, "CANCELLED");
    await until(() => readTextIfThere(`${group}/cgroup.events`) === undefined, {
      what: "the group to be removed",
    });
  },
);

where(
  parent !== undefined,
  "cgroups: auto divides the daemon's own group, again after a restart",
  async () => {
    const service = `${parent}/service`;
    Deno.mkdirSync(service);
    // As service managers do that know of a subgroup: a group whose children have controllers takes
    // no process.
    const enter =
      'group=$0/daemon; [ -d "$group" ] || group=$0; echo 0 >"$group/cgroup.procs"; exec "$@"';
    const inService = ["/bin/sh", "-c", enter, service, ...PROGRAM];
    try {
      await using daemon = await TestDaemon.start({
        args: ["--cgroup-parent", "auto"],
        program: inService,
      });
      const run = await submit(
        daemon,
        configOf({ command: countingWorker({ steps: 100_000, everySeconds: 0.2 }) }),
      );
      await untilState(daemon, run, "EXECUTING");
      await daemon.restart();
      await untilState(daemon, run, "EXECUTING");
      assert.equal(readTextIfThere(`${service}/cgroup.procs`), "");
      assert.match(
        readTextIfThere(`${service}/daemon/cgroup.procs`)!,
        new RegExp(`^${daemon.pid}$`, "m"),
      );
      await daemon.client.unary(Mosaic.method.cancelRun, { run });
      await untilState(daemon, run, "CANCELLED");
      const groups = [...Deno.readDirSync(service)].filter((entry) => entry.isDirectory).map((
        entry,
      ) => entry.name);
      assert.deepEqual(groups, ["daemon"]);
    } finally {
      await until(() => shellOutput('rmdir "$0/daemon" "$0"', service) !== undefined, {
        what: "the groups to be removed",
      });
    }
  },
);

where(
  hasMemory,
  "cgroups: a worker beyond its memory is killed, and the run says so",
  async () => {
    await using daemon = await startWith(parent!);
    const script = 'printf \'{"type":"step","step":0}\\n\'; exec head -c 2G /dev/zero | tail';
    const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", script] }));
    const { reason, hint, enforcedLimits } = await untilState(daemon, run, "FAULTED");
    assert.equal(reason, "oom_killed");
    assert.match(hint, /it may use 256 MiB \(resources\.memory_mb\)/);
    assert.ok(enforcedLimits.includes("memory_mb"));
  },
);
