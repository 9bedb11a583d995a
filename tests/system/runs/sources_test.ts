import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { scalarFrame, versionFrame } from "../../../src/cli/export/event_file.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { frame } from "../../../src/readers/tensorboard/tfrecord.ts";
import { FIXTURES, readAll } from "../../readers/formats/harness.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { runVerb } from "../../cli/verb.ts";
import { hasBubblewrap } from "../../harness/bubblewrap.ts";
import { configOf } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { getRun, records, submit, untilState } from "../../harness/runs.ts";
import { type DaemonCase, testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";

const cases: DaemonCase[] = [];

/** Each case has runs and a directory of its own. */
function withDirectory(
  name: string,
  work: (daemon: TestDaemon, cwd: string) => Promise<void>,
): void {
  cases.push([name, async (daemon) => {
    const cwd = Deno.makeTempDirSync();
    try {
      await work(daemon, cwd);
    } finally {
      Deno.removeSync(cwd, { recursive: true });
    }
  }]);
}

function shell(
  daemon: TestDaemon,
  cwd: string,
  script: string,
  metadata: Record<string, unknown> = {},
) {
  const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
  return submit(daemon, configOf({ command: ["sh"], metadata: { worker, ...metadata } }));
}

/** The program's points: a daemon adds every 10 s what a run uses of the host. */
async function ownPoints(daemon: TestDaemon, run: string): Promise<Record<string, unknown>[]> {
  return (await records(daemon, run, "metrics")).filter(({ name }) =>
    !String(name).startsWith("system/")
  );
}

async function valuesOf(daemon: TestDaemon, run: string): Promise<Record<string, unknown[]>> {
  const values: Record<string, unknown[]> = {};
  for (const { name, value } of await ownPoints(daemon, run)) {
    (values[name as string] ??= []).push(value);
  }
  return values;
}

async function payloads(
  daemon: TestDaemon,
  run: string,
  kind: string,
): Promise<Record<string, unknown>[]> {
  const events = await records(daemon, run, "events");
  return events.filter((event) => event.event === kind).map(({ payload }) =>
    payload as Record<string, unknown>
  );
}

const points = async (daemon: TestDaemon, run: string) => (await ownPoints(daemon, run)).length;

/**
 * Lets workers begin that wait for the file `go`, and end that wait for `end`, when each run has so
 * many points.
 */
async function letWrite(
  daemon: TestDaemon,
  cwd: string,
  runs: readonly string[],
  count: number,
): Promise<void> {
  for (const run of runs) await untilState(daemon, run, "READY", "EXECUTING");
  Deno.writeTextFileSync(`${cwd}/go`, "");
  for (const run of runs) {
    await until(async () => await points(daemon, run) === count, {
      what: "its own points",
      timeoutMs: 60_000,
    });
  }
  Deno.writeTextFileSync(`${cwd}/end`, "");
  for (const run of runs) await untilState(daemon, run, "TERMINATED");
}

withDirectory(
  "a replaced file is read from its beginning and told of, a table with a new column gives no row twice",
  async (daemon, cwd) => {
    const run = await shell(
      daemon,
      cwd,
      `echo '{"step": 1, "a": 1}' > metrics.jsonl; printf 'step,loss\\n1,5\\n2,4\\n' > metrics.csv
    while [ ! -e go ]; do sleep 0.05; done
    echo '{"step": 1, "b": 7}' > new; mv new metrics.jsonl
    printf 'step,loss,acc\\n1,5,\\n2,4,\\n3,3,0.5\\n' > metrics.csv`,
    );
    await until(async () => await points(daemon, run) === 3, { what: "the first rows" });
    Deno.writeTextFileSync(`${cwd}/go`, "");
    await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, run), { a: [1], loss: [5, 4, 3], acc: [0.5], b: [7] });
    const problems = await payloads(daemon, run, "source_problem");
    assert.deepEqual(problems.map(({ source, problem }) => [source, problem]), [[
      `${cwd}/metrics.jsonl`,
      "replaced",
    ]]);
  },
);

