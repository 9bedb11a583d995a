/**
 * Sweeps of a real daemon: through its death, from the command line, and with early stopping of
 * unmodified programs.
 */
import { strict as assert } from "node:assert";
import { Mosaic, type Sweep } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { checked } from "../../src/sweeps/spec.ts";
import type { SweepJson } from "../../src/sweeps/results/sweep_json.ts";
import { gridAxis, partFrom, wholeAxis } from "../../src/sweeps/words.ts";
import { configOf } from "../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

const hasPython =
  new Deno.Command("/bin/sh", { args: ["-c", "command -v python3"], stdout: "null" }).outputSync()
    .success;

async function mosaic(
  daemon: TestDaemon,
  ...args: string[]
): Promise<{ code: number; out: string; err: string }> {
  const [program, ...first] = [...PROGRAM, ...args];
  const { code, stdout, stderr } = await new Deno.Command(program!, {
    args: first,
    env: { MOSAIC_STATE_DIR: daemon.stateDir, NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

const getSweep = (daemon: TestDaemon, sweep: string): Promise<Sweep> =>
  daemon.client.unary(Mosaic.method.getSweep, { sweep, trials: 100 });

/** Also across a restart. */
async function untilState(daemon: TestDaemon, name: string, state: string): Promise<SweepJson> {
  let last: Sweep | undefined;
  const found = await until(async () => {
    try {
      last = await getSweep(daemon, name);
      return last.state === state ? last : undefined;
    } catch (error) {
      if (error instanceof MosaicError && error.code === "unavailable") return undefined;
      throw error;
    }
  }, { what: `sweep ${name} to be ${state}`, timeoutMs: 120_000, state: () => last });
  return JSON.parse(found.json);
}

Deno.test("crash: a daemon that is killed again and again makes each of 16 × 3 trials once, with its own parameters", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "4"] });
  const lines = `${daemon.stateDir}/lines.txt`;
  const line = 'echo "$0 $1 $MOSAIC_TRIAL" >> "$2"; echo "{\\"score\\": $0, \\"step\\": 1}"';
  const config = JSON.parse(configOf({ command: ["/bin/sh", "-c", line, "{k}", "{seed}", lines] }));
  const specJson = JSON.stringify(checked({
    name: "crash",
    config,
    pass: "templates",
    parts: [partFrom({ axes: [gridAxis("k=1..16")], space: [], seeds: wholeAxis("seed", "1..3") })],
    budget: {},
    max_parallel: 4,
    metric: { name: "score", goal: "max" },
  }));
  const sweepId = "01K9ABCDEFGHJKMNPQRSTVWXYZ";
  await daemon.client.unary(Mosaic.method.createSweep, { specJson, sweepId });
  // The caller did not get the answer and asks again.
  await daemon.client.unary(Mosaic.method.createSweep, { specJson, sweepId });
  for (const made of [3, 20, 40]) {
    await until(async () => (await getSweep(daemon, "crash")).made >= made, {
      what: `${made} trials`,
    });
    await daemon.restart();
  }
  const { states, detail } = await untilState(daemon, "crash", "finished");
  assert.deepEqual(states, { terminated: 48 });
  const ran = Deno.readTextFileSync(lines).trim().split("\n");
  const wanted = detail!.trials.map(({ parameters: { k, seed }, trial }) =>
    `${k} ${seed} ${trial}`
  );
  assert.deepEqual(ran.sort(), wanted.sort());
  assert.equal(new Set(ran).size, 48);
  assert.equal(detail!.winner?.parameters.k, 16);
  const { runs } = await daemon.client.unary(Mosaic.method.listRuns, {
    where: "sweep = crash and k = 16",
    limit: 100,
  });
  assert.equal(runs.length, 3);
  assert.ok(runs.every(({ tags }) => tags.includes("sweep:crash")));
});

