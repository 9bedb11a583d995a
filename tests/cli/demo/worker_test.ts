import { strict as assert } from "node:assert";
import { DEFAULTS } from "../../../src/cli/demo/worker_options.ts";
import {
  checkpointDir,
  controlOf,
  runWorker,
  STOPPED,
  type WorkerEnvironment,
} from "../../../src/cli/demo/worker.ts";
import { until } from "../../harness/wait.ts";

type Line = Record<string, unknown> & { event_type: string; payload: Record<string, unknown> };

function environment(overrides: Partial<WorkerEnvironment> = {}) {
  let text = "";
  const env: WorkerEnvironment = {
    runId: "R",
    checkpointDir: undefined,
    resumeFrom: undefined,
    write: (t) => void (text += t),
    async *controlLines() {},
    stop: new AbortController().signal,
    now: () => performance.now(),
    unixSeconds: () => 1_700_000_000.25,
    ...overrides,
  };
  return { env, lines: () => text.trimEnd().split("\n").map((l) => JSON.parse(l) as Line) };
}

Deno.test("demo worker: prints the documented dialect, whole and in order", async () => {
  const { env, lines } = environment();
  assert.equal(await runWorker({ ...DEFAULTS, episodes: 5, population: 5 }, env), 0);
  const all = lines();
  assert.deepEqual(Object.keys(all.find((l) => l.event_type === "step")!), [
    "event_type",
    "run_id",
    "episode",
    "step_index",
    "action",
    "observation",
    "reward",
    "terminated",
    "truncated",
  ]);
  assert.deepEqual([all[0]!.event_type, all.at(-1)!.event_type], ["run_started", "run_completed"]);
  const metrics = all.filter((l) => l.event_type === "metrics").map(({ payload }) =>
    Object.keys(payload).join(" ")
  );
  assert.deepEqual(metrics, [
    "step generation best_reward elite_reward population_reward weight_std mean_reward_100",
  ]);
  for (let e = 0; e < 5; e++) {
    const steps = all.filter((l) => l.event_type === "step" && l["episode"] === e);
    const episode = all.find((l) => l.event_type === "episode" && l["episode"] === e)!;
    assert.deepEqual(steps.map((s) => s["step_index"]), steps.map((_, i) => i));
    assert.equal(episode["steps"], steps.length);
    assert.equal(episode["total_reward"], steps.length);
  }
});

Deno.test("demo worker: saves checkpoints and resumes from one", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const first = environment({ checkpointDir: `${dir}/checkpoints` });
    await runWorker({ ...DEFAULTS, episodes: 20, checkpointEvery: 10 }, first.env);
    const saved = first.lines().filter((l) => l.event_type === "checkpoint_saved").map((l) =>
      l.payload
    );
    assert.deepEqual(saved.map((p) => p["episode"]), [10, 20]);
    for (const p of saved) assert.ok(Deno.statSync(String(p["checkpoint_path"])).size > 100);

    const second = environment({ resumeFrom: String(saved[0]!["checkpoint_path"]) });
    assert.equal(await runWorker({ ...DEFAULTS, episodes: 20 }, second.env), 0);
    const episodes = (all: Line[]) => all.filter((l) => l.event_type === "episode");
    assert.deepEqual(episodes(second.lines()), episodes(first.lines()).slice(10));
    assert.ok(second.lines().some((l) => l.event_type === "checkpoint_loaded"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("demo worker: a checkpoint that is not there is a failure that names it", async () => {
  const { env, lines } = environment({ resumeFrom: "/nowhere/c.json" });
  assert.equal(await runWorker(DEFAULTS, env), 1);
  const last = lines().at(-1)!;
  assert.equal(last.event_type, "run_failed");
  assert.match(String(last.payload["error"]), /\/nowhere\/c\.json/);
});

Deno.test("demo worker: pauses and resumes when told to on standard input, and acknowledges both", async () => {
  let input: ReadableStreamDefaultController<string>;
  const stdin = new ReadableStream<string>({ start: (c) => void (input = c) });
  const { env, lines } = environment({ controlLines: () => stdin });
  const say = (line: string) => input.enqueue(line);
  const kinds = () =>
    lines().map((l) => l.event_type).filter((k) => k === "paused" || k === "resumed");
  const running = runWorker({ ...DEFAULTS, episodes: 30, stepDelayMs: 0.5, control: true }, env);
  say(`{"control":"pause"}`);
  await until(() => kinds().length === 1, { what: "the pause to be acknowledged", state: kinds });
  say("no control at all");
  say(`{"control":"resume"}`);
  assert.equal(await running, 0);
  assert.deepEqual(kinds(), ["paused", "resumed"]);
});

Deno.test("demo worker: asked to stop, it says so and ends with 143", async () => {
  const stop = new AbortController();
  const { env, lines } = environment({ stop: stop.signal });
  const running = runWorker({ ...DEFAULTS, episodes: 100_000, stepDelayMs: 1 }, env);
  stop.abort();
  assert.equal(await running, STOPPED);
  assert.equal(lines().at(-1)!.event_type, "run_cancelled");
});

Deno.test("demo worker: control lines and the checkpoint directory", () => {
  for (
    const [line, control] of [
      [`{"control":"pause"}`, "pause"],
      [`{"control":"resume","seq":3}`, "resume"],
      [`{"control":"explode"}`, undefined],
      ["null", undefined],
      ["", undefined],
    ] as const
  ) assert.equal(controlOf(line), control, line);
  const env = (o: Record<string, string>) => (name: string) => o[name];
  assert.equal(checkpointDir(env({ MOSAIC_RUN_DIR: "/r" })), "/r/checkpoints");
  assert.equal(checkpointDir(env({ MOSAIC_RUN_DIR: "/r", MOSAIC_CHECKPOINT_DIR: "/c" })), "/c");
  assert.equal(checkpointDir(env({})), undefined);
});