withDirectory(
  "parameters of Lightning and Hydra are the run's; a retry that changes one keeps the earlier value",
  async (daemon, cwd) => {
    const run = await shell(
      daemon,
      cwd,
      `out=outputs/2026-01-01/$MOSAIC_ATTEMPT; mkdir -p $out/.hydra $out/version_0
      printf 'optimizer:\\n  lr: 1e-%s\\nseed: 3\\n' $MOSAIC_ATTEMPT > $out/.hydra/config.yaml
      printf -- '- optimizer.lr=1\\n' > $out/.hydra/overrides.yaml
      printf 'hidden: 64\\nbetas: !!python/tuple\\n- 0.9\\n- 0.99\\n' > $out/version_0/hparams.yaml
      printf 'step,loss\\n1,5\\n' > $out/version_0/metrics.csv`,
    );
    await untilState(daemon, run, "TERMINATED");
    const shown = async () => {
      const { parameters } = await getRun(daemon, run);
      return parameters.filter(({ source }) => /hydra|yaml/.test(source))
        .map((
          { name, valueJson, source, earlierJson },
        ) => [name, JSON.parse(valueJson), source, JSON.parse(earlierJson)]);
    };
    assert.deepEqual(await shown(), [
      ["betas", [0.9, 0.99], "hparams.yaml", []],
      ["hidden", 64, "hparams.yaml", []],
      ["optimizer.lr", 0.1, "hydra", []],
      ["seed", 3, "hydra", []],
    ]);
    await daemon.client.unary(Mosaic.method.retryRun, { run });
    await until(async () => (await getRun(daemon, run)).attempt === 2, {
      what: "the second attempt",
    });
    await untilState(daemon, run, "TERMINATED");
    assert.deepEqual((await shown()).find(([name]) => name === "optimizer.lr"), [
      ...["optimizer.lr", 0.01, "hydra"],
      [{ attempt: 1, value: 0.1 }],
    ]);
  },
);

withDirectory(
  "files behind links are read once: an output directory on another disk, the working directory itself, a pattern's",
  async (daemon, top) => {
    for (const name of ["scratch/outputs", "scratch/project", "scratch/tables", "data/set"]) {
      Deno.mkdirSync(`${top}/${name}`, { recursive: true });
    }
    const cwd = `${top}/project`;
    Deno.symlinkSync(`${top}/scratch/project`, cwd);
    Deno.symlinkSync(`${top}/scratch/outputs`, `${cwd}/outputs`);
    Deno.symlinkSync(`${top}/scratch/outputs`, `${cwd}/same`);
    Deno.symlinkSync(`${top}/data`, `${cwd}/data`);
    Deno.symlinkSync(`${top}/scratch/tables`, `${top}/tables`);
    const run = await shell(
      daemon,
      cwd,
      `printf 'step,loss\\n1,5\\n2,4\\n' > outputs/metrics.csv; printf 'step,acc\\n1,0.5\\n' > metrics.csv
      printf 'step,kl\\n1,7\\n' > ${top}/tables/a.csv; printf 'step,none\\n1,7\\n' > data/set/metrics.csv
      ln -s ${top}/data/set later`,
      { observe: [`${top}/tables/*.csv`] },
    );
    await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, run), { loss: [5, 4], acc: [0.5], kl: [7] });
    const sources = (await payloads(daemon, run, "source_observed")).map(({ source }) => source)
      .sort();
    assert.deepEqual(sources, [
      `${top}/scratch/outputs/metrics.csv`,
      `${top}/scratch/project/metrics.csv`,
      `${top}/scratch/tables/a.csv`,
    ]);
  },
);

withDirectory(
  "NaN and infinities of a file and of the output are points, by their names",
  async (daemon, cwd) => {
    const run = await shell(
      daemon,
      cwd,
      `printf 'step,loss\\n1,0.5\\n2,nan\\n3,-inf\\n' > metrics.csv; echo '{"step": 4, "kl": NaN}'
    echo '{"type":"metrics","entropy":Infinity,"step":5}'`,
    );
    await untilState(daemon, run, "TERMINATED");
    const points = await ownPoints(daemon, run);
    assert.deepEqual(
      points.map(({ name, step, value, value_text }) => [name, step, value ?? value_text]).sort(),
      [
        ...[["entropy", 5, "Infinity"], ["kl", 4, "NaN"], ["loss", 1, 0.5], ["loss", 2, "NaN"], [
          "loss",
          3,
          "-Infinity",
        ]],
      ],
    );
    // What metrics tell counts, as in `mosaic list`.
    using registry = new DatabaseSync(daemon.layout.registryDb, { readOnly: true });
    const [event] = registry.prepare(
      "SELECT data_json FROM events WHERE run_id = ? AND kind = 'completed'",
    ).all(run);
    assert.equal(JSON.parse(String(event!.data_json)).steps, 5);
  },
);

