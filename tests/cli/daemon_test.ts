/** The verbs against a real daemon, its proxies and workers. One daemon for the whole file. */
import { strict as assert } from "node:assert";
import { processRef } from "../../src/os/processes/identity.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { runVerb } from "./verb.ts";

let daemon: TestDaemon;
Deno.test.beforeAll(async () => void (daemon = await TestDaemon.start()));
Deno.test.afterAll(() => daemon[Symbol.asyncDispose]());

const mosaic = (args: string[], input = "") => runVerb(daemon, args, input);

/** As `mosaic`, and it must succeed. */
async function ok(args: string[], input = ""): Promise<string> {
  const { code, out, err } = await mosaic(args, input);
  assert.equal(code, 0, `mosaic ${args.join(" ")}: ${err}`);
  return out;
}

async function submitted(config: Parameters<typeof configOf>[0]): Promise<string> {
  const out = await ok(["submit", "-"], configOf(config));
  assert.match(out, /^[0-9A-HJKMNP-TV-Z]{26}\n$/);
  return out.trim();
}

/** A worker that says one step and then nothing, until it is ended. */
const SILENT = [
  "/bin/sh",
  "-c",
  `echo '{"event_type":"step","episode":0,"step_index":0,"reward":1}'; exec sleep 600`,
];

async function state(run: string): Promise<string> {
  return JSON.parse(await ok(["show", run, "-o", "json"])).state;
}

Deno.test("checkpoints and logs that are not to be kept go with the end of the run, and nobody is pointed to them", async () => {
  const script = `mkdir -p "$MOSAIC_CHECKPOINT_DIR"
    echo weights > "$MOSAIC_CHECKPOINT_DIR/1.pt"
    printf '{"event":"checkpoint_saved","payload":{"checkpoint_path":"%s/1.pt","step":1}}\\n' "$MOSAIC_CHECKPOINT_DIR"
    test -z "$MOSAIC_RESUME_FROM"`;
  const config = JSON.parse(configOf({ name: "spare", command: ["/bin/sh", "-c", script] }));
  const run = (await ok(
    ["submit", "-"],
    JSON.stringify({
      ...config,
      artifacts: { persist_logs: false },
      metadata: { ...config.metadata, artifacts: { drop_checkpoints_at_end: true } },
    }),
  )).trim();
  const shown = async () => JSON.parse(await ok(["show", run, "-o", "json"]));
  const gone = () =>
    until(async () => (await shown()).artifacts.length === 0, {
      what: "the checkpoint to be gone",
    });
  await ok(["wait", run]);
  await gone();
  const { directory } = await shown();
  assert.deepEqual(
    [...Deno.readDirSync(directory)].filter(({ name }) => /checkpoints|logs/.test(name)),
    [],
  );
  // The summary is written last.
  await until(async () => {
    const { artifacts } = JSON.parse(await Deno.readTextFile(`${directory}/analytics.json`));
    const { files, final_checkpoint } = artifacts.checkpoints;
    return files.length === 0 && final_checkpoint === null && artifacts.logs_dir === null;
  }, { what: "a summary without what is gone" });
  const { out, err } = await mosaic(["logs", run]);
  assert.equal(out, "");
  assert.match(err, /the logs were deleted: the config has artifacts\.persist_logs false/);
  // The next attempt is not sent to a checkpoint that is gone: it would fail for that.
  await ok(["retry", run]);
  await ok(["wait", run]);
  assert.deepEqual([(await shown()).attempt, (await shown()).state], [2, "TERMINATED"]);
  await gone();
  await ok(["delete", run]);
});

