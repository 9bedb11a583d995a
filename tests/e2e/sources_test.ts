import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { getRun, records, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

function withDirectory(name: string, work: (daemon: TestDaemon, cwd: string) => Promise<void>): void {
  Deno.test(name, async () => {
    await using daemon = await TestDaemon.start();
    const cwd = Deno.makeTempDirSync();
    try {
      await work(daemon, cwd);
    } finally {
      Deno.removeSync(cwd, { recursive: true });
    }
  });
}

function shell(daemon: TestDaemon, cwd: string, script: string, metadata: Record<string, unknown> = {}) {
  const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
  return submit(daemon, configOf({ command: ["sh"], metadata: { worker, ...metadata } }));
}

async function valuesOf(daemon: TestDaemon, run: string): Promise<Record<string, unknown[]>> {
  const values: Record<string, unknown[]> = {};
  for (const { name, value } of await records(daemon, run, "metrics")) (values[name as string] ??= []).push(value);
  return values;
}

async function payloads(daemon: TestDaemon, run: string, kind: string): Promise<Record<string, unknown>[]> {
  const events = await records(daemon, run, "events");
  return events.filter((event) => event.event === kind).map(({ payload }) => payload as Record<string, unknown>);
}

const points = async (daemon: TestDaemon, run: string) => Number((await getRun(daemon, run)).telemetry?.metrics);

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
    assert.deepEqual(problems.map(({ source, problem }) => [source, problem]), [[`${cwd}/metrics.jsonl`, "replaced"]]);
  },
);

withDirectory("NaN and infinities of a file and of the output are points, by their names", async (daemon, cwd) => {
  const run = await shell(
    daemon,
    cwd,
    `printf 'step,loss\\n1,0.5\\n2,nan\\n3,-inf\\n' > metrics.csv; echo '{"step": 4, "kl": NaN}'
    echo '{"type":"metrics","entropy":Infinity,"step":5}'`,
  );
  await untilState(daemon, run, "TERMINATED");
  const points = await records(daemon, run, "metrics");
  assert.deepEqual(points.map(({ name, step, value, value_text }) => [name, step, value ?? value_text]).sort(), [
    ...[["entropy", 5, "Infinity"], ["kl", 4, "NaN"], ["loss", 1, 0.5], ["loss", 2, "NaN"], ["loss", 3, "-Infinity"]],
  ]);
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
    while [ ! -e end ]; do sleep 0.05; done`;
    const first = await shell(daemon, cwd, script("one", 1));
    const second = await shell(daemon, cwd, script("two", 2));
    for (const run of [first, second]) await untilState(daemon, run, "READY", "EXECUTING");
    Deno.writeTextFileSync(`${cwd}/go`, "");
    for (const run of [first, second]) {
      await until(async () => await points(daemon, run) === 1, { what: "its own point", timeoutMs: 60_000 });
    }
    Deno.writeTextFileSync(`${cwd}/end`, "");
    for (const run of [first, second]) await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, first), { one: [1] });
    assert.deepEqual(await valuesOf(daemon, second), { two: [2] });
    Deno.removeSync(secret);
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
    assert.deepEqual(Object.entries(values).filter(([name]) => name.startsWith("loss")).flatMap(([, v]) => v).sort(), [
      5,
      6,
      7,
    ]);
    assert.equal(values.old, undefined);

    const none = await shell(daemon, cwd, write, { observe: false });
    const { telemetry } = await untilState(daemon, none, "TERMINATED");
    assert.equal(telemetry?.metrics, 1n);
    const { series } = await daemon.client.unary(Mosaic.method.listSeries, { run: none });
    assert.deepEqual(series.map(({ name }) => name), ["loss"]);
  },
);
