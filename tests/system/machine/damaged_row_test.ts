/**
 * One run's row in the registry is damaged, by a disk or by somebody's hand: it is that run's
 * trouble alone.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { configOf } from "../../harness/configs.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { mosaic } from "./cli.ts";
import { SteppedWorker } from "./workers.ts";

function damage(
  daemon: TestDaemon,
  values: Record<string, [column: string, text: string][]>,
): void {
  const db = new DatabaseSync(daemon.layout.registryDb);
  for (const [runId, columns] of Object.entries(values)) {
    for (const [column, text] of columns) {
      db.prepare(`UPDATE runs SET ${column} = ? WHERE run_id = ?`).run(text, runId);
    }
  }
  db.close();
}

function damageEvents(daemon: TestDaemon, runId: string): void {
  const db = new DatabaseSync(daemon.layout.registryDb);
  db.prepare("UPDATE events SET data_json = '{torn' WHERE run_id = ? AND kind = 'started'").run(
    runId,
  );
  db.close();
}

Deno.test("a daemon starts over runs whose rows are damaged: these are quarantined and named, the others go on", async () => {
  await using daemon = await TestDaemon.start({ gpus: "2" });
  const worker = new SteppedWorker(daemon.stateDir, [5, 5]);
  const sleeper = (more: object = {}) =>
    configOf({ command: ["/bin/sh", "-c", "exec sleep 3600"], ...more });
  const ended = await submit(daemon, configOf({ command: ["/bin/true"] }));
  await untilState(daemon, ended, "TERMINATED");
  const whole = await submit(daemon, worker.config());
  const torn = await submit(daemon, sleeper({ gpus: { requested: 1 } }));
  const noConfig = await submit(daemon, sleeper());
  const flying = await submit(daemon, sleeper({ gpus: { requested: 1 } }));
  for (const run of [whole, torn, noConfig, flying]) {
    await untilState(daemon, run, "READY", "EXECUTING");
  }
  const waiting = await submit(daemon, sleeper({ gpus: { requested: 2, mandatory: true } }));
  await daemon.kill9();
  damage(daemon, {
    [ended]: [["tags", "nonsense"], ["stderr_tail", '{"a":1}']],
    [torn]: [["worker", '{"pid":'], ["proxy", '{"pid":"1"}']],
    [noConfig]: [["config_json", '{"run_name":']],
    [waiting]: [["tags", "[1]"]],
    [flying]: [["state", "FLYING"], ["base_dir", "../elsewhere"]],
  });
  damageEvents(daemon, whole);
  await daemon.restart();

  const quarantined = await untilState(daemon, torn, "FAULTED");
  assert.match(
    quarantined.reason,
    /^recovery_failed: the row of run \S+ in the registry is damaged \(worker, proxy cannot be read\)$/,
  );
  assert.match(quarantined.hint, /mosaic doctor --repair/);
  assert.deepEqual(quarantined.gpuSlots, []);
  assert.match(
    (await untilState(daemon, noConfig, "FAULTED")).reason,
    /^recovery_failed: the stored config is damaged/,
  );
  assert.match(
    (await untilState(daemon, waiting, "FAULTED")).reason,
    /damaged \(tags cannot be read\)$/,
  );
  const unknown = await untilState(daemon, flying, "FAULTED");
  assert.match(
    unknown.reason,
    /^recovery_failed: .* is damaged \(state, base_dir cannot be read\)$/,
  );
  assert.ok(unknown.finishedAt !== undefined);
  assert.deepEqual(
    (await daemon.client.unary(Mosaic.method.getHost, {})).gpus.map(({ runId }) => runId),
    ["", ""],
  );
  await until(() => processesOf(`custom_scripts/${torn}`).length === 0, {
    what: "the processes of the quarantined run to be gone",
  });
  worker.open();
  await worker.assertWhole(daemon, whole);
  await untilState(
    daemon,
    await submit(daemon, configOf({ command: ["/bin/true"] })),
    "TERMINATED",
  );
  assert.match(daemon.output(), new RegExp(`${torn}.*is damaged.*quarantined`));

  // Who looks sees all of them, whatever is asked.
  const at = ["--target", daemon.target];
  for (
    const args of [["list", "-o", "json"], ["events", whole], ["list", "--tag", "none"], [
      "show",
      noConfig,
      "-o",
      "json",
    ], ["show", ended]]
  ) {
    const { code, err } = await mosaic([...args, ...at]);
    assert.equal(code, 0, `${args.join(" ")}: ${err}`);
  }
  const pruned = await mosaic(["prune", "--keep-last", "0", "--dry-run", "-o", "json", ...at]);
  const prunable = (JSON.parse(pruned.out).runs as { run_id: string }[]).map((run) => run.run_id);
  for (const run of [ended, waiting, flying]) {
    assert.ok(!prunable.includes(run), "a damaged row is not pruned");
  }
  assert.ok(prunable.includes(noConfig));
  const refused = await mosaic(["retry", waiting, ...at]);
  assert.notEqual(refused.code, 0);
  assert.match(refused.err, /row of run \S+ in the registry is damaged \(tags/);

  const examined = await mosaic(["doctor", "--state-dir", daemon.stateDir]);
  for (
    const [run, what] of [[ended, "tags"], [ended, "stderr_tail"], [torn, "worker"], [
      waiting,
      "tags",
    ]]
  ) {
    assert.match(examined.out, new RegExp(`row of run ${run} .*: ${what} cannot be read`));
  }
  await daemon.stop();
  const mended = await mosaic(["doctor", "--repair", "--state-dir", daemon.stateDir]);
  assert.match(mended.out, /tags is \[\] now; it was "nonsense"/);
  assert.doesNotMatch(mended.out, /^(?!repaired).*\n.*cannot be read$/m);
  await daemon.restart();
  assert.deepEqual(
    (await daemon.client.unary(Mosaic.method.getHost, {})).gpus.map(({ runId }) => runId),
    ["", ""],
  );
  assert.equal((await mosaic(["retry", waiting, "--target", daemon.target])).code, 0);
  await untilState(daemon, waiting, "READY", "EXECUTING");
  assert.equal((await getRun(daemon, waiting)).attempt, 2);
});
