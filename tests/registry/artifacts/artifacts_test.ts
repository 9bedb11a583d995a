import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Artifacts } from "../../../src/registry/artifacts/artifacts.ts";
import { createLogger } from "../../../src/base/log.ts";
import type { RunRow } from "../../../src/registry/row_types.ts";
import type { TelemetryLog } from "../../../src/telemetry/telemetry_log.ts";
import type { StoredEpisode } from "../../../src/gen/records/record_types.ts";
import { type Fixture, newRun, runId, withRegistry } from "../fixture.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

interface Bench extends Fixture {
  artifacts: Artifacts;
  run: RunRow;
  /** The run's directory. */
  home: string;
  logged: string[];
  write(path: string, text: string): void;
  /** Path → [kind, step, checksum] of what is on record. */
  recorded(): Record<string, [string, number | null, string]>;
  openAgain(quietMs?: number): Artifacts;
}

async function withRun(
  work: (bench: Bench) => Promise<void>,
  episodes: Partial<StoredEpisode>[] = [],
  baseDir: "runs" | "evals" = "runs",
  keepVideos: number | null = null,
) {
  await withRegistry(async (fixture) => {
    const home = `${fixture.directory}/runs/${runId(1)}`;
    Deno.mkdirSync(home, { recursive: true });
    const logged: string[] = [];
    const log = createLogger({ level: "debug", sinks: [(line) => logged.push(line)] });
    const telemetry = {
      read: (_run: string, _kind: string, since: number, limit: number) =>
        episodes.filter((e) => e.seq! > since).slice(0, limit),
      summary: () => ({ toldStep: 64 }),
    } as unknown as Pick<TelemetryLog, "read" | "summary">;
    const open = (quietMs = 0) =>
      new Artifacts({
        ...{ registry: fixture.registry, telemetry, directoryOf: () => home, log, quietMs },
        keepVideosOf: () => keepVideos,
      });
    const bench: Bench = Object.assign(fixture, {
      artifacts: open(),
      run: fixture.registry.insert(newRun(1, { baseDir })),
      home,
      logged,
      write(path: string, text: string) {
        const file = `${home}/${path}`;
        Deno.mkdirSync(file.slice(0, file.lastIndexOf("/")), { recursive: true });
        Deno.writeTextFileSync(file, text);
      },
      recorded: () =>
        Object.fromEntries(
          fixture.registry.artifacts(runId(1)).map((a) => [a.path, [a.kind, a.step, a.sha256]]),
        ) as Record<string, [string, number | null, string]>,
      openAgain: (quietMs?: number) => bench.artifacts = open(quietMs),
    });
    try {
      await work(bench);
    } finally {
      await bench.artifacts.close();
    }
  });
}

Deno.test("artifacts: the window that a video's record names is kept, also by later scans", async () => {
  await withRun(async ({ artifacts, run, registry, write, openAgain }) => {
    const announce = (data: Record<string, unknown>) =>
      artifacts.announced(run, {
        kind: "artifact",
        dataJson: JSON.stringify({ kind: "video", ...data }),
      });
    for (const name of ["a", "b", "c", "d"]) write(`videos/${name}.mp4`, "film");
    announce({ path: "videos/a.mp4", window_id: 73400327 });
    announce({ path: "videos/b.mp4", payload: { window_id: "0x4600007" } });
    announce({ path: "videos/c.mp4", window_id: "x".repeat(10_000) });
    artifacts.observe(run);
    await artifacts.settled();
    write("videos/a.mp4", "a longer film");
    await openAgain().finish(run);
    const kept = registry.artifacts(run.runId).map(({ path, windowId }) => [path, windowId]);
    assert.deepEqual(kept, [
      ["videos/a.mp4", "73400327"],
      ["videos/b.mp4", "0x4600007"],
      ["videos/c.mp4", ""],
      ["videos/d.mp4", ""],
    ]);
    const events = registry.eventsSince(0, { runId: run.runId, limit: 100 }).filter(({ kind }) =>
      kind === "artifact"
    );
    const said = events.map(({ dataJson }) => JSON.parse(dataJson)).map((
      { path, window_id },
    ) => [path, window_id]);
    assert.deepEqual(said.sort(), kept.map(([path, id]) => [path, id === "" ? undefined : id]));
  });
});

