/**
 * The verbs on a daemon's answers made up by the test; tests/cli/daemon_test.ts has them on a real
 * one.
 */
import { strict as assert } from "node:assert";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { runCli } from "../../src/cli/cli.ts";
import { EXIT } from "../../src/cli/link/exit.ts";
import { overview } from "../../src/cli/overview.ts";
import { ReaderGone } from "../../src/cli/link/output.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { daemonOptions } from "../../src/daemon/start/options.ts";
import { HIDDEN } from "../../src/base/text/secrets.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { type Answers, fakeRun, fakeWorld, ID_A, ID_B, NOW } from "./fakes.ts";
import { stateWord } from "../../src/runs/fields/lifecycle_states.ts";

async function run(args: string[], answers: Answers = {}, overrides = {}) {
  const world = fakeWorld(answers, overrides);
  const code = await runCli(args, world);
  return { code, out: world.stdout(), err: world.stderr(), world };
}

const text = (t: string) => new TextEncoder().encode(t);

Deno.test("mosaic: help, version, and what was meant by a misspelt command", async () => {
  assert.deepEqual((await run(["--help"])).out, overview());
  assert.match((await run(["--version"])).out, /^mosaic \d+\.\d+\.\d+/);
  assert.equal((await run([])).code, EXIT.usage);
  const misspelt = await run(["lsit"]);
  assert.equal(misspelt.code, EXIT.usage);
  assert.match(misspelt.err, /unknown command "lsit"\. Did you mean list/);
  assert.equal(misspelt.out, "");
});