Deno.test("keep_checkpoints: false, which the original's forms always say, deletes no trained model", async () => {
  const script = `mkdir -p "$MOSAIC_CHECKPOINT_DIR"; echo weights > "$MOSAIC_CHECKPOINT_DIR/1.pt"`;
  const config = JSON.parse(configOf({ name: "trained", command: ["/bin/sh", "-c", script] }));
  const run = (await ok(
    ["submit", "-"],
    JSON.stringify({ ...config, artifacts: { keep_checkpoints: false } }),
  )).trim();
  const shown = async () => JSON.parse(await ok(["show", run, "-o", "json"]));
  await ok(["wait", run]);
  const { directory } = await shown();
  const file = `${directory}/analytics.json`;
  // Written behind what would have removed them.
  await until(() => Deno.stat(file).then(() => true, () => false), { what: "the summary" });
  await ok(["retry", run]);
  await ok(["wait", run]);
  assert.equal(await Deno.readTextFile(`${directory}/checkpoints/1.pt`), "weights\n");
  assert.deepEqual(JSON.parse(await Deno.readTextFile(file)).artifacts.checkpoints.files, [
    "checkpoints/1.pt",
  ]);
  await ok(["delete", run]);
});

/**
 * A worker that saves a checkpoint in its first attempt, says in each what it was sent to, and
 * fails as asked.
 */
function resumer(path: string, codes: number[]): string[] {
  return [
    "/bin/sh",
    "-c",
    `echo "attempt $MOSAIC_ATTEMPT: $MOSAIC_RESUME_FROM" >&2
    mkdir -p "$MOSAIC_CHECKPOINT_DIR"
    [ "$MOSAIC_ATTEMPT" = 1 ] && printf '{"event":"checkpoint_saved","payload":{"path":"%s","step":1}}\n' "${path}"
    set -- ${codes.join(" ")}; shift $((MOSAIC_ATTEMPT - 1)); exit $1`,
  ];
}

Deno.test("a retry goes on from a checkpoint that the worker told of as a relative path", async () => {
  const run = await submitted({ name: "relative", command: resumer("checkpoints/1.pt", [1, 0]) });
  await mosaic(["wait", run]);
  assert.match(
    await ok(["retry", run]),
    /^\w{26} {2}Queued, attempt 2, from checkpoints\/1\.pt\n$/,
  );
  await ok(["wait", run]);
  assert.match(await ok(["show", run]), /^resumed from +checkpoints\/1\.pt$/m);
  assert.match(await ok(["logs", run, "--stderr"]), /attempt 2: checkpoints\/1\.pt/);
  assert.match(await ok(["logs", run, "--stderr", "--attempt", "1"]), /^attempt 1: $/m);
  const third = await mosaic(["logs", run, "--attempt", "3"]);
  assert.equal(third.code, 2);
  assert.match(third.err, /attempt is 3: run \w+ has attempts 1 to 2/);
  await ok(["delete", run]);
});

Deno.test("a checkpoint that went with an attempt's end is not handed out after a later attempt has failed either", async () => {
  const command = resumer("$MOSAIC_CHECKPOINT_DIR/1.pt", [0, 1, 0]);
  const config = JSON.parse(configOf({ name: "dropped", command }));
  config.metadata = { ...config.metadata, artifacts: { drop_checkpoints_at_end: true } };
  const run = (await ok(["submit", "-"], JSON.stringify(config))).trim();
  await ok(["wait", run]);
  await ok(["retry", run]);
  await mosaic(["wait", run]);
  await ok(["retry", run]);
  await ok(["wait", run]);
  assert.match(await ok(["logs", run, "--stderr"]), /attempt 3: $/m);
  await ok(["delete", run]);
});