Deno.test("artifacts: files of the three directories are recorded with kind, size, step and checksum", async () => {
  await withRun(async ({ artifacts, run, registry, write, recorded }) => {
    write("checkpoints/step_1000.pt", "weights");
    write("checkpoints/ray/checkpoint_000010/state.pkl", "ray");
    write("videos/rl-video-episode-0.mp4", "film");
    write("tensorboard/events.out.tfevents.1", "events");
    write("logs/worker.stdout.log", "no artifact");
    write("checkpoints/.hidden", "no");
    write("checkpoints/next.pt.tmp", "still being written");
    artifacts.observe(run);
    artifacts.observe(run);
    await artifacts.settled();
    assert.deepEqual(recorded(), {
      "checkpoints/ray/checkpoint_000010/state.pkl": ["checkpoint", null, sha256("ray")],
      "checkpoints/step_1000.pt": ["checkpoint", 1000, sha256("weights")],
      "tensorboard/events.out.tfevents.1": ["tensorboard", null, sha256("events")],
      "videos/rl-video-episode-0.mp4": ["video", null, sha256("film")],
    });
    assert.equal(registry.artifact(run.runId, "checkpoints/step_1000.pt")!.bytes, 7);
    const events = registry.eventsSince(0, { limit: 100 }).filter((e) => e.kind === "artifact");
    assert.equal(events.length, 4);
  });
});

Deno.test("artifacts: a file that changed is looked at again, one that is gone is forgotten, neither is announced twice", async () => {
  await withRun(async ({ artifacts, run, registry, write, recorded, home }) => {
    write("checkpoints/a", "one");
    write("checkpoints/b", "b");
    artifacts.observe(run);
    await artifacts.settled();
    write("checkpoints/a", "longer now");
    Deno.removeSync(`${home}/checkpoints/b`);
    artifacts.observe(run);
    await artifacts.settled();
    assert.deepEqual(recorded(), { "checkpoints/a": ["checkpoint", null, sha256("longer now")] });
    assert.equal(
      registry.eventsSince(0, { limit: 100 }).filter((e) => e.kind === "artifact").length,
      2,
    );
  });
});

Deno.test("artifacts: a file that may still be growing is listed without a checksum until the run has ended", async () => {
  await withRun(async ({ openAgain, run, write, recorded }) => {
    const artifacts = openAgain(3_600_000);
    write("checkpoints/a", "growing");
    artifacts.observe(run);
    await artifacts.settled();
    assert.deepEqual(recorded(), { "checkpoints/a": ["checkpoint", null, ""] });
    await artifacts.finish(run);
    await artifacts.settled();
    assert.deepEqual(recorded(), { "checkpoints/a": ["checkpoint", null, sha256("growing")] });
  });
});

Deno.test("artifacts: checksums that a daemon before could not finish are computed by the next one", async () => {
  await withRun(async ({ artifacts, openAgain, registry, run, write, recorded }) => {
    write("checkpoints/a", "text");
    const finishing = artifacts.finish(
      registry.apply(run.runId, { type: "cancelled", reason: "user_cancel" }),
    );
    await finishing;
    await artifacts.close();
    registry.putArtifact({ ...registry.artifact(run.runId, "checkpoints/a")!, sha256: "" });
    assert.deepEqual(registry.runsWithUnhashedArtifacts(), [run.runId]);
    const next = openAgain();
    next.recover();
    await next.settled();
    assert.deepEqual(recorded(), { "checkpoints/a": ["checkpoint", null, sha256("text")] });
  });
});

Deno.test("artifacts: links are never followed and nothing outside the run's directory is recorded", async () => {
  await withRun(async ({ artifacts, run, directory, home, write, recorded, logged }) => {
    Deno.mkdirSync(`${directory}/outside`);
    Deno.writeTextFileSync(`${directory}/outside/secret`, "secret");
    Deno.mkdirSync(`${home}/checkpoints`);
    Deno.symlinkSync(`${directory}/outside/secret`, `${home}/checkpoints/link`);
    Deno.symlinkSync(`${directory}/outside`, `${home}/checkpoints/directory`);
    Deno.symlinkSync(`${directory}/outside`, `${home}/videos`);
    write("checkpoints/real", "real");
    for (
      const path of [
        `${directory}/outside/secret`,
        "../../outside/secret",
        "checkpoints/../../../outside/secret",
        "checkpoints/directory/secret",
        "videos/secret",
        "checkpoints/link",
        `${home}/../../outside/secret`,
        "",
        "/",
        ".",
      ]
    ) artifacts.announced(run, { kind: "artifact", dataJson: JSON.stringify({ path }) });
    await artifacts.finish(run);
    await artifacts.settled();
    assert.deepEqual(Object.keys(recorded()), ["checkpoints/real"]);
    assert.ok(logged.some((line) => line.includes("outside the run's directory")));
  });
});

