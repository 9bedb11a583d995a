/**
 * The independent checker: what was printed against what is stored and what each subscriber saw.
 */
import { type Form, lineAt } from "./lines.ts";

/** A stored record as the telemetry streams give it (docs/reference/telemetry.md). */
export interface StoredRecord {
  seq: number;
  step_index?: number;
  episode_index?: number;
  observation?: unknown;
  agent_id?: string;
  reward?: number;
  total_reward?: number;
  /** An event's kind. */
  event?: string;
}

export interface Printed {
  seed: number;
  /** All lines of a worker that ends by itself. */
  lines: number;
  /** So many were surely printed. */
  atLeast: number;
  /** The worker got to its end. */
  complete: boolean;
  /** Somebody emptied its journal: what was not read then is lost, and an event tells so. */
  emptied?: boolean;
  /** Of `lineAt`. */
  form?: Form;
}

export interface Stored {
  steps: StoredRecord[];
  episodes: StoredRecord[];
  /** Events that tell of a loss in the journal. */
  losses?: number;
}

/** Everything wrong; empty when every record was stored exactly once and in order. */
export function check(printed: Printed, stored: Stored): string[] {
  const findings: string[] = [];
  const expectedSteps: number[] = [];
  const expectedEpisodes: number[] = [];
  for (let n = 1; n <= printed.lines; n++) {
    const { kind } = lineAt(printed.seed, n, printed.form);
    if (kind === "step") expectedSteps.push(n);
    if (kind === "episode") expectedEpisodes.push(n);
  }
  const left = printed.emptied === true && (stored.losses ?? 0) > 0;
  findings.push(
    ...sequence("steps", stored.steps, expectedSteps, (r) => r.step_index!, printed, left),
  );
  findings.push(
    ...sequence(
      "episodes",
      stored.episodes,
      expectedEpisodes,
      (r) => r.episode_index!,
      printed,
      left,
    ),
  );
  for (const record of stored.steps) {
    const line = lineAt(printed.seed, record.step_index!, printed.form);
    if (line.kind !== "step") {
      findings.push(
        `steps: seq ${record.seq} claims line ${record.step_index}, which is ${line.kind}`,
      );
    } else if (
      record.reward !== line.reward || record.agent_id !== line.agent ||
      JSON.stringify(record.observation) !== JSON.stringify(line.observation)
    ) findings.push(`steps: seq ${record.seq} is not what line ${record.step_index} said`);
  }
  for (const record of stored.episodes) {
    const line = lineAt(printed.seed, record.episode_index!, printed.form);
    if (line.kind !== "episode" || line.reward !== record.total_reward) {
      findings.push(`episodes: seq ${record.seq} is not what line ${record.episode_index} said`);
    }
  }
  return findings.slice(0, 10);
}

/**
 * What is wrong with a log that has text alone: it is what was printed, up to where the worker got.
 */
export function checkLog(printed: Printed, log: string): string[] {
  const { seed, lines, atLeast, complete, form } = printed;
  const texts = Array.from({ length: lines }, (_, i) => lineAt(seed, i + 1, form).text + "\n");
  const all = texts.join("");
  const least = texts.slice(0, complete ? lines : atLeast).join("").length;
  if (!all.startsWith(log)) return ["the log is not what was printed"];
  return log.length < least ? [`the log has ${log.length} of ${least} characters`] : [];
}

function sequence(
  kind: string,
  records: StoredRecord[],
  expected: number[],
  lineOf: (record: StoredRecord) => number,
  printed: Printed,
  mayLack: boolean,
): string[] {
  let at = 0;
  for (const [i, record] of records.entries()) {
    if (record.seq !== i + 1) return [`${kind}: seq ${record.seq} stands where ${i + 1} belongs`];
    const line = lineOf(record);
    while (mayLack && at < expected.length && expected[at]! < line) at++;
    if (line !== expected[at++]) {
      return [
        `${kind}: seq ${record.seq} is line ${line}, but line ${expected[at - 1]} belongs there`,
      ];
    }
  }
  const surely =
    expected.filter((n) => n <= (printed.complete ? printed.lines : printed.atLeast)).length;
  return records.length < surely && !mayLack
    ? [`${kind}: ${records.length} stored of ${surely} that were surely printed`]
    : [];
}

/** A subscriber saw, over all its connections, an unbroken run of seqs from 1, each once. */
export function checkSeen(who: string, seqs: number[], storedCount: number): string[] {
  for (const [i, seq] of seqs.entries()) {
    if (seq !== i + 1) return [`${who}: saw seq ${seq} where ${i + 1} belongs`];
  }
  return seqs.length === storedCount ? [] : [`${who}: saw ${seqs.length} of ${storedCount}`];
}