withDirectory("alerts watch what files say, and steps that come as blocks", async (daemon, cwd) => {
  const alerts = [{ metric: "loss", when: "nan" }, { metric: "reward", when: "above", value: 2 }];
  const run = await shell(
    daemon,
    cwd,
    `printf 'step,loss\\n1,0.5\\n2,nan\\n' > metrics.csv
    i=0; while [ $i -lt 3000 ]; do echo '{"type":"step","step_index":'$i',"reward":'$((i / 1000)).5'}'; i=$((i + 1)); done`,
    { alerts },
  );
  await untilState(daemon, run, "TERMINATED");
  using registry = new DatabaseSync(daemon.layout.registryDb, { readOnly: true });
  const told = registry.prepare("SELECT data_json FROM events WHERE run_id = ? AND kind = 'alert'")
    .all(run)
    .map(({ data_json }) => JSON.parse(String(data_json)).what);
  assert.deepEqual(told.sort(), ["loss is NaN", "reward is 2.5, above 2"]);
});

withDirectory(
  "two runs in one directory: each has the files that it has open; a FIFO and a link of such a name harm nothing",
  async (daemon, cwd) => {
    const secret = Deno.makeTempFileSync();
    Deno.writeTextFileSync(secret, '{"step": 1, "stolen": 1}\n');
    Deno.mkdirSync(`${cwd}/logs`);
    const script = (name: string, value: number) =>
      `while [ ! -e go ]; do sleep 0.05; done
    exec 8> logs/${name}.jsonl
    echo '{"step": 1, "${name}": ${value}}' >&8
    mkfifo logs/${name}-fifo.jsonl; ln -s ${secret} logs/${name}-link.jsonl
    printf 'step,loss\\n1,2\\n' > data-${name}.csv
    while [ ! -e end ]; do sleep 0.05; done`;
    const first = await shell(daemon, cwd, script("one", 1));
    const second = await shell(daemon, cwd, script("two", 2));
    for (const run of [first, second]) await untilState(daemon, run, "READY", "EXECUTING");
    Deno.writeTextFileSync(`${cwd}/go`, "");
    for (const run of [first, second]) {
      await until(async () => await points(daemon, run) === 1, {
        what: "its own point",
        timeoutMs: 60_000,
      });
    }
    Deno.writeTextFileSync(`${cwd}/end`, "");
    for (const run of [first, second]) await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, first), { one: [1] });
    assert.deepEqual(await valuesOf(daemon, second), { two: [2] });
    // Data beside the logs would not have been read anyway.
    const problems = [
      ...await payloads(daemon, first, "source_problem"),
      ...await payloads(daemon, second, "not_read"),
    ];
    assert.ok(!JSON.stringify(problems).includes("data-"), JSON.stringify(problems));
    Deno.removeSync(secret);
  },
);

withDirectory(
  "two runs in one directory that open their event files anew for each write: each has its own, by the process in its name",
  async (daemon, cwd) => {
    Deno.mkdirSync(`${cwd}/runs`);
    Deno.writeFileSync(`${cwd}/head`, versionFrame(1));
    const names = ["one", "two"] as const;
    for (const [i, name] of names.entries()) {
      for (const step of [1, 2]) {
        const scalar = { tag: name, value: (i + 1) * 10 + step, step, wallTime: 1 };
        Deno.writeFileSync(`${cwd}/${name}${step}`, scalarFrame(scalar));
      }
    }
    // As TensorBoard's writer: opened, written and closed. The last is written just before the end.
    const script = (name: string) =>
      `while [ ! -e go ]; do sleep 0.05; done
    file=runs/events.out.tfevents.1763820000.$(uname -n).$$.0
    cat head ${name}1 >> $file
    while [ ! -e end ]; do sleep 0.05; done
    cat ${name}2 >> $file`;
    const runs = [await shell(daemon, cwd, script("one")), await shell(daemon, cwd, script("two"))];
    await letWrite(daemon, cwd, runs, 1);
    assert.deepEqual(await valuesOf(daemon, runs[0]!), { one: [11, 12] });
    assert.deepEqual(await valuesOf(daemon, runs[1]!), { two: [21, 22] });
    // The other's files are the other's, by the same names.
    for (const run of runs) assert.deepEqual(await payloads(daemon, run, "source_problem"), []);
  },
);