Deno.test("command line: dry run, follow, show, list, early stopping of a program that knows nothing of it", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "4"] });
  // A good trial ends by itself; a bad one would go on for an hour.
  const script = `echo '{"score": '$1', "step": 10}'; [ $1 -ge 5 ] && exit 0; sleep 3600`;
  const sweep = [
    "--name",
    "s",
    "--grid",
    "k=9,2,12",
    "--metric",
    "score:max",
    "--stop",
    "asha:max=100,min=10",
    "--pass",
    "flags",
  ];
  const command = ["--", "/bin/sh", "-c", script, "x", "{k}"];
  const dry = await mosaic(daemon, "sweep", ...sweep, "--dry-run", ...command);
  assert.equal(dry.code, 0, dry.err);
  assert.deepEqual(dry.out.trim().split("\n").map((line) => line.slice(-3)), ["x 9", "x 2", " 12"]);
  const followed = await mosaic(
    daemon,
    "sweep",
    ...sweep,
    "--max-parallel",
    "1",
    "--follow",
    ...command,
  );
  assert.equal(followed.code, 0, followed.err);
  assert.match(followed.out, /^s\ns {2}finished: 3 of 3 made, 2 succeeded, 1 pruned$/m);
  assert.match(followed.out, /^best {3}12, trial 2 .*: k=12$/m);
  assert.match(followed.out, /trial 1 at 10: rung 1 of 3: 2 is 2nd of 2, 1 goes on/);
  const csv = await mosaic(daemon, "sweep", "show", "s", "-o", "csv", "--table", "trials");
  const rows = csv.out.trim().split("\n").map((line) => line.split(","));
  assert.deepEqual(rows[0], [
    "trial",
    "run_id",
    "state",
    "k",
    "value",
    "steps",
    "seconds",
    "started_at",
    "finished_at",
    "reason",
  ]);
  assert.deepEqual(rows.slice(1).map((row) => row[2]), ["terminated", "pruned", "terminated"]);
  const said = await mosaic(daemon, "sweep", "show", "s", "--statement");
  assert.match(
    said.out,
    /^Of 3 points, k=12 has the best score .*: 12 in one trial, without an interval\. Next is k=9/,
  );
  assert.match(
    said.out,
    /Of 3 trials, 2 ran to their end; discarded: 1 stopped early\. .* saved about 0 steps/,
  );
  const extended = await mosaic(
    daemon,
    "sweep",
    "extend",
    "s",
    "--winner",
    "--seeds",
    "1..3",
    "-o",
    "json",
  );
  assert.equal(extended.code, 0, extended.err);
  const more = await untilState(daemon, "s", "finished");
  assert.deepEqual(
    more.detail!.trials.map(({ parameters }) => parameters).slice(0, 3),
    [3, 2, 1].map((seed) => ({ k: 12, seed })),
  );
  assert.deepEqual([more.detail!.winner!.values, more.detail!.winner!.iqm], [4, {
    middle: 12,
    low: 12,
    high: 12,
  }]);
  const mixed = await mosaic(daemon, "sweep", "extend", "s", "--winner", "--random", "3");
  assert.equal(mixed.code, 2, mixed.err);
  assert.match(mixed.err, /differ in their seeds only/);
  const listed = await mosaic(daemon, "sweep", "list");
  assert.match(listed.out, /^s +finished +6\/6/m);
  const again = await mosaic(daemon, "sweep", ...sweep, ...command);
  assert.equal(again.code, 6, again.err);
  assert.match(again.err, /there is a sweep "s" already/);
  const missing = await mosaic(daemon, "sweep", "show", "z");
  assert.equal(missing.code, 4);
});