Deno.test("metrics: the newest, the first, and those of one series are what is asked for", async () => {
  const points = Array.from(
    { length: 30 },
    (_, i) => `{"type":"metrics","payload":{"loss":${i},"entropy":${-i}}}`,
  );
  const run = await submitted({
    name: "curves",
    command: ["/bin/sh", "-c", `printf '%s\\n' '${points.join("' '")}'`],
  });
  await ok(["wait", run]);
  const values = async (...args: string[]) =>
    (await ok(["metrics", run, ...args, "-o", "jsonl"])).split("\n").filter((l) => l !== "").map((
      l,
    ) => JSON.parse(l).value);
  assert.deepEqual(await values("--tail", "3"), [-28, 29, -29]);
  assert.deepEqual(await values("loss", "--tail", "2"), [28, 29]);
  assert.deepEqual(await values("loss", "--tail", "2", "-f"), [28, 29]);
  assert.deepEqual(await values("loss", "--limit", "2"), [0, 1]);
  assert.deepEqual(await values("loss", "--tail", "3", "--limit", "2"), [27, 28]);
  assert.deepEqual(await values("loss", "--since", "57"), [29]);
  assert.equal((await values("loss", "--points")).length, 30);
  assert.equal((await values("--limit", "7")).length, 7);
  // A table has its newest 20 and a heading.
  assert.equal((await ok(["metrics", run, "loss", "--points"])).trimEnd().split("\n").length, 21);
  for (const args of [["los"], ["los", "--points"]]) {
    const { code, err } = await mosaic(["metrics", run, ...args]);
    assert.equal(code, 4);
    assert.match(err, /the run has no series "los"\. Did you mean loss\?/);
  }
  await ok(["delete", run]);
});