withDirectory(
  "two runs with one home, each in its own directory: what lies in ~/ray_results is that run's which writes it",
  async (daemon, cwd) => {
    const script = (name: string) =>
      `while [ ! -e ${cwd}/go ]; do sleep 0.05; done
    mkdir -p $HOME/ray_results/${name}; exec 8> $HOME/ray_results/${name}/result.json
    echo '{"training_iteration": 1, "${name}": 1}' >&8
    while [ ! -e ${cwd}/end ]; do sleep 0.05; done`;
    const runs = await Promise.all(["one", "two"].map((name) => {
      Deno.mkdirSync(`${cwd}/${name}`);
      const worker = {
        script: "/bin/sh",
        arguments: ["-c", script(name)],
        cwd: `${cwd}/${name}`,
        use_grpc: false,
      };
      return submit(
        daemon,
        configOf({ command: ["sh"], environment: { HOME: cwd }, metadata: { worker } }),
      );
    }));
    await letWrite(daemon, cwd, runs, 1);
    assert.deepEqual(await Promise.all(runs.map((run) => valuesOf(daemon, run))), [{ one: [1] }, {
      two: [1],
    }]);
  },
);

withDirectory(
  "two runs in sandboxes in one directory: their processes have the same numbers, and none is given the other's files",
  async (daemon, cwd) => {
    if (!hasBubblewrap()) return console.log("SKIPPED: no bubblewrap here");
    Deno.mkdirSync(`${cwd}/runs`);
    Deno.writeFileSync(`${cwd}/head`, versionFrame(1));
    Deno.writeFileSync(
      `${cwd}/point`,
      scalarFrame({ tag: "loss", value: 1, step: 1, wallTime: 1 }),
    );
    const script = (time: number) =>
      `while [ ! -e go ]; do sleep 0.05; done
    cat head point >> runs/events.out.tfevents.${time}.$(uname -n).$$.0
    while [ ! -e end ]; do sleep 0.05; done`;
    const sandbox = { kind: "bubblewrap", writable: [cwd] };
    const runs = [
      await shell(daemon, cwd, script(1763820000), { sandbox }),
      await shell(daemon, cwd, script(1763820001), { sandbox }),
    ];
    for (const run of runs) await untilState(daemon, run, "READY", "EXECUTING");
    Deno.writeTextFileSync(`${cwd}/go`, "");
    for (const time of [1763820000, 1763820001]) {
      await until(
        () => [...Deno.readDirSync(`${cwd}/runs`)].some(({ name }) => name.includes(String(time))),
        {
          what: "the file",
        },
      );
    }
    for (const run of runs) {
      await until(async () => (await payloads(daemon, run, "source_problem")).length === 2, {
        what: "what is left out",
      });
    }
    Deno.writeTextFileSync(`${cwd}/end`, "");
    for (const run of runs) await untilState(daemon, run, "TERMINATED");
    for (const run of runs) assert.deepEqual(await valuesOf(daemon, run), {});
  },
);