Deno.test("hold: programs that know nothing of it wait at a rung, paused, across a restart, and go on or are stopped", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "8"] });
  const go = `${daemon.stateDir}/go`;
  // A trial that is not held goes on until the test lets it end.
  const script =
    `echo '{"score": '$1', "step": 10}'; while [ $1 -lt 9 ] && [ ! -e ${go} ]; do sleep 0.05; done; ` +
    `echo '{"score": '$1', "step": 100}'`;
  const sweep = [
    "--name",
    "h",
    "--grid",
    "k=9,8,1,2,3,4",
    "--metric",
    "score:max",
    "--stop",
    "asha:max=30,min=10,hold=4",
  ];
  const begun = await mosaic(
    daemon,
    "sweep",
    ...sweep,
    "--max-parallel",
    "1",
    "--",
    "/bin/sh",
    "-c",
    script,
    "x",
    "{k}",
  );
  assert.equal(begun.code, 0, begun.err);
  const trials = async () =>
    JSON.parse((await getSweep(daemon, "h")).json).detail.trials.toReversed();
  const stateOf = async (trial: number) => (await trials())[trial]?.state;
  await until(async () => await stateOf(3) === "paused", {
    what: "trial 3 to wait",
    state: trials,
  });
  assert.equal(await stateOf(1), "paused");
  await daemon.restart();
  await until(async () => await stateOf(1) === "executing", {
    what: "trial 1 to go on",
    state: trials,
  });
  await until(async () => await stateOf(5) === "paused", {
    what: "the last trial to wait",
    state: trials,
  });
  Deno.writeTextFileSync(go, "");
  const { states } = await untilState(daemon, "h", "finished");
  assert.deepEqual(states, { pruned: 4, terminated: 2 });
  const [, { run_id: run, value, steps }] = await trials();
  assert.deepEqual([value, steps], [8, 100]);
  const events = await mosaic(daemon, "events", run, "-k", "rung", "-o", "jsonl");
  assert.deepEqual(events.out.trim().split("\n").map((line) => JSON.parse(line).data.reason), [
    "rung 1 of 1: 8 is 2nd of 2, 1 goes on",
    "rung 1 of 1: 8 is 2nd of 6, 2 go on",
  ]);
  const retried = await mosaic(daemon, "sweep", "retry", "h", "--trials", "2");
  assert.equal(retried.code, 0, retried.err);
  assert.deepEqual((await untilState(daemon, "h", "finished")).states, {
    pruned: 3,
    terminated: 3,
  });
});

Deno.test("pbt: the copy of a checkpoint with changed parameters goes on as another trial, across a restart", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "8"] });
  const go = `${daemon.stateDir}/go`;
  // Its checkpoint is a directory, which it replaces at once when it goes on.
  const script =
    `n=0; [ -z "$MOSAIC_RESUME_FROM" ] || n=$(cat "$MOSAIC_RESUME_FROM/n"); d=$MOSAIC_CHECKPOINT_DIR/c; mkdir -p $d
    [ $1 != 1 ] || while [ ! -e ${go}-last ]; do sleep 0.05; done
    while [ $n -lt 60 ]; do
      n=$((n + 10)); echo $n > $d/n
      echo '{"event":"checkpoint_saved","payload":{"path":"'$d'"}}'; echo '{"score": '$1', "step": '$n'}'
      [ $n -gt 10 ] || while [ ! -e ${go} ]; do sleep 0.05; done
    done
    echo "$1 $n $MOSAIC_TRIAL \${MOSAIC_RESUME_FROM#$MOSAIC_RUN_DIR}" >> ${daemon.stateDir}/ended`;
  const sweep = [
    "--name",
    "p",
    "--grid",
    "k=9,8,7,1",
    "--metric",
    "score:max",
    "--stop",
    "pbt:max=20,min=10",
  ];
  const begun = await mosaic(
    daemon,
    "sweep",
    ...sweep,
    "--max-parallel",
    "4",
    "--",
    "/bin/sh",
    "-c",
    script,
    "x",
    "{k}",
  );
  assert.equal(begun.code, 0, begun.err);
  const shown = async () => JSON.parse((await getSweep(daemon, "p")).json) as SweepJson;
  await until(async () => {
    const runs = (await shown()).detail!.trials.filter(({ trial }) => trial < 3).map(({ run_id }) =>
      run_id!
    );
    const events = await Promise.all(
      runs.map((run) => mosaic(daemon, "events", run, "-k", "rung", "-o", "jsonl")),
    );
    return events.length === 3 && events.every(({ out }) => out.includes("rung 1 of 1"));
  }, { what: "the others to be judged", state: shown });
  Deno.writeTextFileSync(`${go}-last`, "");
  await until(async () => (await shown()).made === 5, {
    what: "a trial that goes on from another",
    state: shown,
  });
  await daemon.restart();
  Deno.writeTextFileSync(go, "");
  const { states, detail } = await untilState(daemon, "p", "finished");
  assert.deepEqual(states, { pruned: 1, terminated: 4 });
  const { trial: worst, reason } = detail!.stopped[0]!;
  assert.match(reason, /is 4th of 4, the last gives way; trial 4 goes on from trial 0 with k=/);
  const next = detail!.trials.find(({ trial }) => trial === 4)!;
  const ended = Deno.readTextFileSync(`${daemon.stateDir}/ended`).trim().split("\n").map((line) =>
    line.split(" ")
  );
  assert.deepEqual(
    ended.find(([, , trial]) => trial === "4"),
    [String(next.parameters.k), "60", "4", "/checkpoints/inherited/c"],
  );
  assert.ok(!ended.some(([, , trial]) => trial === String(worst)));
});