Deno.test("a run from submit to delete, by every verb that looks at it", async () => {
  const run = await submitted({ name: "whole", command: countingWorker({ steps: 30 }) });
  assert.equal(await ok(["wait", run]), `${run}  Succeeded\n`);

  const shown = JSON.parse(await ok(["show", "whole", "-o", "json"]));
  assert.deepEqual([shown.run_id, shown.outcome, shown.exit_code], [run, "succeeded", 0]);
  assert.equal(shown.telemetry.steps, 30);
  assert.deepEqual(shown.transitions.map((t: { to: string }) => t.to), [
    "INIT",
    "HANDSHAKE",
    "READY",
    "EXECUTING",
    "TERMINATED",
  ]);
  assert.match(await ok(["show", "@last"]), /^whole {2}Succeeded\n/);
  assert.equal(JSON.parse(await ok(["show", run, "--config"])).run_name, "whole");

  const listed = JSON.parse(await ok(["list", "-n", "whole", "-o", "json"]));
  assert.deepEqual(listed.map((r: { run_id: string }) => r.run_id), [run]);
  assert.match(await ok(["list", "--state", "ended"]), new RegExp(`^${run.slice(0, 10)}`, "m"));

  const steps = (await ok(["steps", run, "-o", "jsonl"])).trimEnd().split("\n").map((l) =>
    JSON.parse(l)
  );
  assert.deepEqual(steps.map((s) => s.seq), Array.from({ length: 30 }, (_, i) => i + 1));
  assert.equal(
    (await ok(["steps", run, "-o", "jsonl", "--since", "28"])).trimEnd().split("\n").length,
    2,
  );
  assert.equal((await ok(["steps", run, "-f", "-o", "jsonl"])).trimEnd().split("\n").length, 30);
  assert.match(await ok(["steps", run]), /^SEQ +EPISODE +STEP/);
  assert.equal(JSON.parse(await ok(["episodes", run, "-o", "json"])).length, 1);
  assert.match(await ok(["logs", run, "--tail", "1"]), /^\{.*\}\n$/);
  assert.equal(await ok(["logs", run, "--stderr"]), "");
  assert.match(await ok(["events", run]), /Ready → Running/);
  assert.match(await ok(["watch", run]), /Running → Succeeded/);
  assert.match(await ok(["metrics", run]), /^episode_reward /m);
  assert.match(await ok(["plot", run, "reward"]), /^whole {2}reward\n/);

  const dir = await Deno.makeTempDir();
  try {
    await ok(["export", run, "--format", "parquet", "--out", dir]);
    assert.equal(JSON.parse(Deno.readTextFileSync(`${dir}/run.json`)).run_id, run);
    assert.equal(
      await ok(["export", run, "--format", "jsonl", "-k", "steps", "--out", "-"]),
      await ok(["steps", run, "-o", "jsonl"]),
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }

  const again = await submitted({ name: "whole-2", command: countingWorker({ steps: 3 }) });
  await ok(["wait", again]);
  assert.match(await ok(["compare", run, again]), /^run_name +whole +whole-2$/m);
  const usage = JSON.parse(await ok(["du", "-o", "json"]));
  const of = usage.runs.find((r: { run_id: string }) => r.run_id === run);
  assert.deepEqual([of.name, of.state], ["whole", "TERMINATED"]);
  assert.ok(
    of.bytes > of.telemetry_bytes && of.telemetry_bytes > 0 && usage.total_bytes > of.bytes,
  );
  assert.match(
    await ok(["du", "-l", "1"]),
    /^ +SIZE +TELEMETRY +RUN +STATE +NAME\n.*\nand \d+ smaller ones/,
  );
  const pruned = JSON.parse(
    await ok(["prune", "--max-size", "0", "-n", "whole", "--dry-run", "-o", "json"]),
  );
  assert.deepEqual(pruned.runs.map((r: { because: string }) => r.because), ["size", "size"]);
  assert.match(
    await ok(["delete", run, again]),
    new RegExp(`^${run} {2}in the trash until .*\n${again} {2}in the`),
  );
  const hidden = await mosaic(["show", run]);
  assert.equal(hidden.code, 4);
  assert.match(hidden.err, new RegExp(`in the trash: mosaic restore ${run}`));
  const ids = async (...args: string[]) =>
    (await ok(["list", "-q", "-n", "whole", ...args])).split("\n").filter((id) => id !== "");
  assert.ok(!(await ids()).includes(run));
  assert.deepEqual((await ids("--trash")).sort(), [run, again].sort());
  assert.ok(JSON.parse(await ok(["du", "-o", "json"])).trash_bytes >= of.bytes);
  const counted = `SELECT run_id FROM run_steps WHERE run_id IN ('${run}', '${again}')`;
  assert.equal(await ok(["sql", "--state-dir", daemon.layout.stateDir, counted]), "No rows.\n");
  assert.match(await ok(["restore", "whole"]), new RegExp(`^${run} {2}restored \\(whole\\)\n$`));
  assert.deepEqual(await ids("--trash"), [again]);
  assert.match(await ok(["show", run]), /Succeeded/);
  assert.notEqual(await ok(["sql", "--state-dir", daemon.layout.stateDir, counted]), "No rows.\n");
  assert.equal(
    JSON.parse(await ok(["prune", "--trash", "-n", "whole", "-o", "json"])).runs[0].run_id,
    again,
  );
  assert.deepEqual(await ids("--trash"), []);
  assert.equal((await mosaic(["restore", again])).code, 4);
  assert.match(await ok(["delete", run]), /in the trash/);
  assert.match(
    await ok(["delete", "--forever", run]),
    new RegExp(`^${run} {2}deleted, .* freed\n$`),
  );
  assert.deepEqual(await ids("--trash"), []);
});

Deno.test("run --follow: events until the end, and the exit code of the outcome", async () => {
  const good = await mosaic([
    "run",
    "--follow",
    "--name",
    "good",
    "--",
    ...countingWorker({ steps: 2 }),
  ]);
  assert.equal(good.code, 0, good.err);
  assert.match(good.out, /^[0-9A-Z]{26}\n[^]*Running → Succeeded/);
  const bad = await mosaic(["run", "--follow", "--", "sh", "-c", "echo broken >&2; exit 7"]);
  assert.equal(bad.code, 1, bad.err);
  assert.match(bad.out, /Failed: exit_code_7/);
  assert.match(await ok(["show", "@last"]), /broken/);
  assert.equal((await mosaic(["wait", "@last"])).code, 1);
});

Deno.test("pause, resume, throttle, cancel, retry, reset", async () => {
  const run = await submitted({ command: SILENT });
  await until(async () => await state(run) === "EXECUTING", { what: "the run to be EXECUTING" });
  assert.match(await ok(["pause", run]), new RegExp(`^${run} {2}(Paused|is being paused)\n$`));
  await until(async () => await state(run) === "PAUSED", { what: "the run to be PAUSED" });
  assert.equal((await mosaic(["delete", run])).code, 6);
  await ok(["resume", run]);
  await until(async () => await state(run) === "EXECUTING", { what: "the run to go on" });
  assert.equal(await ok(["throttle", run, "--hz", "50"]), `${run}  is limited to 50 steps/s\n`);
  assert.equal(JSON.parse(await ok(["show", run, "-o", "json"])).max_rate_hz, 50);
  await ok(["reset", run]);
  await until(async () => JSON.parse(await ok(["show", run, "-o", "json"])).attempt === 2, {
    what: "attempt 2",
  });
  await until(async () => await state(run) === "EXECUTING", {
    what: "the second attempt to be EXECUTING",
  });
  // What is printed is how the run ended, also if another one was refused.
  const refused = await mosaic(["cancel", "none-such", run, "--wait", "-o", "json"]);
  assert.equal(refused.code, 4, refused.err);
  assert.deepEqual(
    JSON.parse(refused.out).map((one: Record<string, unknown>) => [one["state"], one["outcome"]]),
    [["CANCELLED", "canceled"]],
  );
  assert.equal(await state(run), "CANCELLED");
  assert.equal((await mosaic(["wait", run])).code, 5);
  assert.match(
    await ok(["retry", run]),
    new RegExp(`^${run} {2}Queued, attempt 3, from the beginning\n$`),
  );
  await until(async () => await state(run) === "EXECUTING", {
    what: "the third attempt to be EXECUTING",
  });
  assert.match(
    await ok(["cancel", run, "--wait"]),
    new RegExp(`^${run} {2}is being cancelled\n${run} {2}Cancelled[^\n]*\n$`),
  );
});

Deno.test("alerts: a loss that is NaN is an event and cancels the run; another only tells, through a daemon's restart", async () => {
  const prints =
    `echo '{"event":"metrics","payload":{"loss":0.5}}'; echo '{"event":"metrics","payload":{"loss":NaN}}'`;
  const alerts = [{ metric: "loss", when: "nan", then: "cancel" }, {
    name: "low",
    metric: "loss",
    when: "below",
    value: 1,
  }];
  const run = await submitted({
    command: ["/bin/sh", "-c", `${prints}; exec sleep 600`],
    metadata: { alerts },
  });
  await until(async () => await state(run) === "CANCELLED", { what: "the alert's cancellation" });
  assert.equal(JSON.parse(await ok(["show", run, "-o", "json"])).reason, "alert: loss is NaN");
  const told = (await ok(["events", run, "-k", "alert", "-o", "jsonl"])).trim().split("\n").map((
    line,
  ) => JSON.parse(line));
  assert.deepEqual(told.map(({ data }) => [data.alert, data.then]).sort(), [
    ["loss nan", "cancel"],
    ["low", "tell"],
  ]);
});

Deno.test("alerts: a run that a rule has paused says which; one that a person pauses afterwards says that", async () => {
  const alerts = [{ metric: "loss", when: "above", value: 1, then: "pause" }];
  const command = [
    "/bin/sh",
    "-c",
    `echo '{"event":"metrics","payload":{"loss":2}}'; exec sleep 600`,
  ];
  const run = await submitted({ command, metadata: { alerts } });
  await until(async () => await state(run) === "PAUSED", { what: "the alert's pause" });
  await ok(["resume", run]);
  await until(async () => await state(run) === "EXECUTING", { what: "the run to go on" });
  await ok(["pause", run]);
  await until(async () => await state(run) === "PAUSED", { what: "the pause" });
  const told = (await ok(["events", run, "-k", "paused", "-o", "jsonl"])).trim().split("\n");
  assert.deepEqual(told.map((line) => JSON.parse(line).data.reason), [
    "alert: loss is 2, above 1",
    "by request",
  ]);
  await ok(["cancel", run, "--wait"]);
});

Deno.test("tag, note, rename: what people write about a run is kept, shown, found, and told as events", async () => {
  const run = await submitted({ command: SILENT, metadata: { tags: ["old"] } });
  assert.equal(
    await ok(["tag", run, "paper", "baseline"]),
    `${run}  has the tags old, paper, baseline\n`,
  );
  assert.equal(
    await ok(["tag", run, "--remove", "old", "paper"]),
    `${run}  has the tags paper, baseline\n`,
  );
  await ok(["rename", run, "written-about"]);
  assert.match(await ok(["list", "--tag", "baseline"]), /written-about/);
  assert.equal(
    (await mosaic(["note", "written-about", "-"], "# Found\n\nit *diverges*\n")).code,
    0,
  );
  const shown = JSON.parse(await ok(["show", run, "-o", "json"]));
  assert.equal(shown.notes, "# Found\n\nit *diverges*");
  assert.match(await ok(["show", run]), /diverges/);
  assert.equal(await ok(["note", run, "--clear"]), `${run}  has no notes\n`);
  const edited = (await ok(["events", run, "-k", "edited", "-o", "jsonl"])).trim().split("\n").map((
    line,
  ) => JSON.parse(line));
  assert.deepEqual(edited.map(({ data }) => Object.keys(data)), [["tags"], ["tags"], ["name"], [
    "notes",
  ], ["notes"]]);
  // What changes nothing tells nothing; what is wrong names the field.
  await ok(["tag", run, "paper"]);
  assert.equal(
    (await ok(["events", run, "-k", "edited", "-o", "jsonl"])).trim().split("\n").length,
    5,
  );
  const wrong = await mosaic(["rename", run, "x".repeat(121)]);
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /name is "x+"; it must have 1 to 120 characters/);
  assert.equal((await mosaic(["note", run])).code, 2);
  await ok(["cancel", run, "--wait"]);
});