Deno.test("artifacts: what the worker announces keeps its kind and step, wherever in the directory it lies", async () => {
  await withRun(async ({ artifacts, run, home, write, recorded }) => {
    write("checkpoints/latest", "weights");
    write("plots/q.png", "plot");
    write("models/final/a.bin", "a");
    artifacts.observe(run);
    artifacts.announced(run, {
      kind: "checkpoint_saved",
      dataJson: JSON.stringify({
        event: "checkpoint_saved",
        payload: { checkpoint_path: `${home}/checkpoints/latest`, step: 500 },
      }),
    });
    artifacts.announced(run, {
      kind: "artifact",
      dataJson: `{"type":"artifact","kind":"plot","path":"plots/q.png"}`,
    });
    artifacts.announced(run, {
      kind: "checkpoint_saved",
      dataJson: `{"checkpoint_path":"models/final"}`,
    });
    artifacts.announced(run, { kind: "heartbeat", dataJson: `{"path":"plots/q.png"}` });
    artifacts.announced(run, { kind: "artifact", dataJson: "no json" });
    artifacts.announced(run, { kind: "artifact", dataJson: `{"path":7}` });
    await artifacts.finish(run);
    await artifacts.settled();
    assert.deepEqual(recorded(), {
      "checkpoints/latest": ["checkpoint", 500, sha256("weights")],
      "models/final/a.bin": ["checkpoint", null, sha256("a")],
      "plots/q.png": ["plot", null, sha256("plot")],
    });
  });
});

Deno.test("artifacts: analytics.json is written when the worker left none, and never over its own", async () => {
  await withRun(async ({ artifacts, run, registry, home, write }) => {
    write("checkpoints/best_step_5.pt", "b");
    write("tensorboard/events.out.tfevents.1", "events");
    await artifacts.finish(
      registry.apply(run.runId, { type: "failed", reason: "exit_code_3" }, { exitCode: 3 }),
    );
    const analytics = JSON.parse(Deno.readTextFileSync(`${home}/analytics.json`));
    assert.equal(analytics.run_id, run.runId);
    assert.equal(analytics.artifacts.tensorboard.enabled, true);
    assert.equal(analytics.artifacts.tensorboard.relative_path, "tensorboard");
    assert.deepEqual(analytics.artifacts.checkpoints, {
      directory: `${home}/checkpoints`,
      format: "pt",
      files: ["checkpoints/best_step_5.pt"],
      best_checkpoint: "checkpoints/best_step_5.pt",
      final_checkpoint: "checkpoints/best_step_5.pt",
    });
    assert.deepEqual(analytics.metadata, {
      written_by: "mosaic",
      run_name: "run-1",
      outcome: "failed",
      reason: "exit_code_3",
      exit_code: 3,
      attempt: 1,
    });
    write("analytics.json", "the worker's");
    await artifacts.finish(run);
    assert.equal(Deno.readTextFileSync(`${home}/analytics.json`), "the worker's");
    assert.ok(
      !Array.from(Deno.readDirSync(home)).some((entry) => entry.name.startsWith("eval_summary")),
    );
  });
});