withDirectory(
  "two runs in one directory: of a table that nobody keeps open each run tells, and --observe reads it",
  async (daemon, cwd) => {
    const script = (name: string) =>
      `while [ ! -e go ]; do sleep 0.05; done
    exec 8> logs/${name}.jsonl; echo '{"step": 1, "${name}": 1}' >&8
    mkdir ${name}; printf 'step,loss\\n1,5\\n' > ${name}/metrics.csv
    while [ ! -e end ]; do sleep 0.05; done`;
    Deno.mkdirSync(`${cwd}/logs`);
    const silent = await shell(daemon, cwd, script("one"));
    const asking = await shell(daemon, cwd, script("two"), { observe: ["two/metrics.csv"] });
    for (const run of [silent, asking]) await untilState(daemon, run, "READY", "EXECUTING");
    Deno.writeTextFileSync(`${cwd}/go`, "");
    for (const [run, wanted] of [[silent, 1], [asking, 2]] as const) {
      await until(async () => await points(daemon, run) === wanted, {
        what: "its own points",
        timeoutMs: 60_000,
      });
    }
    Deno.writeTextFileSync(`${cwd}/end`, "");
    for (const run of [silent, asking]) await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, silent), { one: [1] });
    assert.deepEqual(await valuesOf(daemon, asking), { two: [1], loss: [5] });
    const told = (await payloads(daemon, silent, "source_problem")).map(({ problem, detail }) =>
      `${problem} ${detail}`
    );
    for (const name of ["one", "two"]) {
      const its = new RegExp(`^left_out ${cwd}/${name}/metrics.csv is not read: .*--observe`);
      assert.ok(told.some((one) => its.test(one)), told.join("\n"));
    }
  },
);

withDirectory(
  "what mosaic itself writes into a run's working directory is not read, and is imported like any other file",
  async (daemon, cwd) => {
    const run = await shell(
      daemon,
      cwd,
      `mkdir a b; printf 'step,loss\\n1,5\\n' > a/metrics.csv; while [ ! -e go ]; do sleep 0.05; done
      printf 'step,acc\\n1,6\\n' > b/metrics.csv; printf 'step,loss\\n1,5\\n2,4\\n' > a/metrics.csv`,
      { observe: ["**/*.csv", "**/*.jsonl"] },
    );
    // Its tracker's file is in its own directory, which a backup copies.
    const other = await shell(
      daemon,
      "/",
      `printf 'step,other\\n1,7\\n' > $MOSAIC_RUN_DIR/metrics.csv; while [ ! -e ${cwd}/go ]; do sleep 0.05; done`,
    );
    for (const [one, name] of [[run, "loss"], [other, "other"]] as const) {
      await until(async () => (await valuesOf(daemon, one))[name]?.length === 1, {
        what: "the first point",
      });
    }
    const mosaic = async (...args: string[]) => {
      const { code, out, err } = await runVerb(daemon, args);
      assert.equal(code, 0, err);
      return out;
    };
    // Also beside the program's own files.
    for (
      const [format, directory] of [["csv", "runs/csv"], ["jsonl", "runs/jsonl"], [
        "tensorboard",
        ".",
      ], ["csv", "b"]]
    ) {
      await mosaic("export", run, "--format", format!, "--out", `${cwd}/${directory}`);
    }
    const printed = await mosaic(
      "export",
      run,
      "--format",
      "csv",
      "--kind",
      "metrics",
      "--out",
      "-",
    );
    Deno.writeTextFileSync(`${cwd}/metrics.csv`, printed);
    await mosaic("backup", `${cwd}/backup`, "--state-dir", daemon.layout.stateDir);
    assert.ok(Deno.statSync(`${cwd}/backup/trainer/custom_scripts/${other}/metrics.csv`).isFile);
    Deno.writeTextFileSync(`${cwd}/go`, "");
    for (const one of [run, other]) await untilState(daemon, one, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, run), { loss: [5, 4], acc: [6] });
    assert.deepEqual(await payloads(daemon, run, "source_problem"), []);

    const [{ run_id: imported }] = JSON.parse(
      await mosaic("import", `${cwd}/runs/csv`, "-o", "json"),
    );
    await untilState(daemon, imported, "TERMINATED");
    assert.ok((await valuesOf(daemon, imported)).value!.includes(5));
  },
);

