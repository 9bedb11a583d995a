/**
 * The event log of a real daemon: each kind of event with what it tells, the same to every reader.
 */
import assert from "node:assert/strict";
import { runCli } from "../../../src/cli/cli.ts";
import type { EventJson } from "../../../src/runs/fields/host_json.ts";
import { connect } from "../../../src/wire/client/client.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { fakeWorld } from "../../cli/fakes.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { events as serverSent } from "../../ui/received.ts";

const STEP = `printf '{"event_type":"step","step_index":0,"episode":0,"reward":1}\\n'`;

/** Leaves a checkpoint and a video, and ends when the file "go" is there. */
const TALKS = `cd "$MOSAIC_RUN_DIR"; ${STEP}; mkdir -p checkpoints videos
echo weights >checkpoints/step_7.pt; echo frames >videos/first.mp4
printf '{"event":"checkpoint_saved","payload":{"checkpoint_path":"checkpoints/step_7.pt","step":7}}\\n'
printf '{"event":"artifact","payload":{"path":"videos/first.mp4","kind":"video"}}\\n'
printf '{"event_type":"episode","episode":0,"total_reward":1,"steps":1,"terminated":true,"truncated":false}\\n'
until [ -e go ]; do sleep 0.05; done`;

const FAILS =
  `echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 3`;

const shell = (script: string) => ["/bin/sh", "-c", script];

Deno.test("events: every kind, with what it tells, and the same by gRPC, page and command line", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "1", "--grace", "1"] });
  const call = daemon.client;
  const seen: EventJson[] = [];
  const stop = new AbortController();
  const following = (async () => {
    for await (
      const event of call.stream(Mosaic.method.streamEvents, { run: "", follow: true }, stop.signal)
    ) {
      const { seq, runId, runName, kind, attempt, dataJson } = event;
      seen.push({
        seq: Number(seq),
        at: null,
        run_id: runId,
        run_name: runName,
        kind,
        attempt,
        data: JSON.parse(dataJson),
      });
    }
  })();
  const event = async (run: string, kind: string, attempt = 1) =>
    await until(
      () => seen.find((e) => e.run_id === run && e.kind === kind && e.attempt === attempt),
      {
        what: `the event ${kind} of ${run}, attempt ${attempt}`,
        state: () => ({
          events: seen.map((e) => [e.run_name, e.kind, e.attempt]),
          daemon: daemon.output().slice(-2000),
        }),
      },
    );

  const talks = await submit(daemon, configOf({ name: "talks", command: shell(TALKS) }));
  await untilState(daemon, talks, "EXECUTING");
  const restart = { restart: { max_attempts: 2, backoff_s: 0 } };
  const fails = await submit(
    daemon,
    configOf({ name: "fails", command: shell(FAILS), metadata: restart }),
  );
  const waits = await submit(daemon, configOf({ name: "waits", command: shell(STEP) }));

  const { digest } = await getRun(daemon, talks);
  assert.match(digest, /^[0-9a-f]{64}$/);
  const { data: queued } = await event(talks, "queued");
  assert.deepEqual([queued.digest, queued.position], [digest, 1]);
  assert.equal((await event(fails, "queued")).data.position, 1);
  assert.equal((await event(waits, "queued")).data.position, 2);
  const { data: started } = await event(talks, "started");
  assert.deepEqual([started.digest, started.gpus, started.resume_from], [digest, [], null]);
  const { data: checkpoint } = await event(talks, "checkpoint_saved");
  assert.deepEqual([checkpoint.path, checkpoint.step], ["checkpoints/step_7.pt", 7]);
  const artifacts = await until(() => {
    const found = seen.filter((e) => e.run_id === talks && e.kind === "artifact");
    return found.length === 2 ? found : undefined;
  }, { what: "both files to be artifacts", state: () => seen });
  assert.deepEqual(artifacts.map(({ data }) => [data.kind, data.path, data.bytes]).sort(), [
    ["checkpoint", "checkpoints/step_7.pt", 8],
    ["video", "videos/first.mp4", 7],
  ]);

  await call.unary(Mosaic.method.pauseRun, { run: talks });
  assert.equal((await event(talks, "paused")).data.reason, "by request");
  await call.unary(Mosaic.method.resumeRun, { run: talks });
  await event(talks, "resumed");

  await call.unary(Mosaic.method.cancelRun, { run: waits });
  assert.equal((await event(waits, "cancelled")).data.reason, "user_cancel");

  Deno.writeTextFileSync(`${daemon.layout.runDir("custom_scripts", talks)}/go`, "");
  const { data: completed } = await event(talks, "completed");
  assert.deepEqual([completed.steps, completed.episodes, completed.mean_reward_100], [1, 1, 1]);
  assert.equal(typeof completed.duration_s, "number");

  assert.equal(
    (await event(fails, "queued", 2)).data.digest,
    (await event(fails, "queued")).data.digest,
  );
  const { data: faulted } = await event(fails, "faulted", 1);
  const { data: failed } = await event(fails, "failed", 2);
  for (const data of [faulted, failed]) {
    assert.deepEqual([data.reason, data.exit_code, data.exit_signal], [
      "gpu_out_of_memory: asked for 2 GiB",
      3,
      null,
    ]);
    assert.match(String(data.stderr_tail), /CUDA out of memory/);
    assert.match(String(data.hint), /GPU's memory is full/);
  }
  const states = seen.filter((e) => e.run_id === fails && e.kind === "state").map((e) => e.data.to);
  assert.deepEqual(states.filter((to) => to !== "READY" && to !== "EXECUTING"), [
    ...["HANDSHAKE", "FAULTED"],
    ...["INIT", "HANDSHAKE", "FAULTED"],
  ]);

  await untilState(daemon, talks, "TERMINATED");
  await call.unary(Mosaic.method.deleteRun, { run: talks, forever: true });
  assert.equal((await event(talks, "deleted")).run_name, "talks");

  // A deleted run's events are gone but for the last; readers that come now get all others in the
  // same order.
  const left = seen.filter((e) => e.run_id !== talks || e.kind === "deleted");
  const newest = left.at(-1)!.seq;
  const page = await fetch(`http://${daemon.http}/api/events/live?since=0`);
  const sent = await serverSent(page, (e) => Number(e.id ?? 0) >= newest);
  assert.deepEqual(
    sent.filter((e) => e.event === "event").map((e) => [Number(e.id), e.data.kind]),
    left.map(seqAndKind),
  );
  const world = fakeWorld({}, {
    connect: () => Promise.resolve(connect({ target: daemon.target })),
  });
  assert.equal(await runCli(["events", "-o", "jsonl"], world), 0, world.stderr());
  const printed: EventJson[] = world.stdout().trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(printed.map(seqAndKind), left.map(seqAndKind));
  const own = fakeWorld({}, { connect: () => Promise.resolve(connect({ target: daemon.target })) });
  assert.equal(
    await runCli(["events", "fails", "-f", "-k", "faulted,failed", "-o", "jsonl"], own),
    0,
    own.stderr(),
  );
  assert.deepEqual(own.stdout().trim().split("\n").map((line) => JSON.parse(line).kind), [
    "faulted",
    "failed",
  ]);

  stop.abort();
  await following;
});

function seqAndKind(event: EventJson): [number, string] {
  return [event.seq, event.kind];
}