Deno.test("command line: a sweep whose trials can never run is refused as a whole, with the reason of a run", async () => {
  await using daemon = await TestDaemon.start();
  const refused = await mosaic(
    daemon,
    "sweep",
    "--grid",
    "a=1",
    "--gpus",
    "2",
    "--",
    "/bin/sh",
    "{a}",
  );
  assert.equal(refused.code, 7, refused.err);
  assert.match(refused.err, /Insufficient GPU slots/);
  const file = `${daemon.stateDir}/sweep.yaml`;
  Deno.writeTextFileSync(file, "command: [/bin/sh, '{a}']\n\ngrid:\n  a: {}\n");
  const wrong = await mosaic(daemon, "sweep", file);
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /sweep\.yaml:4: grid\.a: must be a list/);
  assert.equal((await mosaic(daemon, "sweep", "list")).out, "");
});

/** What a program answers to a message; undefined: nothing. */
type Answer = (
  message: Record<string, unknown>,
  told: readonly Record<string, unknown>[],
) => string | undefined;

/** Halves the distance to 8 and keeps nothing in memory: what it is told is enough. */
const halving: Answer = (message, told) => {
  if (message.type !== "ask") return undefined;
  const known = told.filter(({ type }) => type === "tell").length;
  return `{"parameters": {"x": ${8 - 8 / 2 ** known}}}`;
};

