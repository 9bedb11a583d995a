/**
 * The page of a real daemon with a real worker: what it shows, across the daemon's death, and what
 * it changes.
 */
import assert from "node:assert/strict";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { submit as submitTo, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { events } from "./received.ts";

const STEPS = 300;

Deno.test("page of a daemon: records go on without a gap after the daemon died, and actions reach the run", async () => {
  await using daemon = await TestDaemon.start();
  const page = async (path: string, init?: RequestInit) =>
    await fetch(`http://${daemon.http}${path}`, init);
  const json = async (path: string) => await (await page(path)).json();
  const submit = async (name: string, everySeconds: number) => {
    const configJson = configOf({ name, command: countingWorker({ steps: STEPS, everySeconds }) });
    const client = new MosaicClient(daemon.target);
    try {
      return (await client.unary(TrainerService.method.submitRun, { configJson }, {
        deadlineMs: 60_000,
      })).runId;
    } finally {
      client.close();
    }
  };
  const runId = await submit("counts", 0.02);
  const stream = `/api/runs/${runId}/steps/live`;
  const first = (await events(await page(stream), (e) => Number(e.id ?? 0) >= 20)).filter((e) =>
    e.event === "steps"
  );
  const oldToken = (await json("/api/session")).token;
  await daemon.restart();
  const rest = await events(
    await page(stream, { headers: { "last-event-id": first.at(-1)!.id! } }),
    (e) => Number(e.id ?? 0) >= STEPS,
  );
  const seqs = [...first, ...rest.filter((e) => e.event === "steps")].flatMap((e) =>
    e.data.map((s: { seq: number }) => s.seq)
  );
  assert.deepEqual(seqs, Array.from({ length: STEPS }, (_, i) => i + 1));
  await until(async () => (await json(`/api/runs/${runId}`)).state === "TERMINATED", {
    what: "the run to end",
  });
  const { series } = await json(
    `/api/runs/${runId}/series?name=episode_reward&name=reward&buckets=10`,
  );
  assert.deepEqual(series[0].mean, [STEPS]);
  assert.equal(series[1].count.reduce((a: number, b: number) => a + b, 0), STEPS);
  assert.match((await json(`/api/runs/${runId}/logs/stdout?from=0`)).text, /"step_index":0,/);

  const slow = await submit("slow", 30);
  const cancel = (token: string) =>
    page(`/api/runs/${slow}/cancel`, { method: "POST", headers: { "x-mosaic-token": token } });
  const refused = await cancel(oldToken);
  assert.equal(refused.status, 403);
  await refused.body?.cancel();
  const done = await cancel((await json("/api/session")).token);
  assert.equal(done.status, 200);
  await done.body?.cancel();
  await until(async () => (await json(`/api/runs/${slow}`)).state === "CANCELLED", {
    what: "the run to be cancelled",
  });
  const listed = await json("/api/runs?state=cancelled");
  assert.deepEqual(listed.runs.map((r: { run_id: string }) => r.run_id), [slow]);
});

Deno.test("page of a daemon: a program that has printed nothing has no last output", async () => {
  await using daemon = await TestDaemon.start();
  const client = new MosaicClient(daemon.target);
  const told = async (script: string) => {
    const configJson = configOf({ name: "r", command: ["/bin/sh", "-c", script] });
    const { runId } = await client.unary(TrainerService.method.submitRun, { configJson }, {
      deadlineMs: 60_000,
    });
    const read = async () => await (await fetch(`http://${daemon.http}/api/runs/${runId}`)).json();
    await until(async () => (await read()).state === "READY", { what: "the worker to run" });
    return read;
  };
  const silent = await told("sleep 60");
  const loud = await told("echo hello there; sleep 60");
  await until(async () => (await loud()).telemetry.last_output_at !== null, { what: "its output" });
  assert.equal((await silent()).telemetry.last_output_at, null);
  client.close();
});

Deno.test("permissions: a run's own files in its working directory are sent without a further permission", async () => {
  await using planned = await PlannedDaemon.start();
  const { daemon } = planned;
  const cwd = Deno.makeTempDirSync({ prefix: "mosaic-work-" });
  try {
    Deno.symlinkSync("/etc/hostname", `${cwd}/link`);
    const script = "printf 0123456789 > model.pt; for f in model.pt link; do " +
      `echo '{"type":"event","kind":"artifact","data":{"path":"'$PWD/$f'","kind":"checkpoint"}}'; done`;
    const worker = { script: "/bin/sh", arguments: ["-c", script], use_grpc: false, cwd };
    const run = await submitTo(daemon, configOf({ command: ["sh"], metadata: { worker } }));
    await untilState(daemon, run, "TERMINATED");
    const { artifacts } = await (await fetch(`http://${daemon.http}/api/runs/${run}`)).json();
    const paths = artifacts.map((a: { path: string }) => a.path);
    assert.ok(paths.includes(`${cwd}/model.pt`), JSON.stringify(paths));
    const address = `http://${daemon.http}/api/runs/${run}/artifacts/${
      encodeURIComponent(`${cwd}/model.pt`)
    }`;
    const answer = await fetch(address, { headers: { range: "bytes=2-4" } });
    assert.deepEqual([answer.status, await answer.text()], [206, "234"]);
    const head = await fetch(address, { method: "HEAD" });
    assert.deepEqual([head.status, head.headers.get("content-length")], [200, "10"]);
    assert.equal(await (await fetch(address)).text(), "0123456789");
  } finally {
    await Deno.remove(cwd, { recursive: true });
  }
});

Deno.test("page of a daemon: what a worker writes to both streams is one log, in its order", async () => {
  await using daemon = await TestDaemon.start();
  // Errors are noted by the next look at the files, so the worker waits for that.
  const script = `echo first; echo second >&2
    until grep -q . "$MOSAIC_RUN_DIR"/logs/*.times 2>/dev/null; do sleep 0.05; done
    echo third; echo fourth >&2`;
  const runId = await submitTo(
    daemon,
    configOf({ name: "both", command: ["/bin/sh", "-c", script] }),
  );
  await untilState(daemon, runId, "TERMINATED");
  const log = await fetch(`http://${daemon.http}/api/runs/${runId}/logs/both?from=0`);
  const { text, parts } = await log.json();
  assert.equal(text, "first\nsecond\nthird\nfourth\n");
  assert.deepEqual(parts.map(({ stream }: { stream: string }) => stream), [
    ...["stdout", "stderr", "stdout", "stderr"],
  ]);
});
