/**
 * A run's whole life as a webhook sees it: what is delivered is the event log, each event in the
 * documented form.
 */
import assert from "node:assert/strict";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

/**
 * Attempt 1 trains until the file "go" is there, then fails; attempt 2 fails at once; later ones
 * end well.
 */
const WORKER = `cd "$MOSAIC_RUN_DIR"
if [ "$MOSAIC_ATTEMPT" = 1 ]; then
  mkdir -p checkpoints; echo weights >checkpoints/step_7.pt
  printf '{"event_type":"step","step_index":0,"episode":0,"reward":2,"loss":0.5}\\n'
  printf '{"event":"checkpoint_saved","payload":{"checkpoint_path":"checkpoints/step_7.pt","step":7,"run_id":"of the worker","seq":"no number"}}\\n'
  until [ -e go ]; do sleep 0.05; done
fi
[ "$MOSAIC_ATTEMPT" -gt 2 ] && exit 0
echo "ModuleNotFoundError: No module named 'gymnasium'" >&2; exit 4`;

interface Delivered {
  id: string;
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

Deno.test("webhooks of a daemon: a run's whole life is delivered as the event log has it", async () => {
  const all: Delivered[] = [];
  const metrics: Delivered[] = [];
  const receiver = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const to = new URL(request.url).pathname === "/all" ? all : metrics;
      to.push({ id: request.headers.get("webhook-id")!, ...JSON.parse(await request.text()) });
      return new Response();
    },
  );
  const url = (path: string) => `http://127.0.0.1:${receiver.addr.port}${path}`;
  const stop = new AbortController();
  try {
    await using daemon = await TestDaemon.start({
      args: ["--webhook", url("/all"), "--grace", "1"],
    });
    const call = daemon.client;
    const log: Delivered[] = [];
    const following = (async () => {
      for await (
        const e of call.stream(Mosaic.method.streamEvents, { run: "", follow: true }, stop.signal)
      ) {
        if (e.kind === "metrics") continue;
        log.push({
          id: `event-${e.seq}`,
          type: `run.${e.kind}`,
          timestamp: timestampDate(e.at!).toISOString(),
          data: {
            ...JSON.parse(e.dataJson),
            seq: Number(e.seq),
            run_id: e.runId,
            run_name: e.runName,
            attempt: e.attempt,
          },
        });
      }
    })();
    const came = (type: string, attempt: number) =>
      until(() => all.find((e) => e.type === type && e.data.attempt === attempt), {
        what: `${type} of attempt ${attempt} to be delivered`,
        state: () => [all.map((e) => [e.type, e.data.attempt]), daemon.output().slice(-2000)],
      });

    const run = await submit(
      daemon,
      configOf({
        name: "whole",
        command: ["/bin/sh", "-c", WORKER],
        metadata: {
          restart: { max_attempts: 2, backoff_s: 0 },
          webhook: { url: url("/metrics"), events: ["metrics"] },
        },
      }),
    );
    await came("run.queued", 1);
    await came("run.started", 1);
    const checkpoint = await came("run.checkpoint_saved", 1);
    assert.deepEqual([checkpoint.data.path, checkpoint.data.step], ["checkpoints/step_7.pt", 7]);
    const artifact = await came("run.artifact", 1);
    assert.deepEqual([artifact.data.path, artifact.data.bytes], ["checkpoints/step_7.pt", 8]);
    const told = await until(() => metrics[0], {
      what: "a metrics event",
      state: () => daemon.output().slice(-2000),
    });
    assert.deepEqual([told.type, told.data.run_id, told.data.attempt], ["run.metrics", run, 1]);
    assert.equal((told.data.metrics as Record<string, number>).reward, 2);
    assert.equal(told.data.steps, 1);

    await untilState(daemon, run, "EXECUTING");
    await call.unary(Mosaic.method.pauseRun, { run });
    await came("run.paused", 1);
    await call.unary(Mosaic.method.resumeRun, { run });
    await came("run.resumed", 1);
    Deno.writeTextFileSync(`${daemon.layout.runDir("custom_scripts", run)}/go`, "");
    for (const { data } of [await came("run.faulted", 1), await came("run.failed", 2)]) {
      assert.deepEqual([data.reason, data.exit_code, data.exit_signal], ["exit_code_4", 4, null]);
      assert.match(String(data.hint), /gymnasium/);
      assert.match(String(data.stderr_tail), /ModuleNotFoundError/);
    }
    await call.unary(Mosaic.method.retryRun, { run });
    await came("run.queued", 3);
    assert.equal((await came("run.completed", 3)).data.steps, 1);
    // A deletion takes the run's other events with it.
    const same = () => log.length > 0 && log.at(-1)!.id === all.at(-1)?.id;
    await until(same, {
      what: "the log and the deliveries to be level",
      state: () => [log.at(-1), all.at(-1)],
    });
    await call.unary(Mosaic.method.deleteRun, { run, forever: true });
    const deleted = await until(() => all.find((e) => e.type === "run.deleted"), {
      what: "run.deleted",
    });
    assert.deepEqual([deleted.data.run_id, deleted.data.run_name, deleted.data.state], [
      run,
      "whole",
      "TERMINATED",
    ]);
    await until(same, { what: "the log to tell of the deletion", state: () => log.at(-1) });

    assert.deepEqual(all, log);
    assert.ok(metrics.every((e) => e.type === "run.metrics"));
    stop.abort();
    await following.catch(() => {});
  } finally {
    stop.abort();
    await receiver.shutdown();
  }
});
