import assert from "node:assert/strict";
import { MosaicError } from "../../../src/base/errors.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { getRun, records, submit, untilState } from "../../harness/runs.ts";
import { type DaemonCase, testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";

const cases: DaemonCase[] = [];

/** Each case has a working directory, and beside it one that no run observes by itself. */
function withDirectories(
  name: string,
  work: (daemon: TestDaemon, cwd: string, beside: string) => Promise<void>,
): void {
  cases.push([name, async (daemon) => {
    const cwd = Deno.makeTempDirSync({ prefix: "cwd" });
    const beside = Deno.makeTempDirSync({ prefix: "beside" });
    try {
      await work(daemon, cwd, beside);
    } finally {
      for (const path of [cwd, beside]) Deno.removeSync(path, { recursive: true });
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

async function valuesOf(daemon: TestDaemon, run: string): Promise<Record<string, unknown[]>> {
  const values: Record<string, unknown[]> = {};
  for (const { name, step, value } of await records(daemon, run, "metrics")) {
    if (!String(name).startsWith("system/")) (values[String(name)] ??= []).push([step, value]);
  }
  return values;
}

async function observe(daemon: TestDaemon, run: string, ...patterns: string[]) {
  const { files } = await daemon.client.unary(Mosaic.method.observeFiles, { run, patterns });
  const byPath = (a: { path: string }, b: { path: string }) => a.path < b.path ? -1 : 1;
  return files.toSorted(byPath).map((
    { path, format, records, note },
  ) => [path, format, Number(records), note]);
}

const rows = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => [from + i, (from + i) / 10] as const);
const text = (from: number, to: number) =>
  rows(from, to).map(([step, value]) => `${step},${value}\n`).join("");

withDirectories(
  "files named while a run runs are read from their beginning, each point once, also when its proxy dies",
  async (daemon, cwd, beside) => {
    const run = await shell(
      daemon,
      cwd,
      `printf 'step,loss\n${text(1, 20)}' > train.csv; printf 'step,acc\n${
        text(1, 20)
      }' > ${beside}/acc.csv
       while [ ! -e more ]; do sleep 0.05; done
       printf '${text(21, 40)}' >> train.csv; printf '${text(21, 40)}' >> ${beside}/acc.csv
       while [ ! -e end ]; do sleep 0.05; done`,
    );
    await until(() => infoOf(`${beside}/acc.csv`), { what: "the second table" });
    await untilState(daemon, run, "READY", "EXECUTING");
    assert.deepEqual(
      await observe(daemon, run, `${cwd}/train.csv`, `${beside}/*.csv`, `${cwd}/later.csv`),
      [
        [`${beside}/acc.csv`, "csv", 0, "is read from now on"],
        [`${cwd}/later.csv`, "", 0, "no file has this name (--observe)"],
        [`${cwd}/train.csv`, "csv", 0, "is read from now on"],
      ],
    );
    await until(async () => (await valuesOf(daemon, run)).acc?.length === 20, {
      what: "what it had",
    });
    const { proxyPid } = await getRun(daemon, run);
    signalProcess(processRef(Number(proxyPid))!, "SIGKILL");
    Deno.writeTextFileSync(`${cwd}/more`, "");
    Deno.writeTextFileSync(`${cwd}/later.csv`, `step,kl\n${text(1, 3)}`);
    await until(async () => (await valuesOf(daemon, run)).kl?.length === 3, {
      what: "the third",
      timeoutMs: 60_000,
    });
    Deno.writeTextFileSync(`${cwd}/end`, "");
    await untilState(daemon, run, "TERMINATED");
    assert.deepEqual(await valuesOf(daemon, run), {
      loss: rows(1, 40),
      acc: rows(1, 40),
      kl: rows(1, 3),
    });
    assert.deepEqual((await getRun(daemon, run)).observed, [
      `${cwd}/train.csv`,
      `${beside}/*.csv`,
      `${cwd}/later.csv`,
    ]);
  },
);

withDirectories(
  "files named after a run's end are read once, and again only what was appended",
  async (daemon, cwd, beside) => {
    const old = `${beside}/old.csv`;
    Deno.writeTextFileSync(old, `step,old\n1,1\n`);
    Deno.utimeSync(old, 1e9, 1e9);
    const run = await shell(daemon, cwd, `printf 'step,loss\n${text(1, 20)}' > train.csv`, {
      observe: false,
    });
    await untilState(daemon, run, "TERMINATED");
    Deno.writeTextFileSync(`${beside}/eval.csv`, `step,eval\n${text(1, 5)}`);
    Deno.symlinkSync("/etc/passwd", `${beside}/link.csv`);
    Deno.writeTextFileSync(`${beside}/prose.csv`, "no table\n");
    assert.deepEqual(
      await observe(daemon, run, `${cwd}/train.csv`, `${beside}/*.csv`, `${cwd}/none.csv`),
      [
        [`${beside}/eval.csv`, "csv", 5, ""],
        [old, "", 0, "it is older than the run (after its end it is read by its name)"],
        [`${beside}/prose.csv`, "csv", 0, "nothing in it is read"],
        [`${cwd}/none.csv`, "", 0, "no file has this name (--observe)"],
        [`${cwd}/train.csv`, "csv", 20, ""],
      ],
    );
    Deno.writeTextFileSync(`${beside}/eval.csv`, text(6, 8), { append: true });
    assert.deepEqual(await observe(daemon, run, `${beside}/eval.csv`), [[
      `${beside}/eval.csv`,
      "csv",
      3,
      "",
    ]]);
    assert.deepEqual(await observe(daemon, run, `${beside}/eval.csv`), [
      [`${beside}/eval.csv`, "csv", 0, "all of it was stored"],
    ]);
    assert.deepEqual(await observe(daemon, run, old), [[old, "csv", 1, ""]]);
    assert.deepEqual(await valuesOf(daemon, run), {
      loss: rows(1, 20),
      eval: rows(1, 8),
      old: [[1, 1]],
    });
    // Another attempt observes it, too.
    assert.deepEqual((await getRun(daemon, run)).observed, [
      `${cwd}/train.csv`,
      `${beside}/*.csv`,
      `${beside}/eval.csv`,
      old,
    ]);
  },
);

withDirectories(
  "patterns and runs that cannot be observed are refused with the reason",
  async (daemon, cwd) => {
    const run = await shell(daemon, cwd, "exit 0");
    await untilState(daemon, run, "TERMINATED");
    const refused = async (patterns: string[], code: string, message: RegExp) => {
      await assert.rejects(observe(daemon, run, ...patterns), (error: MosaicError) => {
        assert.equal(error.code, code);
        assert.match(error.message, message);
        return true;
      });
    };
    await refused([], "invalid_argument", /patterns is empty/);
    await refused(["train.csv"], "invalid_argument", /"train.csv" must be absolute/);
    await refused(
      ["/*.csv"],
      "invalid_argument",
      /must name a directory before its first wildcard/,
    );
    await refused(
      Array.from({ length: 65 }, (_, i) => `${cwd}/${i}`),
      "invalid_argument",
      /65 patterns/,
    );
  },
);

testWithDaemon("files that people name", {}, cases);

function infoOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
  }
}