async function optimize(
  daemon: TestDaemon,
  args: string[],
  diesAtAsk = Infinity,
  answer = halving,
) {
  const [program, ...first] = [...PROGRAM, "sweep", "--optimizer", ...args];
  const child = new Deno.Command(program!, {
    args: first,
    env: { MOSAIC_STATE_DIR: daemon.stateDir, NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  const errors = new Response(child.stderr).text();
  const told: Record<string, unknown>[] = [];
  let left = "";
  let asked = 0;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (left + text).split("\n");
    left = lines.pop()!;
    for (const message of lines.map((line) => JSON.parse(line))) {
      told.push(message);
      if (message.type === "ask" && ++asked >= diesAtAsk) {
        await writer.close();
        continue;
      }
      const said = answer(message, told);
      if (said !== undefined) await writer.write(new TextEncoder().encode(`${said}\n`));
    }
  }
  const { code } = await child.status;
  await writer.close().catch(() => {});
  return { code, told, err: await errors };
}

Deno.test("optimizer: it is told every trial and chooses the next; after its death the same command goes on", async () => {
  await using daemon = await TestDaemon.start();
  const run = ["--name", "o", "--metric", "score:max", "--budget", "4runs"];
  const command = ["--", "/bin/sh", "-c", `echo '{"score": '$1', "step": 1}'`, "x", "{x}"];
  const missing = await mosaic(daemon, "sweep", "--optimizer", "--name", "o", ...command);
  assert.equal(missing.code, 2);
  assert.match(missing.err, /--optimizer needs --metric/);
  const died = await optimize(daemon, [...run, ...command], 3);
  assert.equal(died.code, 3, died.err);
  assert.match(died.err, /the optimizer has ended without an answer/);
  const { code, told, err } = await optimize(daemon, [...run, ...command]);
  assert.equal(code, 0, err);
  assert.deepEqual(told.map(({ type, trial }) => trial === undefined ? type : `${type} ${trial}`), [
    ...["begin", "tell 0", "tell 1", "ask 2", "tell 2", "ask 3", "tell 3", "end"],
  ]);
  assert.deepEqual(told[0], {
    type: "begin",
    protocol: "mosaic-optimizer/1",
    sweep: "o",
    metric: "score",
    goal: "max",
    runs: 4,
  });
  assert.deepEqual(told.filter(({ type }) => type === "tell").map(({ value }) => value), [
    0,
    4,
    6,
    7,
  ]);
  assert.deepEqual((told.at(-1)!.best as { parameters: unknown }).parameters, { x: 7 });
  const { states } = await untilState(daemon, "o", "finished");
  assert.deepEqual(states, { terminated: 4 });
});

Deno.test("optimizer: one that says garbage, leaves the space or says nothing ends with the reason; its trials go on, and so does the next", async () => {
  await using daemon = await TestDaemon.start();
  const run = [
    "--name",
    "o",
    "--metric",
    "score:max",
    "--budget",
    "3runs",
    "--space",
    "x=uniform(0,8)",
  ];
  const command = ["--", "/bin/sh", "-c", `echo '{"score": '$1', "step": 1}'`, "x", "{x}"];
  const once = (answer: string | undefined): Answer => (message, told) =>
    message.type !== "ask" ? undefined : message.trial === 1 ? answer : halving(message, told);
  for (
    const [answer, code, message] of [
      ["hello", 2, /the optimizer's answer is "hello"/],
      ["[1]", 2, /the optimizer's answer is "\[1\]"/],
      [`{"parameters": 5}`, 2, /the optimizer's answer is/],
      [
        `{"parameters": {"x": 9}}`,
        2,
        /outside of the space: x is 9; it must be a number from 0 to 8/,
      ],
      [`{"parameters": {"y": 1}}`, 2, /outside of the space: there is no parameter "y"/],
      [`{"parameters": {}}`, 2, /outside of the space: x is missing/],
      [undefined, 3, /the optimizer has not answered for 0\.3 s/],
    ] as const
  ) {
    const failed = await optimize(
      daemon,
      [...run, "--optimizer-timeout", "300ms", ...command],
      Infinity,
      once(answer),
    );
    assert.equal(failed.code, code, failed.err);
    assert.match(failed.err, message);
  }
  const { code, told, err } = await optimize(daemon, [...run, ...command]);
  assert.equal(code, 0, err);
  assert.deepEqual(told[0]!.space, [{ name: "x", type: "uniform", low: 0, high: 8 }]);
  assert.deepEqual((await untilState(daemon, "o", "finished")).states, { terminated: 3 });
});

Deno.test("optimizer: it is told values at rungs and ends trials, each decision with its reason; an earlier start's are told again", async () => {
  await using daemon = await TestDaemon.start();
  // A bad trial would go on for an hour.
  const script = `echo '{"score": '$1', "step": 10}'; [ $1 = 9 ] || sleep 3600`;
  const args = [
    "--name",
    "r",
    "--metric",
    "score:max",
    "--budget",
    "2runs",
    "--stop",
    "optimizer:min=10,max=30",
  ];
  const command = ["--grid", "seed=7", "--", "/bin/sh", "-c", script, "x", "{x}", "{seed}"];
  const pruning = (prune: string): Answer => ({ type, trial, asks }) => {
    if (type === "ask") return `{"parameters": {"x": ${trial === 0 ? 1 : 9}}}`;
    if (type !== "report" || asks !== true) return undefined;
    return trial === 0 ? prune : `{"prune": false}`;
  };
  const garbage = await optimize(
    daemon,
    [...args, ...command],
    Infinity,
    pruning(`{"prune": "yes"}`),
  );
  assert.equal(garbage.code, 2);
  assert.match(garbage.err, /the optimizer's answer is .*prune/);
  const { code, told, err } = await optimize(
    daemon,
    [...args, ...command],
    Infinity,
    pruning(`{"prune": true}`),
  );
  assert.equal(code, 0, err);
  const reports = told.filter(({ type, trial }) => type === "report" && trial === 0);
  assert.deepEqual(reports, [
    { type: "report", trial: 0, rung: 1, step: 10, value: 1, parameters: { x: 1 }, asks: true },
  ]);
  const { states, detail } = await untilState(daemon, "r", "finished");
  assert.deepEqual(states, { pruned: 1, terminated: 1 });
  assert.equal(detail!.stopped[0]!.reason, "rung 1 of 2: 1, and the optimizer stops it");
  const nobody = await mosaic(daemon, "sweep", ...args, "--grid", "x=1", "--", "/bin/echo", "{x}");
  assert.equal(nobody.code, 2);
  assert.match(nobody.err, /there is no program that decides/);
});

Deno.test({
  name:
    "optimizer: a sweep file of Weights & Biases with method: bayes and early_terminate is taken as it is by a driver",
  ignore: !hasPython,
  fn: async () => {
    await using daemon = await TestDaemon.start({ args: ["--max-runs", "4"] });
    const bin = `${daemon.stateDir}/bin`;
    Deno.mkdirSync(bin);
    const words = PROGRAM.map((word) => `'${word}'`).join(" ");
    Deno.writeTextFileSync(`${bin}/mosaic`, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
    const program = `${daemon.stateDir}/train.sh`;
    const body = `echo "{\\"val\\": $(echo $1 $2 | tr -dc 0-9 | cut -c 1-6), \\"step\\": 1}"`;
    Deno.writeTextFileSync(program, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    const file = `${daemon.stateDir}/sweep.yaml`;
    Deno.writeTextFileSync(
      file,
      `program: ${program}
method: bayes
run_cap: 12
metric: {name: val, goal: minimize}
early_terminate: {type: hyperband, min_iter: 3}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-5, max: 1e-2}
  layers: {values: [1, 2, 3]}
  epochs: {value: 5}
command: ["\${program}", "\${args}"]
`,
    );
    const driver = new URL("../../examples/evolution_sweep.py", import.meta.url).pathname;
    const { code, stdout, stderr } = await new Deno.Command("python3", {
      args: [driver, "--name", "b", file],
      env: {
        MOSAIC_STATE_DIR: daemon.stateDir,
        NO_COLOR: "1",
        PATH: `${bin}:${Deno.env.get("PATH")}`,
      },
      stdin: "null",
    }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
    assert.match(new TextDecoder().decode(stdout), /^best: \{"trial": \d+, /);
    const { states, detail, parameters } = await untilState(daemon, "b", "finished");
    assert.deepEqual(states, { terminated: 12 });
    assert.deepEqual(parameters.sort(), ["epochs", "layers", "lr"]);
    for (const { parameters: { lr, layers, epochs } } of detail!.trials) {
      assert.ok(
        Number(lr) >= 1e-5 && Number(lr) <= 1e-2 && [1, 2, 3].includes(Number(layers)) &&
          epochs === 5,
      );
    }
    assert.ok(new Set(detail!.trials.map(({ parameters: { lr } }) => lr)).size > 6);
    const alone = await mosaic(daemon, "sweep", file);
    assert.equal(alone.code, 2);
    assert.match(alone.err, /sweep\.yaml:2: method: "bayes" needs an optimizer/);
  },
});
