/**
 * What every launcher promises (docs/reference/launchers.md), tried on one that is ready to take
 * jobs.
 */
import assert from "node:assert/strict";
import type {
  Launcher,
  Observation,
  Order,
  Sighting,
} from "../../../src/dispatch/launch/engine/launcher.ts";
import { until } from "../../harness/wait.ts";

export interface Subject {
  launcher: Launcher;
  /** A job that runs until it is stopped. */
  order: (name: string) => Order;
  /** Lets the job run, where the launcher does not by itself. */
  run: (job: Sighting) => void;
}

function jobs(observation: Observation): readonly Sighting[] {
  assert.equal(observation.t, "answer");
  return observation.t === "answer" ? observation.jobs : [];
}

export async function conformance({ launcher, order, run }: Subject): Promise<void> {
  const name = `mosaic-conformance${Deno.pid}-1`;
  assert.deepEqual(jobs(await launcher.find(name)), []);

  const first = await launcher.launch(order(name));
  const again = await launcher.launch(order(name));
  assert.equal(first.t, "placed");
  assert.deepEqual(again, first, "a job of this name is not made again");
  const [found, ...further] = jobs(await launcher.find(name));
  assert.deepEqual(further, []);
  assert.ok(
    found !== undefined && first.t === "placed" && found.job === first.job && found.submittedAt > 0,
  );

  run(found);
  const state = async () => jobs(await launcher.observe()).find((job) => job.name === name)?.state;
  await until(async () => (await state())?.t === "running", { what: "the job to run", state });
  const placed = jobs(await launcher.observe()).find((job) => job.name === name)!;
  assert.equal(placed.nodes.length, 1);
  assert.match(launcher.describe(placed), new RegExp(found.job));

  await launcher.stop({ name: `${name}.2`, job: found.job }, "now");
  assert.equal((await state())?.t, "running", "an id with another name is another job");
  await launcher.stop({ name, job: found.job }, "graceful");
  await until(async () => (await state())?.t === "ended", { what: "the job's end", state });
  const ended = await state();
  assert.deepEqual(ended?.t === "ended" && { ...ended.end, text: "" }, {
    kind: "job_cancelled",
    proven: true,
    text: "",
  });
  await launcher.stop({ name, job: found.job }, "now");
}
