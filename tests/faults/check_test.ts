/** The checker itself: it finds what it is there to find. */
import assert from "node:assert/strict";
import { check, checkLog, checkSeen, type Stored } from "./check.ts";
import { lineAt } from "./lines.ts";
import { scheduleOf } from "./schedule.ts";
import { SHORT_SHARES } from "./schedules.ts";

const printed = { seed: 5, lines: 400, atLeast: 400, complete: true };

function rightly(): Stored {
  const stored: Stored = { steps: [], episodes: [] };
  for (let n = 1; n <= printed.lines; n++) {
    const line = lineAt(printed.seed, n);
    if (line.kind === "step") {
      const { observation, reward, agent } = line;
      stored.steps.push({
        seq: stored.steps.length + 1,
        step_index: n,
        observation,
        reward,
        agent_id: agent,
      });
    } else if (line.kind === "episode") {
      stored.episodes.push({
        seq: stored.episodes.length + 1,
        episode_index: n,
        total_reward: line.reward,
      });
    }
  }
  return stored;
}

/** Seqs as a store gives them, after records went missing or came twice. */
function renumber(stored: Stored): Stored {
  stored.steps.forEach((record, i) => record.seq = i + 1);
  return stored;
}

Deno.test("checker: everything stored once and in order has no findings", () => {
  assert.deepEqual(check(printed, rightly()), []);
});

Deno.test("checker: finds a lost, a repeated, an exchanged, a changed and a missing last record", () => {
  const lost = rightly();
  lost.steps.splice(100, 1);
  assert.match(check(printed, renumber(lost))[0]!, /belongs there/);
  const repeated = rightly();
  repeated.steps.splice(100, 0, { ...repeated.steps[100]! });
  assert.match(check(printed, renumber(repeated))[0]!, /belongs there/);
  const exchanged = rightly();
  [exchanged.steps[7], exchanged.steps[8]] = [exchanged.steps[8]!, exchanged.steps[7]!];
  assert.match(check(printed, renumber(exchanged))[0]!, /belongs there/);
  const changed = rightly();
  changed.steps[50]!.reward! += 1;
  assert.match(check(printed, changed)[0]!, /is not what line/);
  const short = rightly();
  short.steps.pop();
  assert.match(check(printed, short)[0]!, /surely printed/);
  const gap = rightly();
  gap.steps.splice(100, 1);
  assert.match(check(printed, gap)[0]!, /stands where/);
});

Deno.test("checker: of an emptied journal records may lack where an event tells so; none comes twice or in another order", () => {
  const lost = rightly();
  lost.steps.splice(100, 20);
  renumber(lost);
  const emptied = { ...printed, emptied: true };
  assert.deepEqual(check(emptied, { ...lost, losses: 1 }), []);
  assert.match(check(emptied, { ...lost, losses: 0 })[0]!, /belongs there/);
  assert.match(check(printed, { ...lost, losses: 1 })[0]!, /belongs there/);
  const repeated = rightly();
  repeated.steps.splice(100, 0, { ...repeated.steps[90]! });
  assert.match(check(emptied, { ...renumber(repeated), losses: 1 })[0]!, /belongs there/);
});

Deno.test("checker: a subscriber's gap, repetition and early end are found", () => {
  assert.deepEqual(checkSeen("s", [1, 2, 3], 3), []);
  assert.match(checkSeen("s", [1, 3], 3)[0]!, /saw seq 3 where 2/);
  assert.match(checkSeen("s", [1, 2, 2], 3)[0]!, /saw seq 2 where 3/);
  assert.match(checkSeen("s", [1, 2], 3)[0]!, /saw 2 of 3/);
});

Deno.test("checker: a log is what was printed, as far as the worker got", () => {
  const ofDigits = { ...printed, form: "digits" as const };
  const lines = Array.from(
    { length: printed.lines },
    (_, i) => `${lineAt(printed.seed, i + 1, "digits").text}\n`,
  );
  const cut = lines.slice(0, 300).join("");
  assert.deepEqual(checkLog(ofDigits, lines.join("")), []);
  assert.deepEqual(checkLog({ ...ofDigits, atLeast: 290, complete: false }, cut), []);
  assert.match(checkLog(ofDigits, cut)[0]!, /the log has/);
  assert.match(checkLog(ofDigits, lines.toReversed().join(""))[0]!, /not what was printed/);
});

Deno.test("the schedules that always run have every fault at least twice", () => {
  /** Its faults, and what else it has. */
  const kindsOf = (seed: number): Set<string> => {
    const { runs, faults, thinCutAfterMs, deleteKilledAfterMs } = scheduleOf(seed);
    return new Set([
      ...faults.map(({ fault }) => fault.type),
      ...runs.map(({ form }) => form),
      ...(thinCutAfterMs === undefined ? [] : ["thin-cut"]),
      ...(deleteKilledAfterMs === undefined ? [] : ["delete-killed"]),
    ]);
  };
  const all = new Set(Array.from({ length: 50 }, (_, i) => [...kindsOf(i + 1)]).flat());
  assert.ok(all.size >= 20, [...all].join());
  const short = SHORT_SHARES.flat().map(kindsOf);
  assert.equal(new Set(SHORT_SHARES.flat()).size, 15);
  assert.deepEqual(
    [...all].filter((kind) => short.filter((kinds) => kinds.has(kind)).length < 2),
    [],
  );
});
