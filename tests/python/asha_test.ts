/**
 * ASHA against the real ones of Optuna and, where it is installed, of Ray Tune, on the same recorded
 * curves: whom each stops at which rung.
 */
import assert from "node:assert/strict";
import { EPOCHS, pace, play, trials, WORKERS } from "../sweeps/learner.ts";
import { pythonTest } from "./python.ts";

type Stops = [trial: number, epoch: number][];

async function rivals(python: string, min: number, reduction: number) {
  const process = new Deno.Command(python, {
    args: [new URL("asha_rivals.py", import.meta.url).pathname],
    stdin: "piped",
    stdout: "piped",
    signal: AbortSignal.timeout(240_000),
  }).spawn();
  const given = {
    ...{ epochs: EPOCHS, workers: WORKERS, min, reduction },
    trials: trials.map(({ point, curve }) => ({ pace: pace(point), curve })),
  };
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(given)));
  await writer.close();
  const { success, stdout } = await process.output();
  assert.ok(success);
  return JSON.parse(new TextDecoder().decode(stdout)) as { optuna: Stops; ray?: Stops };
}

pythonTest(
  "asha: stops the same trials at the same rungs as Optuna's",
  ["optuna"],
  async (python) => {
    const rows = [];
    for (const [min, reduction] of [[3, 3], [1, 3], [3, 2], [2, 4]] as const) {
      const { stops } = play(`asha:max=${EPOCHS},min=${min},reduction=${reduction}`);
      const { optuna, ray } = await rivals(python, min, reduction);
      const both = (of: Stops | undefined) =>
        of === undefined
          ? "not installed"
          : `${
            of.filter(([trial, epoch]) => stops.some(([t, e]) => t === trial && e === epoch)).length
          } of ${of.length}`;
      rows.push({
        ...{ min, reduction, "mosaic's stops": stops.length },
        ...{ "Optuna's, the same": both(optuna), "Ray Tune's, the same": both(ray) },
      });
      assert.deepEqual(stops, optuna);
    }
    console.table(rows);
  },
);
