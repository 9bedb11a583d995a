import assert from "node:assert/strict";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { readTokens } from "../../src/wire/tokens.ts";
import { MosaicClient as Client } from "../../src/wire/client/client.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { records } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { pythonTest } from "./python.ts";

const WORKER = new URL("mlflow_worker.py", import.meta.url).pathname;
type Json = Record<string, unknown>;

pythonTest(
  "a program that logs to MLflow: each point once and bit for bit, with the daemon killed in between",
  [
    "sys",
  ],
  async (python) => {
    await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
    const cwd = Deno.makeTempDirSync();
    const said = () => readTextIfThere(`${cwd}/said.json`);
    const token = readTokens(daemon.layout.tokensFile)!.admin;
    const client = () => new Client(daemon.target, { token, deadlineMs: 60_000 });
    let calls = client();
    try {
      const { runId } = await calls.unary(TrainerService.method.submitRun, {
        configJson: configOf({
          name: "agent",
          command: [python, WORKER],
          metadata: { worker: { script: python, arguments: [WORKER], cwd, use_grpc: false } },
        }),
      });
      await until(() => readTextIfThere(`${cwd}/ready`) !== undefined, {
        what: "the first points",
        timeoutMs: 60_000,
      });
      calls.close();
      await daemon.kill9();
      Deno.writeTextFileSync(`${cwd}/go`, "");
      await daemon.restart();
      calls = client();
      const run = await until(async () => {
        const now = await calls.unary(Mosaic.method.getRun, { run: runId });
        return now.outcome === "" ? undefined : now;
      }, { what: "the run to end", timeoutMs: 120_000 });
      assert.equal(run.state, "TERMINATED", run.stderrTail.join("\n"));

      const { absent, changed, ...rest } = JSON.parse(said()!) as Record<string, Json>;
      assert.deepEqual([absent!.status, absent!.error_code], [404, "RESOURCE_DOES_NOT_EXIST"]);
      assert.deepEqual([changed!.status, changed!.error_code], [400, "INVALID_PARAMETER_VALUE"]);
      assert.deepEqual(rest, {
        "there": "CartPole ü",
        "created again": true,
        "model": "LOGGED_MODEL_READY",
        "run": { status: "FINISHED", end_time: 1700000004000, user_id: "u", experiment_id: "1" },
        "params": [
          { key: "lr", value: "0.0003" },
          { key: "env", value: "CartPole-v1" },
          { key: "api_key", value: "hunter-1" },
          { key: "db", value: "postgres://me:hunter-2@host/db" },
        ],
        "big": [null, null, "INVALID_PARAMETER_VALUE"],
        "big stayed": ["big0", "big1"],
        "huge": 413,
        "latest": [["loss", "NaN", 1000], ["reward", 1e-300 * 19, 19]],
        "history": true,
        "runs": ["child", "agent"],
        "child": [["loss", 7]],
        "unknown": "ENDPOINT_NOT_FOUND",
        "registered": [["1", "READY"], ["2", "READY"]],
        "not registered": "RESOURCE_DOES_NOT_EXIST",
        "without token": 401,
        "other run": 401,
      });

      const points = await records({ client: calls }, runId, "metrics");
      const of = (name: string) => points.filter((p) => p.name === name);
      assert.deepEqual(
        of("loss").map((
          { step, value, timestamp },
        ) => [step, value, Date.parse(String(timestamp))]),
        Array.from(
          { length: 1001 },
          (_, i) =>
            i === 1000 ? [i, null, 1700000002000] : [i, 0.1 + 0.2 + i / 7, 1700000000000 + i],
        ),
      );
      assert.deepEqual(
        of("mlflow/reward").map((p) => p.value),
        Array.from({ length: 20 }, (_, i) => 1e-300 * i),
      );
      const { runs: within } = await calls.unary(Mosaic.method.listRuns, { within: runId });
      assert.deepEqual(within.map(({ name, state }) => [name, state]), [
        ["agent/child", "FAULTED"],
      ]);
      const child = within[0]!.runId;
      const childPoints = await records({ client: calls }, child, "metrics");
      assert.deepEqual(childPoints.map(({ name, value }) => [name, value]), [["loss", 7]]);
      const parameters = (await records({ client: calls }, runId, "events")).filter((e) =>
        e.event === "parameters"
      );
      const told = parameters.map((e) => (e.payload as { values: Json }).values);
      assert.deepEqual(told.slice(0, 2), [
        { lr: 0.0003, env: "CartPole-v1" },
        { api_key: "••••••••", db: "postgres://me:••••••••@host/db" },
      ]);
      // What was refused is not stored, and secrets are only in the file that the client reads
      // back.
      const further = new Set(told.slice(2).flatMap(Object.keys).map((name) => name.split(".")[0]));
      assert.deepEqual([...further], []);
      const ofChild = (await calls.unary(Mosaic.method.getRun, { run: child })).parameters;
      const given = new Set(ofChild.map(({ name }) => name.split(".")[0]));
      assert.deepEqual([...given].sort(), ["big0", "big1"]);
      const all = await Promise.all(
        ["events", "metrics"].map((kind) => records({ client: calls }, runId, kind)),
      );
      assert.doesNotMatch(JSON.stringify(all), /hunter/);
      const { directory } = run;
      assert.equal(Deno.statSync(`${directory}/.mosaic/mlflow.json`).mode! & 0o77, 0);
    } finally {
      calls.close();
      Deno.removeSync(cwd, { recursive: true });
    }
  },
);