withDirectory(
  "a run below another's working directory has the files in its own, and the other has all others",
  async (daemon, cwd) => {
    const script = (name: string) =>
      `while [ ! -e ${cwd}/go ]; do sleep 0.05; done
      mkdir -p files/${name}; printf 'step,${name}\\n1,1\\n' > files/${name}/metrics.csv
      cat ${cwd}/head > events.out.tfevents.1763820000.elsewhere; cat ${cwd}/${name} >> events.out.tfevents.1763820000.elsewhere
      while [ ! -e ${cwd}/end ]; do sleep 0.05; done`;
    Deno.writeFileSync(`${cwd}/head`, versionFrame(1));
    const names = ["outer", "inner", "innermost"];
    for (const [i, name] of names.entries()) {
      Deno.writeFileSync(
        `${cwd}/${name}`,
        scalarFrame({ tag: `${name}/tb`, value: i, step: 1, wallTime: 1 }),
      );
    }
    Deno.mkdirSync(`${cwd}/sub/deep`, { recursive: true });
    // The outer one is told when the inner ones begin; the innermost begins before the one above
    // it.
    const outer = await shell(daemon, cwd, script("outer"));
    const innermost = await shell(daemon, `${cwd}/sub/deep`, script("innermost"));
    const inner = await shell(daemon, `${cwd}/sub`, script("inner"));
    const runs = [outer, inner, innermost];
    await letWrite(daemon, cwd, runs, 2);
    for (const [i, run] of runs.entries()) {
      assert.deepEqual(await valuesOf(daemon, run), { [names[i]!]: [1], [`${names[i]}/tb`]: [i] });
      assert.deepEqual(await payloads(daemon, run, "source_problem"), []);
    }
  },
);

withDirectory(
  "one name of several sources is a series of each; files that are older, or not to be read, are not read",
  async (daemon, cwd) => {
    Deno.writeTextFileSync(`${cwd}/progress.json`, '{"step": 1, "old": 1}\n');
    const write = `mkdir -p a b
    printf 'step,loss\\n1,5\\n' > a/metrics.csv; printf 'step,loss\\n1,6\\n' > b/metrics.csv
    echo 'step=1 loss=7'; echo '{"step": 2, "extra": 1}' > c.jsonl`;
    const run = await shell(daemon, cwd, write, { observe: ["*.jsonl"] });
    await untilState(daemon, run, "TERMINATED");
    const values = await valuesOf(daemon, run);
    assert.deepEqual(values.extra, [1]);
    assert.deepEqual(Object.keys(values).filter((name) => name.startsWith("loss")).length, 3);
    assert.deepEqual(
      Object.entries(values).filter(([name]) => name.startsWith("loss")).flatMap(([, v]) => v)
        .sort(),
      [
        5,
        6,
        7,
      ],
    );
    assert.equal(values.old, undefined);

    const none = await shell(daemon, cwd, write, { observe: false });
    const { telemetry } = await untilState(daemon, none, "TERMINATED");
    assert.equal(telemetry?.metrics, 1n);
    const { series } = await daemon.client.unary(Mosaic.method.listSeries, { run: none });
    assert.deepEqual(series.map(({ name }) => name), ["loss"]);
  },
);

/**
 * A part of the file is written, and a process killed, again and again: what the whole file holds
 * is stored once.
 */
async function inChunks(
  daemon: TestDaemon,
  run: string,
  path: string,
  file: Uint8Array,
): Promise<void> {
  const chunks = 5;
  for (let i = 0; i < chunks; i++) {
    const [from, to] = [i, i + 1].map((n) => Math.floor((file.length * n) / chunks));
    Deno.writeFileSync(path, file.subarray(from, to), { append: true, mode: 0o600 });
    if (i % 2 === 0) {
      const proxy = await until(
        async () => processRef(Number((await getRun(daemon, run)).proxyPid)),
        {
          what: "a proxy",
        },
      );
      signalProcess(proxy!, "SIGKILL");
    } else await daemon.restart();
  }
}