Deno.test("artifacts: after a removal neither mosaic's analytics.json nor a worker's names what is gone", async () => {
  await withRun(async ({ artifacts, run, home, write }) => {
    write("checkpoints/1.pt", "b");
    write("videos/1.mp4", "v");
    await artifacts.finish(run);
    const summary = () => JSON.parse(Deno.readTextFileSync(`${home}/analytics.json`));
    assert.deepEqual(summary().artifacts.checkpoints.files, ["checkpoints/1.pt"]);
    await Deno.remove(`${home}/checkpoints`, { recursive: true });
    await artifacts.finish(run, ["checkpoints"]);
    const { directory, files, final_checkpoint, best_checkpoint } = summary().artifacts.checkpoints;
    assert.deepEqual([directory, files, final_checkpoint, best_checkpoint], [null, [], null, null]);
    assert.equal(summary().artifacts.videos_dir, `${home}/videos`);

    const own =
      `{"artifacts":{"checkpoints":{"files":["${home}/checkpoints/1.pt","elsewhere/2.pt"],` +
      `"final_checkpoint":"checkpoints/1.pt"}},"score":1.0,"big":12345678901234567890}`;
    write("analytics.json", own);
    await artifacts.finish(run);
    assert.equal(Deno.readTextFileSync(`${home}/analytics.json`), own);
    await artifacts.finish(run, ["checkpoints"]);
    assert.deepEqual(summary().artifacts.checkpoints, {
      files: ["elsewhere/2.pt"],
      final_checkpoint: null,
    });
    const text = Deno.readTextFileSync(`${home}/analytics.json`);
    assert.ok(text.includes('"score": 1.0') && text.includes("12345678901234567890"), text);
  });
});

Deno.test("artifacts: an evaluation gets its summary from the episodes of its last attempt", async () => {
  const episodes = [4, 1, 3, 2, Number.NaN].map((totalReward, i) => ({
    seq: i + 2,
    attempt: 1,
    totalReward,
  }));
  await withRun(
    async ({ artifacts, run, registry, clock, home }) => {
      registry.apply(run.runId, { type: "spawned" });
      clock.now += 2500;
      await artifacts.finish(registry.apply(run.runId, { type: "exited_ok" }));
      const summary = JSON.parse(Deno.readTextFileSync(`${home}/eval_summary.json`));
      assert.ok(Math.abs(summary.std_return - Math.sqrt(1.25)) < 1e-12);
      assert.match(summary.updated_at, /^\d{4}-.*Z$/);
      delete summary.std_return;
      delete summary.updated_at;
      assert.deepEqual(summary, {
        batch_index: 0,
        episodes: 5,
        avg_return: 2.5,
        min_return: 1,
        max_return: 4,
        median_return: 2.5,
        duration_sec: 2.5,
      });
    },
    [{ seq: 1, attempt: 2, totalReward: 99 }, ...episodes],
    "evals",
  );
});

Deno.test("artifacts: a run without a directory, or one that was deleted, is no trouble", async () => {
  await withRun(async ({ artifacts, run, registry, home, write }) => {
    Deno.removeSync(home, { recursive: true });
    await artifacts.finish(run);
    registry.apply(run.runId, { type: "cancelled", reason: "user_cancel" });
    registry.delete(run.runId);
    write("checkpoints/a", "late");
    await artifacts.finish(run);
    await artifacts.settled();
    assert.deepEqual(registry.artifacts(run.runId), []);
  });
});

Deno.test("keep_videos: videos of the best, worst and last episodes stay, and all whose return nobody knows", async () => {
  const returns = [5, 1, 9, 3, 4, 6, 5, 5];
  const episodes = returns.map((totalReward, episode) => ({
    seq: episode + 1,
    episode,
    totalReward,
    attempt: 1,
  }));
  await withRun(
    async ({ artifacts, run, write, home, recorded }) => {
      for (let episode = 0; episode < 9; episode++) {
        write(`videos/rl-video-episode-${episode}.mp4`, "film");
      }
      for (const other of ["rl-video-step-3.mp4", "rl-video-episode-3.meta.json", "of-all.mp4"]) {
        write(`videos/${other}`, "");
      }
      Deno.mkdirSync(`${home}/elsewhere`);
      Deno.writeTextFileSync(`${home}/elsewhere/x-episode-3.mp4`, "not a video of its");
      Deno.symlinkSync(`${home}/elsewhere`, `${home}/videos/link`);
      artifacts.observe(run);
      await artifacts.settled();
      const kept = Object.keys(recorded()).map((path) => /episode-(\d)\.mp4/.exec(path)?.[1])
        .filter((n) => n);
      // Best 2 and 5, worst 1 and 3, last 6 and 7; 8 has no return yet.
      assert.deepEqual(kept.sort(), ["1", "2", "3", "5", "6", "7", "8"]);
      assert.deepEqual([...Deno.readDirSync(`${home}/videos`)].length, 7 + 4);
      assert.ok(Deno.statSync(`${home}/elsewhere/x-episode-3.mp4`).isFile);
    },
    episodes,
    "runs",
    2,
  );
});
