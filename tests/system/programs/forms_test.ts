/**
 * Programs that print and write what a library prints and writes, without the library
 * (docs/reference/programs.md): one series per metric, trials as runs within the run, each point
 * once, and what is not read named, with proxies and daemon killed.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, records, submit } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { pythonTest } from "../../python/python.ts";

const FORMS = new URL("forms/", import.meta.url).pathname;

interface Program {
  name: string;
  /** Files whose names any program may use are named by the user. */
  observe?: string[];
}
const PROGRAMS: readonly Program[] = [
  ...[{ name: "hydra_multirun" }, { name: "rllib_tune" }, { name: "dopamine" }, {
    name: "brax_ppo",
  }, {
    name: "nanogpt",
  }],
  { name: "ultralytics_table", observe: ["runs/detect/train/results.csv"] },
  { name: "keras_fit", observe: ["training.csv"] },
  ...[{ name: "accelerate_tracker" }, { name: "torchrl_csv" }, { name: "pettingzoo_policies" }],
  { name: "transformers_trainer" },
];

interface Expected {
  /** By run within the run, "" for the run itself, and series: points. */
  runs: Record<string, Record<string, [step: number | null, value: number][]>>;
  parameters: Record<string, Record<string, unknown>>;
}

pythonTest(
  "programs in the forms of libraries: one series per metric, trials as runs within, each point once, with proxies and daemon killed",
  ["sys"],
  async (python) => {
    await using daemon = await TestDaemon.start();
    const top = Deno.makeTempDirSync();
    try {
      const started: { name: string; run: string }[] = [];
      for (const { name, observe } of PROGRAMS) {
        const cwd = `${top}/${name}`;
        Deno.mkdirSync(cwd);
        const worker = { script: python, arguments: [`${FORMS}${name}.py`], cwd, use_grpc: false };
        const environment = {
          HOME: cwd,
          EXPECTED: `${top}/${name}.json`,
          PYTHONDONTWRITEBYTECODE: "1",
        };
        const config = JSON.parse(
          configOf({ name, command: [python], metadata: { worker, ...observe && { observe } } }),
        );
        config.environment = { ...config.environment, ...environment };
        started.push({ name, run: await submit(daemon, JSON.stringify(config)) });
      }
      const killProxies = async () => {
        for (const { run } of started) {
          const { proxyPid, outcome } = await getRun(daemon, run);
          const proxy = outcome === "" && proxyPid > 0n ? processRef(Number(proxyPid)) : undefined;
          if (proxy !== undefined) signalProcess(proxy, "SIGKILL");
        }
      };
      const hasBegun = async ({ run }: { run: string }) => {
        const { telemetry, children } = await getRun(daemon, run);
        return telemetry!.metrics > 0n || children > 0;
      };
      await until(async () => (await Promise.all(started.map(hasBegun))).every((begun) => begun), {
        what: "points of each",
        timeoutMs: 60_000,
      });
      await killProxies();
      await daemon.kill9();
      await daemon.restart();
      await killProxies();
      const found: Record<string, unknown> = {};
      const wanted: Record<string, unknown> = {};
      for (const { name, run } of started) {
        await until(async () => (await getRun(daemon, run)).outcome !== "", {
          what: `${name} to end`,
          timeoutMs: 120_000,
        });
        const expected: Expected = JSON.parse(Deno.readTextFileSync(`${top}/${name}.json`));
        found[name] = brief(await stored(daemon, run, expected));
        wanted[name] = brief(expected);
      }
      assert.deepEqual(found, wanted);
    } finally {
      Deno.removeSync(top, { recursive: true });
    }
  },
);

/** What mosaic has, in the form of what is expected; of parameters only those that are. */
async function stored(
  daemon: TestDaemon,
  run: string,
  { parameters }: Expected,
): Promise<Expected> {
  const { runs: children } = await daemon.client.unary(Mosaic.method.listRuns, {
    within: run,
    limit: 100,
  });
  const got: Expected = { runs: {}, parameters: {} };
  const { name, state, telemetry, stderrTail } = await getRun(daemon, run);
  assert.equal(state, "TERMINATED", `${name}: ${stderrTail.join("\n")}`);
  for (
    const [within, runId] of [
      ["", run],
      ...children.map((one) => [one.name.slice(name.length + 1), one.runId]),
    ]
  ) {
    const series: Expected["runs"][string] = {};
    // Less exact copies of other sources are linked, and in no list and no chart.
    const { series: listed } = await daemon.client.unary(Mosaic.method.listSeries, { run: runId! });
    for (const { name, step, value } of await records(daemon, runId!, "metrics")) {
      if (!String(name).startsWith("system/") && listed.some((one) => one.name === name)) {
        (series[String(name)] ??= []).push([step, value] as [number, number]);
      }
    }
    if (Object.keys(series).length > 0) got.runs[within!] = series;
    const wanted = parameters[within!];
    if (wanted === undefined) continue;
    const shown = (await getRun(daemon, runId!)).parameters;
    got.parameters[within!] = Object.fromEntries(
      Object.keys(wanted).map((
        key,
      ) => [key, JSON.parse(shown.find((one) => one.name === key)?.valueJson ?? "null")]),
    );
  }
  const dropped = Object.keys(telemetry!.violations).filter((what) =>
    !what.startsWith("not read: ")
  );
  assert.deepEqual(dropped, [], name);
  return got;
}

/** A line for each series, so that a difference can be read. */
function brief({ runs, ...others }: Expected): unknown {
  const lines = Object.entries(runs).flatMap(([within, series]) =>
    Object.entries(series).map(([name, points]) =>
      `${within}: ${name}: ${points.length}: ${JSON.stringify(points)}`
    )
  );
  return { series: lines.toSorted(), ...others };
}