withDirectory(
  "a .wandb log and an event file with pictures, as they grow, with proxy and daemon killed: each record once",
  async (daemon, cwd) => {
    const run = await shell(daemon, cwd, "while [ ! -e end ]; do sleep 0.05; done");
    await untilState(daemon, run, "READY", "EXECUTING");
    const offline = `${cwd}/wandb/offline-run-1/run-1.wandb`;
    Deno.mkdirSync(`${cwd}/wandb/offline-run-1/files`, { recursive: true });
    const gz = Deno.readFileSync(`${FIXTURES}offline.wandb.gz`);
    const log = new Uint8Array(
      await new Response(new Blob([gz]).stream().pipeThrough(new DecompressionStream("gzip")))
        .arrayBuffer(),
    );
    await inChunks(daemon, run, offline, log);
    const bytes = Uint8Array.from({ length: 3000 }, (_, i) => i % 251);
    const picture = (step: number) => {
      const event = new BinaryWriter();
      event.tag(1, WireType.Bit64).double(1.7e9 + step).tag(2, WireType.Varint).int64(step);
      event.tag(5, WireType.LengthDelimited).fork().tag(1, WireType.LengthDelimited).fork();
      event.tag(1, WireType.LengthDelimited).string("eval/frame").tag(4, WireType.LengthDelimited)
        .fork();
      event.tag(1, WireType.Varint).int32(6).tag(2, WireType.Varint).int32(4);
      event.tag(4, WireType.LengthDelimited).bytes(
        new Uint8Array([0x89, 0x50, 0x4e, 0x47, ...bytes]),
      );
      return frame(event.join().join().join().finish());
    };
    const steps = [...Array(40).keys()];
    const events = [
      versionFrame(1.7e9),
      ...steps.flatMap((step) => [
        scalarFrame({ tag: "own/loss", value: step / 3, step, wallTime: 1.7e9 + step }),
        ...(step % 10 === 0 ? [picture(step)] : []),
      ]),
    ];
    await inChunks(
      daemon,
      run,
      `${cwd}/events.out.tfevents.1700000000.host.1.0`,
      new Uint8Array(await new Blob(events as BlobPart[]).arrayBuffer()),
    );
    Deno.writeTextFileSync(`${cwd}/end`, "");
    await untilState(daemon, run, "TERMINATED");

    const expected: Record<string, unknown[]> = {
      "own/loss": steps.map((step) => Math.fround(step / 3)),
    };
    for (const record of readAll("wandb", log).records) {
      if (record.kind !== "scalar") continue;
      (expected[record.tag] ??= []).push(
        Number.isFinite(record.value) ? record.value : String(record.value),
      );
    }
    const values: Record<string, unknown[]> = {};
    for (const { name, value, value_text } of await ownPoints(daemon, run)) {
      (values[(name as string).replace(/^tracked\//, "")] ??= []).push(value ?? value_text);
    }
    assert.deepEqual(values, expected);
    const pictures = (await payloads(daemon, run, "artifact")).filter(({ tag }) =>
      tag === "eval/frame"
    );
    assert.deepEqual(
      pictures.map(({ global_step, kind }) => [global_step, kind]),
      [0, 10, 20, 30].map((s) => [s, "image"]),
    );
    const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
    assert.equal(artifacts.filter(({ path }) => path.startsWith("media/eval_frame-")).length, 4);
    assert.ok((await payloads(daemon, run, "parameters")).some(({ source }) => source === "wandb"));
  },
);

withDirectory(
  "a file that the worker announces and that its proxy finds, too, is one event and one artifact, by the worker's word",
  async (daemon, cwd) => {
    const run = await shell(
      daemon,
      cwd,
      `mkdir videos; echo film > videos/a.mp4; echo weights > model.pt; echo early > early.pt
    echo '{"event": "artifact", "path": "videos/a.mp4", "kind": "evaluation", "step": 7}'
    echo '{"event": "checkpoint_saved", "checkpoint_path": "'$PWD'/model.pt", "step": 9}'
    while [ ! -e go ]; do sleep 0.05; done
    echo '{"event": "checkpoint_saved", "checkpoint_path": "early.pt", "step": 5}'`,
    );
    const listed = async () =>
      (await daemon.client.unary(Mosaic.method.listArtifacts, { run })).artifacts.map((
        { path, kind, step },
      ) => `${path.slice(cwd.length + 1)} ${kind} ${step}`).sort();
    await until(async () => (await listed()).length === 3, { what: "the files to be found" });
    Deno.writeTextFileSync(`${cwd}/go`, "");
    await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await listed(), [
      "early.pt checkpoint 5",
      "model.pt checkpoint 9",
      "videos/a.mp4 evaluation 7",
    ]);
    const named = (await records(daemon, run, "events")).map(({ event, payload }) => {
      const { path, checkpoint_path: checkpoint } = payload as Record<string, string>;
      return `${event} ${path ?? checkpoint}`;
    });
    assert.deepEqual(
      named.sort(),
      [
        // It was found before it was announced.
        `artifact ${cwd}/early.pt`,
        "artifact videos/a.mp4",
        `checkpoint_saved ${cwd}/model.pt`,
        "checkpoint_saved early.pt",
      ].sort(),
    );
  },
);

testWithDaemon("points of files that programs write", {}, cases);
