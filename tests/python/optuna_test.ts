/** The driver of Optuna (examples/optuna_sweep.py): its study survives the optimizer's and the daemon's death. */
import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import type { SweepJson } from "../../src/sweeps/results/sweep_json.ts";
import { PROGRAM, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { pythonTest } from "./python.ts";

const DRIVER = new URL("../../examples/optuna_sweep.py", import.meta.url).pathname;
const RUNS = 6;
const STUDY = `
import json, sys, optuna
study = optuna.load_study(study_name="s", storage=sys.argv[1])
print(json.dumps([[t.state.name, t.value, t.params, t.user_attrs.get("mosaic_trial", [0, -1])[1]] for t in study.trials]))
`;
/** A study of somebody else, with six trials. */
const OTHERS = `
import sys, optuna
study = optuna.create_study(study_name="others", storage=sys.argv[1], direction="minimize")
study.optimize(lambda t: t.suggest_float("lr", 0.001, 1.0, log=True) + t.suggest_int("layers", 1, 3), n_trials=6)
`;

pythonTest(
  "optuna: its study has each trial once, whoever dies, and one that exists goes on as it is",
  ["optuna"],
  async (python) => {
    await using daemon = await TestDaemon.start({ args: ["--max-runs", "3"] });
    const bin = `${daemon.stateDir}/bin`;
    Deno.mkdirSync(bin);
    const words = PROGRAM.map((word) => `'${word}'`).join(" ");
    Deno.writeTextFileSync(`${bin}/mosaic`, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
    const storage = `sqlite:///${daemon.stateDir}/study.db`;
    const env = {
      MOSAIC_STATE_DIR: daemon.stateDir,
      NO_COLOR: "1",
      PATH: `${bin}:${Deno.env.get("PATH")}`,
    };
    const command = [
      "sh",
      "-c",
      `echo "score=$(echo {lr} | tr -dc 0-9 | cut -c 1-4){layers} step=1"; sleep 0.3`,
    ];
    const drive = (name: string, ...args: string[]) =>
      new Deno.Command(python, {
        args: [
          ...[DRIVER, "--name", name, "--metric", "score:min", "--max-parallel", "2"],
          ...["--storage", storage, ...args, "--", ...command],
        ],
        ...{ env, stdin: "null", stdout: "piped", stderr: "piped" },
      }).spawn();
    const asked = async (script: string) => {
      const { success, stdout, stderr } = await new Deno.Command(python, {
        args: ["-c", script, storage],
      }).output();
      assert.ok(success, new TextDecoder().decode(stderr));
      return new TextDecoder().decode(stdout);
    };
    const made = async (name: string) => {
      const { sweeps } = await daemon.client.unary(Mosaic.method.listSweeps, {});
      return sweeps.find((sweep) => sweep.name === name)?.made ?? 0;
    };
    const space = [
      "--budget",
      `${RUNS}runs`,
      "--space",
      "lr=log(0.001,1)",
      "--grid",
      "layers=1,2,3",
    ];

    const first = drive("s", ...space);
    await until(async () => await made("s") >= 3, { what: "three trials", timeoutMs: 60_000 });
    first.kill("SIGKILL");
    await daemon.kill9();
    await first.output();
    await daemon.restart();
    const { code, stderr } = await drive("s", ...space).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));

    const { json } = await daemon.client.unary(Mosaic.method.getSweep, { sweep: "s", trials: 100 });
    const { detail } = JSON.parse(json) as SweepJson;
    const trials = detail!.trials.toReversed();
    assert.equal(trials.length, RUNS);
    const study = JSON.parse(await asked(STUDY)) as [string, number, unknown, number][];
    const [whole, cut] = [study.filter((one) => one[3] >= 0), study.filter((one) => one[3] < 0)];
    assert.ok(cut.every(([state]) => state === "FAIL"), JSON.stringify(cut));
    assert.deepEqual(
      whole.toSorted((a, b) => a[3] - b[3]),
      trials.map(({ trial, value, parameters }) => ["COMPLETE", value, parameters, trial]),
    );

    await asked(OTHERS);
    const others = await drive("o", "--study", "others", "--budget", "2runs").output();
    assert.equal(others.code, 0, new TextDecoder().decode(others.stderr));
    assert.equal(await made("o"), 2);
    const wrong = await drive("p", "--study", "others", "--budget", "2runs", "--metric", "x:max")
      .output();
    assert.equal(wrong.code, 1);
    assert.match(new TextDecoder().decode(wrong.stderr), /another direction: give --metric x:min/);
  },
);