Deno.test("a wrong config, an unknown run and an unreachable daemon have exit codes of their own", async () => {
  const wrong = await mosaic(["submit", "-"], `{"run_name":""}`);
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /run_name must be/);
  const unknown = await mosaic(["show", "no-such-run"]);
  assert.equal(unknown.code, 4);
  assert.match(await ok(["status"]), new RegExp(`^listens on +${daemon.address}$`, "m"));
  assert.equal(JSON.parse(await ok(["status", "-o", "json"])).pid, daemon.pid);
});

Deno.test("the program: a reader that goes away ends it quietly; Ctrl-C leaves the run alone", async () => {
  const run = await submitted({ command: countingWorker({ steps: 3000 }) });
  await ok(["wait", run]);
  // 3000 records are more than a pipe holds: the program is still writing when head has gone.
  const piped = await new Deno.Command("/bin/sh", {
    args: [
      ...["-c", '{ "$@"; echo "exit $?" >&2; } | head -1', "sh"],
      ...[...PROGRAM, "steps", run, "-o", "jsonl", "--target", daemon.target],
    ],
  }).output();
  assert.equal(new TextDecoder().decode(piped.stderr), "exit 0\n");
  assert.match(new TextDecoder().decode(piped.stdout), /^\{"seq":1,.*\}\n$/);

  const live = await submitted({ command: SILENT });
  await using _ended = {
    [Symbol.asyncDispose]: () => ok(["cancel", live, "--wait"]).then(() => {}),
  };
  const follower = new Deno.Command(PROGRAM[0]!, {
    args: [...PROGRAM.slice(1), "events", live, "-f", "--target", daemon.target],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const reader = follower.stdout.getReader();
  const decoder = new TextDecoder();
  for (let said = ""; !said.includes("Running");) {
    const { value, done } = await reader.read();
    assert.ok(!done, "the follower ended before the run was EXECUTING");
    said += decoder.decode(value, { stream: true });
  }
  signalProcess(processRef(follower.pid)!, "SIGINT");
  assert.equal((await follower.status).code, 130);
  await reader.cancel();
  await follower.stderr.cancel();
  assert.equal(await state(live), "EXECUTING");
});