Deno.test("mosaic: every verb has help with examples, and says its exit code for wrong arguments", async () => {
  for (const verb of VERBS.filter((v) => v.load !== undefined)) {
    const help = await run([verb.name, "--help"]);
    assert.equal(help.code, 0, verb.name);
    assert.match(help.out, new RegExp(`^Usage: mosaic ${verb.name} `));
    assert.match(help.out, /\nExamples:\n {2}\$ /, verb.name);
    const wrong = await run([verb.name, "--no-such-option"]);
    assert.equal(wrong.code, EXIT.usage, verb.name);
    assert.match(wrong.err, /^mosaic: .*'--/m);
    const said = `mosaic: "mosaic ${verb.name}" is now "mosaic ${verb.now}"`;
    assert.equal(
      wrong.err.split("\n").includes(said),
      verb.now !== undefined,
      "an older word says so",
    );
    assert.ok(!help.out.includes("is now"), verb.name);
    assert.equal(wrong.out, "");
  }
});

Deno.test("mosaic: an option is not taken for the value of the option before it", async () => {
  const refused: [string[], RegExp][] = [
    [
      ["list", "--state-dir", "--json"],
      /--state-dir <dir>' argument '--json' is invalid.* write --state-dir=--json\./,
    ],
    [["run", "-n", "--", "true"], /--name <name>' argument '--' is invalid/],
    [["list", "--tag", "a", "--tag", "--sort"], /write --tag=--sort/],
  ];
  for (const [args, message] of refused) {
    const { code, err, world } = await run(args);
    assert.deepEqual([code, world.connections], [EXIT.usage, 0], args.join(" "));
    assert.match(err, message);
  }
  assert.throws(() => daemonOptions(["--state-dir", "--replace"], () => undefined), {
    message: /write --state-dir=--replace\./,
  });
  // The value of a tag, and options of the program that is run.
  assert.equal((await run(["list", "--tag=--sort"], { ListRuns: () => ({}) })).out, "No runs.\n");
  const { code, err } = await run(["run", "--dry-run", "true", "--name", "--gpus"]);
  assert.equal(code, 0, err);
});

Deno.test("mosaic: the daemon's codes are exit codes, its message and hint are two lines on stderr", async () => {
  for (
    const [code, exit] of [
      ["not_found", 4],
      ["unavailable", 3],
      ["failed_precondition", 6],
      ["resource_exhausted", 7],
      ["invalid_argument", 2],
      ["permission_denied", 8],
      ["internal", 70],
    ] as const
  ) {
    const failing = await run(["pause", "x"], {
      PauseRun: () => {
        throw new MosaicError(code, "that went wrong", { hint: "Do this." });
      },
    });
    assert.equal(failing.code, exit, code);
    assert.equal(failing.err, "mosaic: that went wrong\n  Do this.\n");
    assert.equal(failing.out, "");
  }
});

Deno.test("mosaic: a reader of stdout that has gone ends a verb quietly", async () => {
  const out = {
    write: () => {
      throw new ReaderGone();
    },
    writeBytes: () => {},
    move: () => {},
  };
  const { code, err } = await run(["list"], { ListRuns: () => ({ runs: [fakeRun()] }) }, { out });
  assert.deepEqual([code, err], [0, ""]);
});

const TWO = {
  ListRuns: () => ({
    runs: [
      fakeRun(),
      fakeRun({
        runId: ID_B,
        name: "evil\x1b[2J",
        state: "INIT",
        gpuSlots: [],
        queuePosition: 1,
        waitingFor: "2 GPUs",
        startedAt: undefined,
        telemetry: {},
        maxSteps: 0n,
      }),
    ],
  }),
};

Deno.test("list: a table for people, with ids as short as can be and nothing a terminal would obey", async () => {
  assert.equal(
    (await run(["list"], TWO)).out,
    [
      "RUN         NAME      STATE    GPUS     ELAPSED  STEPS  RATE  REWARD  NOTE",
      "01K9ABCDEF  cart-1    Running  0,1       3m 07s  6,200  20/s    77.5  ██████▎     62% 6.2k/10k ETA 3m 10s",
      "01K9ZZZZZZ  evil␛[2J  Queued   wants 2        -      0     -       -  #1 in the queue, waits for 2 GPUs",
      "",
    ].join("\n"),
  );
  assert.equal((await run(["list"], { ListRuns: () => ({}) })).out, "No runs.\n");
});

Deno.test("list: csv, jsonl, ids only, chosen columns, sorting", async () => {
  assert.equal((await run(["list", "-q"], TWO)).out, `${ID_A}\n${ID_B}\n`);
  const csv = (await run(["list", "-o", "csv", "-c", "run,steps,max_steps"], TWO)).out;
  assert.equal(csv, `run,steps,max_steps\n${ID_A},6200,10000\n${ID_B},0,\n`);
  const lines = (await run(["list", "-o", "jsonl"], TWO)).out.trimEnd().split("\n").map((l) =>
    JSON.parse(l)
  );
  assert.deepEqual(lines.map((l) => l.run_id), [ID_A, ID_B]);
  const sorts: unknown[] = [];
  for (const sort of ["steps", "-run", "-last-record", "-param.lr"]) {
    await run(["list", "--sort", sort], {
      ...TWO,
      ListRuns: (request) => (sorts.push(request.sort), {}),
    });
  }
  assert.deepEqual(sorts, ["steps", "-run_id", "-last_record", "-param.lr"]);
  assert.match(
    (await run(["list", "--sort", "stepz"], TWO)).err,
    /no column "stepz"\. Did you mean steps/,
  );
  const wrong = await run(["list", "-c", "stepz"], TWO);
  assert.equal(wrong.code, EXIT.usage);
  assert.match(wrong.err, /no column "stepz"\. Did you mean steps/);
});

Deno.test("list: filters go to the daemon, and all pages are read", async () => {
  const asked: unknown[] = [];
  const { out } = await run([
    "list",
    "-q",
    "-s",
    "live,failed",
    "-n",
    "ca",
    "-t",
    "a",
    "-t",
    "b",
    "--since",
    "1h",
  ], {
    ListRuns: ({ states, nameContains, tags, pageToken, submittedSince }) => {
      asked.push({ states, nameContains, tags, pageToken, since: Number(submittedSince.seconds) });
      return pageToken === ""
        ? { runs: [fakeRun()], nextPageToken: "p" }
        : { runs: [fakeRun({ runId: ID_B })] };
    },
  });
  const query = {
    states: ["INIT", "HANDSHAKE", "READY", "EXECUTING", "PAUSED", "FAULTED"],
    nameContains: "ca",
    tags: ["a", "b"],
    since: Date.parse("2025-11-22T13:00:00Z") / 1000,
  };
  assert.deepEqual(asked, [{ ...query, pageToken: "" }, { ...query, pageToken: "p" }]);
  assert.equal(out, `${ID_A}\n${ID_B}\n`);
});

Deno.test("show: notes keep their lines; artifacts are in the order of the numbers in their names", async () => {
  const shown = async (notes: string) =>
    (await run(["show", "cart-1"], {
      GetRun: () =>
        fakeRun({ notes, resumeFrom: "/state/trainer/runs/R/checkpoints/step_5120.pt" }),
      ListArtifacts: () => ({
        artifacts: ["checkpoints/step_10240.pt", "checkpoints/step_5120.pt", "checkpoints/best.pt"]
          .map((path) => ({ path, kind: "checkpoint" })),
      }),
      GetHost: () => ({}),
      StreamEvents: () => [],
    })).out;
  const several = await shown("# Baseline\n- one\x07\n\n- two\n");
  assert.match(several, /\nNotes\n {2}# Baseline\n {2}- one␇\n\n {2}- two\n\nTelemetry\n/);
  assert.doesNotMatch(several, /^notes/m);
  assert.match(several, /best\.pt\n.*step_5120\.pt\n.*step_10240\.pt\n/);
  assert.match(several, /^resumed from +checkpoints\/step_5120\.pt$/m);
  assert.match(await shown("diverges\n"), /^notes +diverges/m);
});

Deno.test("show: says what is known and leaves out what is not", async () => {
  const { out } = await run(["show", "cart-1"], {
    GetRun: () =>
      fakeRun({
        state: "FAULTED",
        outcome: "failed",
        reason: "exit_code_1",
        hint: "Install it.",
        exitCode: 1,
        stderrTail: ["ModuleNotFoundError: no\x07pe"],
        transitions: [{ seq: 1n, toState: "INIT", event: "submit", attempt: 1 }],
      }),
    ListArtifacts: () => ({
      artifacts: [{ path: "checkpoints/a", kind: "checkpoint", bytes: 2048n, step: 10n }],
    }),
    GetHost: () => ({}),
    StreamEvents: () => [
      {
        seq: 1n,
        kind: "source_problem",
        dataJson: '{"problem":"left_out","detail":"/w/metrics.csv is not read: why"}',
      },
      { seq: 2n, kind: "source_problem", dataJson: '{"problem":"torn","detail":"a torn line"}' },
    ],
  });
  for (
    const line of [
      /^cart-1 {2}Failed$/m,
      /^reason +exit_code_1$/m,
      /^hint +Install it\.$/m,
      /^ {2}violations +4 × step: reward$/m,
      /^ {2}checkpoint +2\.0 KiB +step 10 +checkpoints\/a$/m,
      /^Not read\n {2}\/w\/metrics.csv is not read: why\n\n/m,
      /^ {2}ModuleNotFoundError: no␇pe$/m,
    ]
  ) assert.match(out, line);
  assert.doesNotMatch(out, /priority|rate limit/);
});

Deno.test("show: a run that asks for no GPU on a host with some, and for no limits", async () => {
  const configs = [{ resources: { gpus: { requested: 0 } } }, {
    resources: { cpus: 2, gpus: { requested: 0 } },
  }];
  const shown = await Promise.all(configs.map(async (config) => {
    const { out } = await run(["show", "cart-1"], {
      GetRun: () =>
        fakeRun({
          gpusRequested: 0,
          gpuSlots: [],
          hostGpus: 2,
          configJson: JSON.stringify(config),
        }),
      ListArtifacts: () => ({ artifacts: [] }),
      StreamEvents: () => [],
    });
    return out;
  }));
  assert.match(shown[0]!, /^gpus +none requested, so it sees none of the host's 2$/m);
  assert.doesNotMatch(shown[0]!, /^limits/m);
  assert.match(shown[1]!, /^limits +2 CPUs \(not enforced\)$/m);
});

Deno.test("list: a run that prints and whose output is no telemetry says so, with its age", async () => {
  const { out } = await run(["list"], {
    ListRuns: () => ({
      runs: [fakeRun({ state: "READY", telemetry: { lastOutputAt: timestampFromMs(NOW - 3000) } })],
    }),
  });
  assert.match(out, /Ready .* no telemetry; last output 3\.0s ago/);
});

Deno.test("list, show: of all steps and episodes they tell those that a later attempt recorded again; progress leaves them out", async () => {
  const telemetry = { steps: 1244n, episodes: 60n, overwrittenSteps: 44n, overwrittenEpisodes: 2n };
  const rewound = fakeRun({ telemetry, maxSteps: 2400n });
  const { out } = await run(["list", "-c", "steps,episodes,note"], {
    ListRuns: () => ({ runs: [rewound] }),
  });
  assert.match(out, /1,244 \(44 overwritten\) +60 \(2 overwritten\) .* 50% 1\.2k\/2\.4k/);
  const csv = await run(["list", "-o", "csv", "-c", "steps"], {
    ListRuns: () => ({ runs: [rewound] }),
  });
  assert.equal(csv.out, "steps\n1244\n");
  const shown = await run(["show", "cart-1"], {
    ...{
      GetRun: () => rewound,
      ListArtifacts: () => ({}),
      StreamEvents: () => [],
      GetHost: () => ({}),
    },
  });
  assert.match(shown.out, /^ {2}steps +1,244 \(44 overwritten\)$/m);
  assert.match(shown.out, /^ {2}episodes +60 \(2 overwritten\)$/m);
});

Deno.test("submit: prints the id and nothing else", async () => {
  const asked: string[] = [];
  const answers = {
    SubmitRun: ({ configJson }: { configJson: string }) => {
      asked.push(configJson);
      return { runId: ID_A, digest: "d" };
    },
  };
  const plain = await run(["submit", "-"], answers, { readInput: () => Promise.resolve("{}") });
  assert.deepEqual([plain.out, plain.err, asked], [`${ID_A}\n`, "", ["{}"]]);
  const json = await run(["submit", "-o", "json", "-"], answers);
  assert.equal(json.out, `{"run_id":"${ID_A}","digest":"d"}\n`);
  const missing = await run(["submit", "/nowhere.json"], answers);
  assert.deepEqual([missing.code, missing.err], [
    EXIT.notFound,
    "mosaic: /nowhere.json: there is no such file or directory\n",
  ]);
});

Deno.test("submit: a config's violations are printed one a line, as by --check", async () => {
  const readInput = () => Promise.resolve("{}");
  const { code, err } = await run(["submit", "-"], {
    SubmitRun: () => {
      throw new MosaicError("invalid_argument", "one; two");
    },
  }, { readInput });
  const validated = await run(["submit", "--check", "-"], {}, { readInput });
  const lines = validated.err.trimEnd().split("\n").slice(0, -1);
  assert.ok(lines.length > 1);
  assert.equal(code, EXIT.usage);
  assert.equal(err, `${lines.join("\n")}\nmosaic: the config has ${lines.length} violations\n`);
});

Deno.test("run: the program's own options are its own, with or without two dashes", async () => {
  for (const words of [["--", "/bin/x", "--gpus", "9"], ["/bin/x", "--gpus", "9"]]) {
    const { code, out } = await run(["run", "--dry-run", "--gpus", "1", ...words]);
    assert.equal(code, 0);
    const config = JSON.parse(out);
    assert.deepEqual([config.arguments, config.resources.gpus.requested], [["--gpus", "9"], 1]);
  }
});

Deno.test("run --slurm: Slurm places it, with the fields that are given", async () => {
  const metadata = async (...words: string[]) => {
    const { code, out, err } = await run(["run", "--dry-run", ...words, "--", "/bin/x"]);
    return code === 0 ? JSON.parse(out) : err;
  };
  const asked = await metadata(
    "--slurm",
    "partition=a,b,time=720,account=0042",
    "--cpus",
    "8",
    "--memory",
    "16G",
  );
  assert.equal(asked.metadata.launcher, "slurm");
  assert.deepEqual(asked.metadata.slurm, { partition: "a,b", time: 720, account: "0042" });
  assert.deepEqual([asked.resources.cpus, asked.resources.memory_mb], [8, 16_384]);
  const plain = await metadata("--slurm");
  assert.deepEqual([plain.metadata.launcher, plain.metadata.slurm], ["slurm", undefined]);
  const { metadata: local, resources } = await metadata();
  assert.deepEqual([local.launcher, local.slurm, resources.cpus], [
    undefined,
    undefined,
    undefined,
  ]);
  assert.match(await metadata("--slurm", "python"), /--slurm.*"python" is no NAME=VALUE/s);
  const twice = await metadata("--slurm", "extra=--nice,extra=--exclusive");
  assert.match(twice, /--slurm.*extra is given twice \(--nice and --exclusive\): give it once/s);
  // The option is named, not the config's field that nobody has written.
  assert.match(
    await metadata("--memory", "100M"),
    /--memory <size>' argument '100M' is invalid\. It must be at least 256M/,
  );
});

Deno.test("run: a program or directory that cannot be used is not submitted, unless the daemon may be on another host", async () => {
  for (const program of ["no-such-program", "./no-such-program", "/no/such/program"]) {
    const { code, err, out } = await run(["run", "--", program]);
    assert.equal(code, EXIT.notFound);
    assert.match(err, /no-such-program|\/no\/such\/program/);
    assert.equal(out, "");
  }
  const directory = Deno.makeTempDirSync();
  try {
    const file = `${directory}/text.py`;
    Deno.writeTextFileSync(file, "print(1)", { mode: 0o644 });
    const cases: [string[], number, RegExp][] = [
      [
        ["--", file],
        2,
        /text\.py: this file is not executable\n {2}Make it executable: chmod \+x .*; or .*: python \/\S+\.py/,
      ],
      [
        ["--cwd", directory, "--", "./text.py"],
        2,
        /chmod \+x \.\/text\.py; or name its interpreter: python \.\/text\.py/,
      ],
      [["--", directory], 2, /this is a directory, not a program/],
      [
        ["--cwd", `${directory}/none`, "--", "true"],
        4,
        /--cwd \S+\/none: there is no such directory/,
      ],
      [["--cwd", file, "--", "true"], 2, /--cwd \S+: this is a file, not a directory/],
    ];
    for (const [words, code, message] of cases) {
      const done = await run(["run", ...words]);
      assert.deepEqual([done.code, done.out], [code, ""], done.err);
      assert.match(done.err, message);
    }
    const far = ["run", "--target", "far:1", "--cwd", `${directory}/none`, "--", file];
    assert.equal(
      (await run(far, { SubmitRun: () => ({ runId: ID_A }), GetHost: () => ({}) })).code,
      0,
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
  for (
    const words of [["--target", "far:1", "--", "no-such-program"], ["--", "mosaic:demo-worker"]]
  ) {
    const { code, out } = await run(["run", ...words], {
      SubmitRun: () => ({ runId: ID_A }),
      GetHost: () => ({}),
    });
    assert.deepEqual([code, out], [0, `${ID_A}\n`]);
  }
});

Deno.test("run: says that the host has GPUs where the run asks for none", async () => {
  const hosts = [[], ["a"], ["a", "b"]].map((names) => ({
    gpus: names.map((name, slot) => ({ slot, name })),
  }));
  const said = async (host: unknown, words: string[]) => {
    const { code, err, out } = await run(["run", ...words, "--", "/bin/sh"], {
      SubmitRun: () => ({ runId: ID_A }),
      GetHost: () => host,
    });
    assert.deepEqual([code, out], [0, `${ID_A}\n`]);
    return err;
  };
  assert.equal(await said(hosts[0], []), "");
  assert.match(
    await said(hosts[1], []),
    /^mosaic: the host has a GPU slot, and this run asks for none/,
  );
  assert.match(await said(hosts[2], []), /^mosaic: the host has 2 GPU slots, and/);
  for (const words of [["--gpus", "0"], ["--gpus", "1"], ["-e", "CUDA_VISIBLE_DEVICES=1"]]) {
    assert.equal(await said(hosts[2], words), "");
  }
});

function ending(state: string, outcome: string): Answers {
  let looks = 0;
  const event = (seq: bigint, data: unknown) => ({
    seq,
    runId: ID_A,
    runName: "cart-1",
    kind: "state",
    attempt: 1,
    dataJson: JSON.stringify(data),
  });
  const events = [
    event(4n, { from: null, to: "INIT" }),
    event(9n, { from: "INIT", to: state, reason: "why" }),
  ];
  return {
    SubmitRun: () => ({ runId: ID_A }),
    GetRun: () => looks++ === 0 ? fakeRun() : fakeRun({ state, outcome }),
    StreamEvents: ({ sinceSeq }) => events.filter((e) => e.seq > sinceSeq),
    StreamLogs: ({ stream, sinceOffset }) =>
      sinceOffset > 0n
        ? []
        : [{ text: text(stream === "stderr" ? "50 %\r" : "says\n"), nextOffset: 5n }],
  };
}

Deno.test("submit --follow: prints each event once and exits by the outcome", async () => {
  for (
    const [state, outcome, code] of [
      ["TERMINATED", "succeeded", 0],
      ["FAULTED", "failed", 1],
      ["CANCELLED", "canceled", 5],
    ] as const
  ) {
    const followed = await run(["submit", "--follow", "-"], ending(state, outcome));
    assert.equal(followed.code, code);
    const lines = followed.out.split("\n");
    const events = ["          Queued", `          Queued → ${stateWord(state)}: why`];
    assert.deepEqual(lines.filter((line) => line !== "says"), [ID_A, ...events, ""]);
    assert.deepEqual(
      lines.filter((line) => line === "says"),
      ["says"],
      "what the program prints, once",
    );
    assert.equal(followed.err, "50 %\r");
    const json = await run(["submit", "--follow", "-o", "jsonl", "-"], ending(state, outcome));
    assert.ok(!json.out.includes("says"), "as JSON, events alone");
  }
});

Deno.test("submit --follow: Ctrl-C leaves the run alone and says so", async () => {
  const world = fakeWorld({
    SubmitRun: () => ({ runId: ID_A }),
    GetRun: () => {
      queueMicrotask(() => world.interrupt());
      return fakeRun();
    },
    StreamEvents: () => [],
    StreamLogs: () => [],
  });
  assert.equal(await runCli(["submit", "--follow", "-"], world), EXIT.interrupted);
  assert.match(world.stderr(), new RegExp(`run ${ID_A} continues`));
});

Deno.test("wait: the first that did not succeed decides; a retried failure has not ended", async () => {
  const looks: Record<string, number> = {};
  const answers: Answers = {
    GetRun: ({ run }) => {
      looks[run] = (looks[run] ?? 0) + 1;
      if (run === ID_B) return fakeRun({ runId: ID_B, state: "CANCELLED", outcome: "canceled" });
      return looks[run] === 2
        ? fakeRun({ state: "FAULTED", outcome: "failed", attempt: 1, maxAttempts: 2 })
        : looks[run] === 1
        ? fakeRun({ attempt: 1, maxAttempts: 2 })
        : fakeRun({ state: "TERMINATED", outcome: "succeeded", attempt: 2, maxAttempts: 2 });
    },
  };
  const waited = await run(["wait", ID_A, ID_B], answers);
  assert.equal(waited.code, EXIT.canceled);
  assert.equal(waited.out, `${ID_A}  Succeeded\n${ID_B}  Cancelled\n`);
});

Deno.test("wait: gives up at --timeout", async () => {
  const { code, err } = await run(["wait", ID_A, "--timeout", "10ms"], { GetRun: () => fakeRun() });
  assert.equal(code, EXIT.timedOut);
  assert.match(err, /has not ended after/);
});

const STEPS = [1, 2, 3].map((seq) =>
  `{"seq":${seq},"reward":${seq / 2},"action":[${seq}],"terminated":${seq === 3}}\n`
);

function stepsDaemon(asked: unknown[] = []): Answers {
  return {
    GetRun: () => fakeRun({ telemetry: { steps: 3n } }),
    StreamTelemetry: ({ sinceSeq, limit, kind, follow }) => {
      asked.push([kind, Number(sinceSeq), Number(limit), follow]);
      const wanted = STEPS.slice(
        Number(sinceSeq),
        limit === 0n ? undefined : Number(sinceSeq + limit),
      );
      return wanted.map((l, i) => ({ jsonl: text(l), lastSeq: sinceSeq + BigInt(i + 1) }));
    },
  };
}

Deno.test("steps -o jsonl: passes the daemon's lines through, byte for byte", async () => {
  const asked: unknown[] = [];
  assert.equal((await run(["steps", "x", "-o", "jsonl"], stepsDaemon(asked))).out, STEPS.join(""));
  assert.equal(
    (await run(["steps", "x", "-o", "jsonl", "--tail", "1"], stepsDaemon(asked))).out,
    STEPS[2],
  );
  assert.equal(
    (await run(["steps", "x", "-o", "jsonl", "--since", "1", "-n", "1"], stepsDaemon(asked))).out,
    STEPS[1],
  );
  assert.deepEqual(asked, [["steps", 0, 0, false], ["steps", 2, 0, false], ["steps", 1, 1, false]]);
});

Deno.test("steps: as table, json and csv", async () => {
  assert.equal(
    (await run(["steps", "x"], stepsDaemon())).out,
    [
      "SEQ  EPISODE  STEP  AGENT  ACTION  REWARD  END         OBSERVATION",
      "  1        -     -  -      [1]        0.5  -           -",
      "  2        -     -  -      [2]          1  -           -",
      "  3        -     -  -      [3]        1.5  terminated  -",
      "",
    ].join("\n"),
  );
  assert.deepEqual(
    JSON.parse((await run(["steps", "x", "-o", "json"], stepsDaemon())).out),
    STEPS.map((l) => JSON.parse(l)),
  );
  const csv = (await run(["steps", "x", "-o", "csv", "-n", "1"], stepsDaemon())).out.split("\n");
  assert.match(csv[0]!, /^seq,run_id,attempt,episode_index,step_index,action,/);
  assert.match(csv[1]!, /^1,,,,,\[1\],,0\.5,false,/);
  const none = { GetRun: () => fakeRun(), StreamTelemetry: () => [] };
  assert.equal((await run(["episodes", "x"], none)).out, "No episodes.\n");
  assert.equal((await run(["episodes", "x", "-o", "json"], none)).out, "[]\n");
  assert.match((await run(["episodes", "x", "-o", "csv"], none)).out, /^seq,.*\n$/);
});

Deno.test("steps -f: a broken connection is taken up after the last record, with none missing and none twice", async () => {
  let calls = 0;
  const { code, out, err, world } = await run(["steps", "x", "-f", "-o", "jsonl"], {
    GetRun: () => fakeRun(),
    async *StreamTelemetry({ sinceSeq }) {
      const from = Number(sinceSeq);
      yield { jsonl: text(STEPS[from]!), lastSeq: BigInt(from + 1) };
      if (++calls < 3) throw new MosaicError("unavailable", "no daemon answers at x");
    },
  });
  assert.deepEqual([code, out, world.connections], [0, STEPS.join(""), 3]);
  assert.match(err, /no daemon answers at x; retrying\nmosaic: reconnected to the daemon\n/);
});

Deno.test("steps: without -f a broken connection is an error", async () => {
  const { code } = await run(["steps", "x"], {
    GetRun: () => fakeRun(),
    StreamTelemetry: () => {
      throw new MosaicError("unavailable", "gone");
    },
  });
  assert.equal(code, EXIT.unreachable);
});

Deno.test("submit: --observe and --no-observe say which files are read, whatever the config says", async () => {
  const file = await Deno.makeTempFile();
  const submitted = async (config: unknown, ...options: string[]) => {
    await Deno.writeTextFile(file, JSON.stringify(config));
    let metadata: unknown;
    const { code } = await run(["submit", file, ...options], {
      SubmitRun: ({ configJson }) => {
        metadata = JSON.parse(configJson).metadata;
        return { runId: ID_A, digest: "d" };
      },
    });
    assert.equal(code, 0);
    return metadata;
  };
  const config = { run_name: "r", metadata: { observe: ["a/*.csv"], tags: ["t"] } };
  assert.deepEqual(await submitted(config, "--observe", "b.csv", "--observe", "a/*.csv"), {
    observe: ["a/*.csv", "b.csv"],
    tags: ["t"],
  });
  assert.deepEqual(await submitted(config, "--no-observe"), { observe: false, tags: ["t"] });
  assert.deepEqual(await submitted(config), config.metadata);
  assert.deepEqual(await submitted({ run_name: "r" }, "--observe", "b.csv"), {
    observe: ["b.csv"],
  });
  await Deno.remove(file);
});

Deno.test("metrics: series with their curves, or their points", async () => {
  const answers: Answers = {
    ListSeries: () => ({
      series: [
        { name: "loss", points: 2n, last: 0.25, min: 0.25, max: 1, mean: 0.5, maxStep: 3n },
        {
          name: "lr",
          points: 1n,
        },
      ],
    }),
    GetSeries: () => ({ buckets: [{ mean: 1 }, { mean: 0 }] }),
    GetRun: () => fakeRun(),
    StreamTelemetry: () => [{
      jsonl: text(`{"seq":1,"name":"lr","value":1}\n{"seq":2,"name":"loss","value":2}\n`),
    }],
  };
  assert.equal(
    (await run(["metrics", "x"], answers)).out,
    "SERIES  POINTS  LAST   MIN  MAX  CURVE\n" +
      "loss         2  0.25  0.25    1  █▁\n" +
      "lr           1     -     -    -  █▁\n",
  );
  assert.deepEqual(JSON.parse((await run(["metrics", "x", "loss", "-o", "json"], answers)).out), [
    {
      ...{
        name: "loss",
        points: 2,
        non_finite: 0,
        last: 0.25,
        min: 0.25,
        max: 1,
        mean: 0.5,
        min_step: null,
        max_step: 3,
      },
      ...{ source: "stdout", copy_of: null },
    },
  ]);
  const diverged: Answers = {
    ...answers,
    ListSeries: () => ({ series: [{ name: "loss", points: 4n, nonFinite: 3n, last: 1 }] }),
    GetSeries: () => ({
      buckets: [1, NaN, 1].map((mean, i) => ({
        ...{
          firstX: BigInt(i + 1),
          lastX: BigInt(i === 1 ? 3 : i + 1),
          mean,
          count: Number.isNaN(mean) ? 0n : 1n,
        },
      })),
    }),
  };
  assert.match(
    (await run(["metrics", "x"], diverged)).out,
    /POINTS +NAN, INF +LAST.*\nloss +4 +3 +1 /,
  );
  assert.match(
    (await run(["plot", "x", "loss"], diverged)).out,
    /^\S+ {2}loss {2}\(2 points are NaN or infinite\)\n/,
  );
  const points = await run(["metrics", "x", "loss", "--points", "-o", "jsonl"], answers);
  assert.equal(points.out, `{"seq":2,"name":"loss","value":2}\n`);
});

Deno.test("events: lines for people, JSON for programs, filtered by kind", async () => {
  const asked: { tail: number; kinds: string[]; sinceSeq: bigint }[] = [];
  const answers: Answers = {
    StreamEvents: ({ tail, kinds, sinceSeq }) => {
      asked.push({ tail, kinds, sinceSeq });
      return [
        {
          seq: 1n,
          runId: ID_A,
          runName: "a",
          kind: "queued",
          attempt: 1,
          dataJson: `{"digest":"d","position":1}`,
        },
        {
          seq: 2n,
          runId: ID_A,
          runName: "a",
          kind: "state",
          attempt: 2,
          dataJson: `{"from":"READY","to":"EXECUTING"}`,
        },
      ];
    },
    GetRun: () => fakeRun(),
  };
  assert.equal(
    (await run(["events"], answers)).out,
    `          ${ID_A.slice(0, 14)}  a  queued digest=d position=1\n` +
      `          ${ID_A.slice(0, 14)}  a  Ready → Running (attempt 2)\n`,
  );
  assert.deepEqual(
    JSON.parse((await run(["events", "-k", "queued", "-o", "json"], answers)).out)[0].data,
    {
      digest: "d",
      position: 1,
    },
  );
  asked.length = 0;
  for (
    const args of [["-f"], ["-f", "x"], [], ["-f", "--since", "0"], ["-f", "--since", "7"], [
      "-f",
      "-t",
      "3",
    ], [
      "--tail",
      "3",
    ]]
  ) await run(["events", "-k", "failed", ...args], answers);
  assert.deepEqual(asked.map((a) => [a.tail, a.sinceSeq]), [
    [10, 0n],
    [0, 0n],
    [0, 0n],
    [0, 0n],
    [0, 7n],
    [3, 0n],
    [3, 0n],
  ]);
  assert.deepEqual(asked[0]!.kinds, ["failed"]);
  assert.equal((await run(["events", "--since", "sometime"], answers)).code, 2);
});

Deno.test("watch: of all runs what is to come, of one run all, and all with --since", async () => {
  const at = (seq: number, ms: number) => ({
    seq: BigInt(seq),
    at: timestampFromMs(ms),
    runId: ID_A,
    kind: "state",
    dataJson: `{"to":"S${seq}"}`,
  });
  const answers: Answers = {
    GetRun: () => fakeRun(),
    StreamEvents: () => [at(1, NOW - 5000), at(2, NOW + 5)],
  };
  const shown = async (...args: string[]) =>
    (await run(["watch", ...args, "-o", "jsonl"], answers)).out.trim().split("\n").map((l) =>
      JSON.parse(l).seq
    );
  assert.deepEqual(await shown(), [2]);
  assert.deepEqual(await shown("x"), [1, 2]);
  assert.deepEqual(await shown("--since", "0"), [1, 2]);
});

Deno.test("logs: bytes as they are, and what was left out is told on stderr", async () => {
  const { out, err } = await run(["logs", "x", "--stderr", "--tail", "5"], {
    GetRun: () => fakeRun(),
    StreamLogs: ({ stream, tailLines }) => [
      { text: text(`${stream} ${tailLines}\n`), nextOffset: 9n, suppressedLines: 0n },
      { text: text("more"), nextOffset: 13n, suppressedLines: 1200n },
    ],
  });
  assert.deepEqual([out, err], [
    "stderr 5\nmore",
    "mosaic: suppressed 1,200 lines; the file has them\n",
  ]);
});

Deno.test("logs: who sees nothing on standard output is told of standard error", async () => {
  const answers: Answers = { GetRun: () => fakeRun(), StreamLogs: () => [] };
  const { out, err } = await run(["logs", "x"], answers);
  assert.deepEqual([out, err], [
    "",
    "mosaic: nothing on standard output; --stderr prints standard error\n",
  ]);
  assert.equal((await run(["logs", "x", "--stderr"], answers)).err, "");
});

Deno.test("control: one refusal does not keep the others from being asked", async () => {
  const { code, out, err } = await run(["throttle", "a", "b", "--hz", "5"], {
    ThrottleRun: ({ run, maxRateHz }) => {
      if (run === "a") throw new MosaicError("not_found", "there is no run");
      return fakeRun({ runId: ID_B, maxRateHz });
    },
  });
  assert.equal(code, EXIT.notFound);
  assert.equal(out, `${ID_B}  is limited to 5 steps/s\n`);
  assert.equal(err, "mosaic: a: there is no run\n");
});

Deno.test("cancel, retry, reset, delete: say what was done", async () => {
  const answers: Answers = {
    CancelRun: ({ graceSeconds }) => fakeRun({ reason: String(graceSeconds) }),
    RetryRun: () => fakeRun({ state: "INIT", attempt: 2 }),
    ResetRun: ({ fromCheckpoint }) =>
      fakeRun({ state: "INIT", attempt: fromCheckpoint === "c" ? 3 : 0 }),
    GetRun: () => fakeRun({ state: "TERMINATED" }),
    DeleteRun: ({ forever }) =>
      forever ? { freedBytes: 2048n } : { keptUntil: timestampFromMs(Date.UTC(2026, 0, 9, 8)) },
  };
  assert.equal(
    (await run(["cancel", "x", "--grace", "1"], answers)).out,
    `${ID_A}  is being cancelled\n`,
  );
  assert.equal(
    (await run(["retry", "x"], answers)).out,
    `${ID_A}  Queued, attempt 2, from the beginning\n`,
  );
  assert.equal(
    (await run(["reset", "x", "--from", "c"], answers)).out,
    `${ID_A}  Queued, attempt 3, from the beginning\n`,
  );
  assert.equal(
    (await run(["delete", "x"], answers)).out,
    `${ID_A}  in the trash until 2026-01-09\n`,
  );
  assert.equal(
    (await run(["delete", "--forever", "x"], answers)).out,
    `${ID_A}  deleted, 2.0 KiB freed\n`,
  );
  assert.deepEqual(JSON.parse((await run(["delete", "x", "-o", "json"], answers)).out), [
    { run_id: ID_A, freed_bytes: 0, kept_until: "2026-01-09T08:00:00.000Z" },
  ]);
});

Deno.test("delete: all names are checked first; on a terminal it shows what goes, and asks", async () => {
  const deleted: string[] = [];
  const answers: Answers = {
    GetRun: ({ run }) => {
      if (run === "gone") throw new MosaicError("not_found", "there is no run");
      return run === "live"
        ? fakeRun({ runId: ID_B })
        : fakeRun({ state: "FAULTED", finishedAt: timestampFromMs(NOW) });
    },
    DeleteRun: ({ run }) => (deleted.push(run), { freedBytes: 1n }),
  };
  const missing = await run(["delete", "ended", "gone"], answers);
  assert.deepEqual([missing.code, deleted], [EXIT.notFound, []]);
  assert.match(missing.err, /^mosaic: gone: there is no run\nmosaic: nothing was done/);
  const live = await run(["delete", "ended", "live"], answers);
  assert.deepEqual([live.code, deleted], [EXIT.refused, []]);
  assert.match(live.err, new RegExp(`nothing was deleted: ${ID_B} is running`));
  const asked: string[] = [];
  const person = (answer: string | undefined) => ({
    canAsk: true,
    ask: (question: string) => (asked.push(question), Promise.resolve(answer)),
  });
  for (const answer of ["", "n", undefined, "yesterday"]) {
    const { code, err } = await run(["delete", "ended"], answers, person(answer));
    assert.deepEqual([code, err, deleted], [0, "mosaic: nothing was done\n", []], String(answer));
  }
  assert.match(asked[0]!, new RegExp(`${ID_A} +cart-1 +Failed[^]*Delete this run\\? \\[y/N\\] $`));
  asked.length = 0;
  assert.equal((await run(["delete", "ended"], answers, person("y"))).code, 0);
  assert.equal((await run(["delete", "ended", "-y"], answers, person("n"))).code, 0);
  assert.deepEqual([asked.length, deleted], [1, [ID_A, ID_A]]);
});

Deno.test("verbs over runs select them by state, tag and filter, and say what they leave out", async () => {
  const asked: unknown[] = [];
  const paused: string[] = [];
  const answers: Answers = {
    ListRuns: ({ states, tags, where }) => {
      asked.push([states, tags, where]);
      return where === "lr>9"
        ? {}
        : { runs: [fakeRun(), fakeRun({ runId: ID_B, state: "FAULTED" })] };
    },
    PauseRun: ({ run }) => (paused.push(run), fakeRun()),
    GetRun: ({ run }) => fakeRun({ runId: run, state: "FAULTED" }),
    DeleteRun: () => ({ freedBytes: 0n }),
  };
  const { code, err } = await run(["pause", "-t", "sweep", "--where", "lr>1"], answers);
  assert.deepEqual([code, paused, asked], [0, [ID_A], [[[], ["sweep"], "lr>1"]]]);
  assert.match(err, /^mosaic: 1 of 2 selected runs is left out: this is for Queued, .*Paused\n$/);
  assert.match(
    (await run(["delete", "-s", "ended"], answers)).out,
    new RegExp(`^${ID_B}  deleted`),
  );
  const none = await run(["cancel", "--where", "lr>9"], answers);
  assert.deepEqual([none.code, none.err], [0, "mosaic: no run matches\n"]);
  assert.equal((await run(["pause"], answers)).code, EXIT.usage);
  assert.equal((await run(["pause", "x", "-t", "sweep"], answers)).code, EXIT.usage);
});

Deno.test("list: a terminal shows the live and the newest 30 runs, a pipe and --all every one; 60 columns suffice", async () => {
  const idOf = (i: number) => `01K9${String(1000 - i).padStart(22, "0")}`;
  const all = Array.from({ length: 100 }, (_, i) =>
    fakeRun({
      ...{
        runId: idOf(i),
        name: `cartpole-with-a-rather-long-name-seed${i}`,
        gpuSlots: [0, 1, 2, 3],
      },
      state: i === 70 ? "PAUSED" : "FAULTED",
      ...(i === 70 ? {} : { outcome: "failed", reason: "exit_code_1" }),
    }));
  const answers: Answers = {
    ListRuns: ({ states, limit }) => ({
      runs: all.filter(({ state }) => states.length === 0 || states.includes(state)).slice(
        0,
        Number(limit) || undefined,
      ),
    }),
  };
  const terminal = { terminal: { isTty: true, width: 60, height: 24, color: false } };
  const first = await run(["list"], answers, terminal);
  const lines = first.out.trimEnd().split("\n");
  assert.equal(lines.length, 1 + 30 + 1);
  assert.ok(lines.every((line) => line.length <= 60), first.out);
  assert.match(lines[0]!, /^RUN +NAME +STATE .*REWARD/);
  assert.match(lines.at(-1)!, /Paused/);
  assert.match(first.err, /^mosaic: the live and the newest 30 runs; --all lists every run\n$/);
  for (const [args, overrides] of [[["list", "--all"], terminal], [["list"], {}]] as const) {
    const { out, err } = await run([...args], answers, overrides);
    assert.deepEqual([out.trimEnd().split("\n").length, err], [101, ""]);
  }
});

Deno.test("status: the daemon and its host", async () => {
  const { out } = await run(["status"], {
    GetHost: () => ({
      version: "0.1.0",
      pid: 7n,
      listen: "127.0.0.1:50055",
      http: "127.0.0.1:8055",
      gpus: [{ slot: 0, runId: ID_A, name: "H100" }, { slot: 1, name: "H100" }],
      runsByState: { EXECUTING: 2n, FAULTED: 1n },
    }),
  });
  assert.match(out, /^page +http:\/\/127\.0\.0\.1:8055\/$/m);
  assert.match(out, /^runs +2 running, 1 failed$/m);
  assert.match(out, /^gpus +1 of 2 free$/m);
});

Deno.test("gpus: each card with its figures, its run, and who else uses it", async () => {
  const gpus = [
    {
      slot: 0,
      runId: ID_A,
      name: "H200",
      uuid: "GPU-1",
      memoryMb: 143771,
      usedMb: 130013,
      percent: 100,
      watts: 612.4,
      celsius: 61,
    },
    {
      slot: 1,
      name: "H200",
      uuid: "GPU-2",
      memoryMb: 143771,
      usedMb: 22630,
      others: "pid 4123 of ada, python, 22.1 GiB",
    },
    { slot: 2, runId: ID_A, name: "", lost: true },
    {
      ...{ slot: 3, name: "H200" },
      shares: [{ runId: ID_A, part: 0.25, memoryMb: 6144, usedMb: 5222 }, {
        runId: ID_B,
        part: 0.5,
      }],
    },
  ];
  let fresh: unknown;
  const answers = { GetHost: (request: unknown) => (fresh = request, { gpus }) };
  const { out } = await run(["gpus"], answers);
  assert.equal((fresh as { freshGpus: boolean }).freshGpus, true);
  const lines = out.trimEnd().split("\n").map((line) => line.replace(/ {2,}/g, " | ").trim());
  assert.deepEqual(lines[0], "SLOT | GPU | MEMORY | USE | POWER | TEMP | RUN | OTHERS");
  assert.match(
    lines[1]!,
    /^\| ?0 \| H200 \| 127 GiB of 140 GiB \| 100% \| 612 W \| 61 °C \| \w{10} \| -$/,
  );
  assert.match(
    lines[2]!,
    /^\| ?1 \| H200 \| 22\.1 GiB of 140 GiB \| - \| - \| - \| free \| pid 4123 of ada, python, 22\.1 GiB$/,
  );
  assert.match(lines[3]!, /\w{10} \(card lost\) \| -$/);
  assert.match(lines[4]!, /\| \w{10} \(6\.0 GiB, uses 5\.1 GiB\); \w{10} \(50 %\) \| -$/);
  const json = JSON.parse((await run(["gpus", "-o", "json"], answers)).out);
  assert.deepEqual(json[1].used_mb, 22630);
  const none = await run(["gpus"], {
    GetHost: () => ({ gpuProblem: "GPU3: \u001b[31mUnknown Error" }),
  });
  assert.match(none.out, /no GPU slots/);
  assert.match(none.err, /^mosaic: GPU3: .*Unknown Error$/m);
  assert.ok(!none.err.includes("\u001b"));
});

Deno.test("run: a part of a card by --gpus or --gpu-memory, which may also say what becomes of a run that takes more", async () => {
  const config = async (...words: string[]) =>
    JSON.parse((await run(["run", "--dry-run", ...words, "--", "/bin/true"])).out);
  for (
    const [words, gpus, alerts] of [
      [["--gpus", "0.25"], { requested: 1, mandatory: true, share: 0.25 }, undefined],
      [["--gpu-memory", "6G"], { requested: 1, mandatory: true, memory_mb: 6144 }, undefined],
      [["--gpus", "2", "--gpu-memory", "500M:cancel"], {
        requested: 2,
        mandatory: true,
        memory_mb: 500,
      }, [
        { when: "gpu_memory", value: 100, then: "cancel" },
      ]],
    ] as const
  ) {
    const { resources, metadata } = await config(...words);
    assert.deepEqual([resources.gpus, metadata.alerts], [gpus, alerts]);
  }
  for (
    const words of [["--gpus", "1.5"], ["--gpus", "-1"], ["--gpu-memory", "6"], [
      "--gpu-memory",
      "6G:kill",
    ]]
  ) {
    assert.equal(
      (await run(["run", "--dry-run", ...words, "--", "/bin/true"])).code,
      EXIT.usage,
      words.join(" "),
    );
  }
});

Deno.test("run --min-gpu-util is an alert rule", async () => {
  const rules = async (...words: string[]) =>
    JSON.parse((await run(["run", "--dry-run", ...words, "--", "/bin/true"])).out).metadata.alerts;
  assert.deepEqual(await rules("--min-gpu-util", "10%/1h"), [{
    when: "gpu_idle",
    value: 10,
    seconds: 3600,
  }]);
  assert.deepEqual(await rules("--min-gpu-util", "2.5%/15m:cancel"), [
    { when: "gpu_idle", value: 2.5, seconds: 900, then: "cancel" },
  ]);
  assert.equal(await rules(), undefined);
  for (const wrong of ["10/1h", "0%/1h", "101%/1h", "10%/x", "10%/1h:kill"]) {
    assert.equal(
      (await run(["run", "--dry-run", "--min-gpu-util", wrong, "--", "/bin/true"])).code,
      EXIT.usage,
      wrong,
    );
  }
});

Deno.test("validate: needs no daemon; every violation is printed with its path", async () => {
  for (const words of [["validate"], ["submit", "--check"]]) {
    const wrong = await run([...words, "-"], {}, {
      readInput: () => Promise.resolve(`{"run_name":""}`),
    });
    assert.equal(wrong.code, EXIT.usage);
    assert.match(wrong.err, /^run_name must be/m);
    assert.match(wrong.err, /^resources is missing/m);
    assert.equal(wrong.world.connections, 0);
  }
});

Deno.test("edit: name, tags and notes in one call; tag, note and rename are older words for it", async () => {
  const asked: unknown[] = [];
  const answers: Answers = {
    EditRun: ({ run, name, addTags = [], removeTags = [], notes }) => {
      asked.push([run, name, addTags, removeTags, notes]);
      return fakeRun({ name: name ?? "cart-1", tags: ["a", "b"], notes: notes ?? "" });
    },
  };
  const all = [
    "edit",
    "x",
    "--name",
    "new",
    "-t",
    "a",
    "-t",
    "b",
    "--remove-tag",
    "c",
    "--note",
    "-",
  ];
  const { out, err } = await run(all, answers, { readInput: () => Promise.resolve("why\n\n") });
  assert.deepEqual([out, err], [`${ID_A}  is named new; tags a, b; has notes\n`, ""]);
  await run(["edit", "x", "--note", ""], answers);
  await run(["tag", "x", "a", "--remove", "c"], answers);
  await run(["note", "x", "so", "it", "is"], answers);
  assert.match(
    (await run(["rename", "x", "other"], answers)).err,
    /"mosaic rename" is now "mosaic edit --name"/,
  );
  assert.deepEqual(asked, [
    ["x", "new", ["a", "b"], ["c"], "why"],
    ["x", undefined, [], [], ""],
    ["x", undefined, ["a"], ["c"], undefined],
    ["x", undefined, [], [], "so it is"],
    ["x", "other", [], [], undefined],
  ]);
  assert.equal((await run(["edit", "x"], answers)).code, EXIT.usage);
});

Deno.test("an option's older letter works and says so; its value is checked as before", async () => {
  const answers: Answers = {
    GetRun: () => fakeRun(),
    StreamLogs: () => [{ text: text("x\n"), nextOffset: 2n }],
  };
  const logs = await run(["logs", "x", "-n", "5"], answers);
  assert.deepEqual([logs.out, logs.err], ["x\n", "mosaic: -n is now --tail\n"]);
  const wrong = await run(["steps", "x", "-n", "few"]);
  assert.equal(wrong.code, EXIT.usage);
  assert.match(
    wrong.err,
    /^mosaic: -n is now -l or --limit\nmosaic: option '-l, --limit <n>' argument 'few' is invalid/,
  );
});

Deno.test("short options: one letter, one meaning", async () => {
  const meanings = new Map<string, Set<string>>();
  for (const verb of VERBS.filter(({ load, now }) => load !== undefined && now === undefined)) {
    const { out } = await run([verb.name, "--help"]);
    for (const [, letter, name] of out.matchAll(/^ {2}-([a-zA-Z]), --([a-z-]+)/gm)) {
      meanings.set(letter!, (meanings.get(letter!) ?? new Set()).add(name!));
    }
  }
  assert.deepEqual(
    [...meanings].filter(([, names]) => names.size > 1).map(([letter]) => letter),
    [],
  );
});

Deno.test("token: a role given as a word is pointed to its option", async () => {
  const { code, err, out } = await run(["token", "show", "read"]);
  assert.deepEqual([code, out], [EXIT.usage, ""]);
  assert.match(err, /mosaic token show --role read/);
  assert.equal((await run(["token", "shwo"])).code, EXIT.usage);
});

Deno.test("show --config: dots that the daemon has put there for a read token are explained", async () => {
  const configJson = `{"environment":{"API_KEY":"${HIDDEN}"}}`;
  for (const args of [["show", "x", "--config"], ["show", "x", "--config", "--reveal"]]) {
    const { code, out, err } = await run(args, { GetRun: () => fakeRun({ configJson }) });
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(out), JSON.parse(configJson));
    assert.match(
      err,
      /the daemon hides secrets from a read token; use the admin token to see them/,
    );
  }
  const { err } = await run(["show", "x", "--config"], {
    GetRun: () => fakeRun({ configJson: "{}" }),
  });
  assert.equal(err, "");
});

Deno.test("list: names that no run has are told, where they leave no run or an empty column", async () => {
  let asked = 0;
  const answers = (runs: unknown[]): Answers => ({
    ListRuns: ({ columns }) => ({
      runs,
      values: runs.map(() => ({
        json: columns.map((name: string) => name === "param.lr" ? "0.1" : "null"),
      })),
    }),
    ListColumns: () => {
      asked++;
      return { parameters: ["lr", "seed"], metrics: ["loss"] };
    },
  });
  const one = [fakeRun()];
  const empty = await run([
    "list",
    "--where",
    "lrr<3 and state=FAULTED and metric.los>1 and reward>3",
  ], answers([]));
  assert.deepEqual([empty.code, empty.out], [0, "No runs.\n"]);
  assert.equal(
    empty.err,
    'mosaic: no run has the parameter "lrr". Did you mean lr?\nmosaic: no run has the metric "los". Did you mean loss?\n',
  );
  const column = await run(["list", "-c", "name,param.lr,metric.losss:max"], answers(one));
  assert.equal(column.err, 'mosaic: no run has the metric "losss". Did you mean loss?\n');
  assert.match(column.out, /^cart-1/m);
  assert.match(
    (await run(["list", "--sort", "-param.zzz"], answers(one))).err,
    /no run has the parameter "zzz"\.\n$/,
  );
  asked = 0;
  // A filter that leaves runs, and columns with values, cost no further call; a known name that
  // fits none is no mistake.
  assert.equal((await run(["list", "--where", "nope!=3", "-c", "param.lr"], answers(one))).err, "");
  assert.equal(asked, 0);
  assert.equal((await run(["list", "--where", "lr>3"], answers([]))).err, "");
});

Deno.test("throttle: says where the limit has no effect", async () => {
  const limited = async (steps: bigint, toldStep: bigint) =>
    (await run(["throttle", ID_A, "--hz", "50"], {
      ThrottleRun: () => fakeRun({ maxRateHz: 50, telemetry: { steps, toldStep } }),
    })).out;
  assert.equal(await limited(5n, 900n), `${ID_A}  is limited to 50 steps/s\n`);
  assert.equal(await limited(0n, 0n), `${ID_A}  is limited to 50 steps/s\n`);
  assert.match(
    await limited(0n, 900n),
    /50 steps\/s, without effect: its worker prints no single steps/,
  );
});

Deno.test("retry, reset: say which checkpoint the attempt goes on from", async () => {
  const said = async (resumeFrom: string) =>
    (await run(["retry", ID_A], {
      RetryRun: () => fakeRun({ state: "INIT", attempt: 2, resumeFrom }),
    })).out;
  assert.equal(await said(""), `${ID_A}  Queued, attempt 2, from the beginning\n`);
  assert.equal(
    await said("/state/trainer/runs/R/checkpoints/1.pt"),
    `${ID_A}  Queued, attempt 2, from checkpoints/1.pt\n`,
  );
  assert.equal(await said("/data/1.pt"), `${ID_A}  Queued, attempt 2, from /data/1.pt\n`);
});

Deno.test("a value that an argument does not take is told in mosaic's own words", async () => {
  const wrong = await run(["completions", "tcsh"]);
  assert.equal(wrong.code, EXIT.usage);
  assert.match(
    wrong.err,
    /^mosaic: 'tcsh' is invalid for <shell>\. It must be bash, zsh, fish, runs or columns\.\n/,
  );
});

Deno.test("plot: a range that ends before it begins is refused", async () => {
  const { code, err, out } = await run(["plot", "x", "--from", "5000", "--to", "3000"]);
  assert.deepEqual([code, out, err], [EXIT.usage, "", "mosaic: --from 5000 is above --to 3000\n"]);
});

Deno.test("token create -o json: the token with its secret", async () => {
  const stateDir = Deno.makeTempDirSync();
  try {
    const words = ["token", "create", "--name", "ci", "--role", "read", "--state-dir", stateDir];
    const { code, out } = await run([...words, "-o", "json"]);
    assert.equal(code, 0);
    const { secret, created_at, ...created } = JSON.parse(out);
    assert.deepEqual(created, {
      name: "ci",
      role: "read",
      own: false,
      own_only: false,
      expires_at: null,
    });
    assert.ok(Date.parse(created_at) > 0 && secret.length > 20, out);
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
});

Deno.test("daemon --gpus: a value that it does not take is told once, with what it takes", () => {
  assert.throws(
    () => daemonOptions(["--gpus", "x"], () => undefined),
    (error: Error & { hint?: string }) => {
      assert.equal(
        error.message,
        '--gpus "x": neither auto, nor a count, nor a list of device numbers and UUIDs',
      );
      assert.match(error.hint ?? "", /^Give "auto", a count/);
      return true;
    },
  );
});
