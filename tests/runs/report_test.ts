/**
 * A report from a reader alone: the same file for a client's messages and for the daemon's own
 * rows.
 */
import { strict as assert } from "node:assert";
import type { CurveBucket } from "../../src/runs/curves.ts";
import {
  type ReportedRun,
  reportOf,
  type ReportOptions,
  type ReportReader,
} from "../../src/runs/report/report.ts";

const NOW = Date.UTC(2026, 0, 2);
const OPTIONS: ReportOptions = { band: "sd", log: false, time: false, overwritten: false };

function run(name: string, given: Partial<ReportedRun> = {}): ReportedRun {
  return {
    run_id: `ID-${name}`,
    name,
    state: "TERMINATED",
    tags: [],
    notes: "",
    startedAt: NOW - 90_000,
    finishedAt: NOW - 30_000,
    steps: 1200,
    episodes: 8,
    parameters: [{ name: "lr", value: 0.5 }],
    config: { run_name: name, password: "hidden-one" },
    ...given,
  };
}

/**
 * Series "loss" of every run, falling from 3 to 1. @param whole the type of whole numbers, and what
 * absent values are
 */
function reader(whole: (n: number) => bigint | number, absent: null | undefined) {
  const asked: string[] = [];
  const bucket = (x: number, mean: number): CurveBucket => ({
    ...{ firstX: whole(x), lastX: whole(x), mean, atMs: NOW + x * 1000, overwritten: false },
    ...{ damaged: x === 3, step: x * 10, attempt: absent },
  });
  const from: ReportReader = {
    series: () =>
      Promise.resolve([
        { name: "loss", points: whole(3), last: 1, min: 1, max: 3 },
        { name: "all NaN", points: whole(2), last: absent, min: absent, max: absent },
        { name: "episode_reward", points: whole(0), last: absent },
      ]),
    curve(runId, name, _, overwritten) {
      asked.push(`${runId} ${name} ${overwritten}`);
      return Promise.resolve(name === "loss" ? [bucket(1, 3), bucket(2, 2), bucket(3, 1)] : []);
    },
  };
  return { from, asked };
}

Deno.test("report: a client's messages and the daemon's rows give the same file", async () => {
  const runs = [run("a"), run("b", { parameters: [{ name: "lr", value: 1 }], notes: "**good**" })];
  const messages = reader(BigInt, undefined);
  const rows = reader(Number, null);
  const text = await reportOf(messages.from, NOW, runs, OPTIONS);
  assert.equal(await reportOf(rows.from, NOW, runs, OPTIONS), text);
  assert.deepEqual(rows.asked, messages.asked);
  // Series without points are not asked for.
  assert.deepEqual(rows.asked, [
    "ID-a loss false",
    "ID-b loss false",
    "ID-a all NaN false",
    "ID-b all NaN false",
  ]);
  for (
    const part of [
      "<title>a, b</title>",
      "<td>1m 00s</td><td>1,200</td><td>8</td><td>1</td><td>1</td><td>3</td>",
      `<th scope="row">lr</th><td>0.5</td><td>1</td>`,
      `<th scope="row">all NaN</th><td></td><td></td>`,
      "<strong>good</strong>",
      "by step",
      "2 points are missing or damaged",
    ]
  ) assert.ok(text.includes(part), part);
  assert.ok(!text.includes("hidden-one"));
});

Deno.test("report: groups are one row and one curve each, without overwritten points", async () => {
  const { from, asked } = reader(Number, null);
  const runs = [
    run("ppo-seed1"),
    run("ppo-seed2", { steps: 1400, startedAt: null, finishedAt: null }),
  ];
  const text = await reportOf(from, NOW, runs, {
    ...OPTIONS,
    ...{ groupBy: "name", metrics: ["loss"], overwritten: true, title: "Seeds" },
  });
  assert.deepEqual(asked, ["ID-ppo-seed1 loss false", "ID-ppo-seed2 loss false"]);
  assert.match(text, /<title>Seeds<\/title>/);
  assert.match(text, /<th scope="row">ppo<\/th><td>2<\/td><td>2 Succeeded<\/td>/);
  assert.match(text, /<td>60 \(1 of 2\)<\/td><td>1300 ± 141\.4<\/td>/);
});

Deno.test("report: a metric or a grouping that does not exist is named", async () => {
  const { from } = reader(Number, null);
  await assert.rejects(reportOf(from, NOW, [run("a")], { ...OPTIONS, metrics: ["los"] }), /"los"/);
  await assert.rejects(
    reportOf(from, NOW, [run("a")], { ...OPTIONS, groupBy: "nmae" }),
    /--group-by is "nmae"/,
  );
});
