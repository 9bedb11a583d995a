/**
 * Estimates each run's share of the database's used pages, by its counters and the texts of a few
 * of its rows. Counting its pages would read them all; this reads some 30 rows per run, whatever
 * its length.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { textColumns } from "../../records/record_fields.ts";
import { allRows, prepareArrays } from "../tables/row_reader.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";

/** Rows of a kind whose texts are measured, evenly from the first to the last. */
const SAMPLES = 10;
/** Runs per turn of the event loop: about 5 ms. */
const RUNS_PER_TURN = 50;
/** Bytes of a run's rows in the small tables. */
const RUN_BYTES = 300;

/** A step's share of the rollups' buckets. */
const BUCKET_BYTES = 3;

/** Bytes of a row without its texts, including its share of the rollups' buckets. */
const KINDS = [
  { table: "steps", counter: "steps", rowBytes: 53, texts: textColumns("steps") },
  { table: "episodes", counter: "episodes", rowBytes: 55, texts: textColumns("episodes") },
  { table: "worker_events", counter: "events", rowBytes: 33, texts: textColumns("events") },
  { table: "metrics", counter: "metrics", rowBytes: 43, texts: textColumns("metrics") },
] as const;

/**
 * Bytes by run id; their sum is `usedBytes`, without runs that are being deleted. Yields to other
 * work, so the numbers of runs that are being written belong to slightly different moments.
 */
export async function bytesOfRuns(
  db: DatabaseSync,
  usedBytes: () => number,
): Promise<Map<string, number>> {
  const rows = allRows(prepareArrays(
    db,
    `SELECT run_id, deleting, run_key, ${
      KINDS.map(({ counter }) => counter).join(", ")
    } FROM telemetry_runs`,
  ));
  const measures = KINDS.map(({ table, texts }): StatementSync | undefined =>
    texts.length === 0 ? undefined : prepareArrays(
      db,
      // octet_length reads no text.
      `SELECT avg(${
        texts.map((text) => `ifnull(octet_length(${text}), 0)`).join(" + ")
      }) FROM ${table}
        WHERE run_key = ? AND seq IN (${new Array(SAMPLES).fill("?").join(",")})`,
    )
  );
  const block = prepareArrays(
    db,
    `SELECT octet_length(hot) + octet_length(body) + 120, n, first_seq FROM step_blocks WHERE run_key = ? AND first_seq <= ?
      ORDER BY first_seq DESC LIMIT 1`,
  );
  /** Bytes of a run's blocks, and number of their steps. */
  const blocksOf = (runKey: number, steps: number): [bytes: number, sealed: number] => {
    const [newest] = allRows(block, runKey, steps) as number[][];
    if (newest === undefined) return [0, 0];
    const sealed = newest[2]! + newest[1]! - 1;
    const some = evenly(0, sealed).flatMap((seq) => allRows(block, runKey, seq)) as number[][];
    const [bytes, rows] = [0, 1].map((column) => some.reduce((sum, row) => sum + row[column]!, 0));
    return [sealed * (bytes! / rows! + BUCKET_BYTES), sealed];
  };
  const weights: number[] = [];
  let sum = 0;
  for (const [i, [, , runKey, ...counts]] of rows.entries()) {
    let weight = RUN_BYTES;
    for (const [k, { table, rowBytes }] of KINDS.entries()) {
      const count = counts[k] as number;
      if (count === 0) continue;
      const [bytes, sealed] = table === "steps" ? blocksOf(runKey as number, count) : [0, 0];
      const measured = measures[k] &&
        allRows(measures[k], runKey as number, ...evenly(sealed, count));
      weight += bytes + (count - sealed) * (rowBytes + ((measured?.[0]?.[0] ?? 0) as number));
    }
    weights.push(weight);
    sum += weight;
    if (i % RUNS_PER_TURN === RUNS_PER_TURN - 1) await yieldToOthers();
  }
  const scale = sum === 0 ? 0 : usedBytes() / sum;
  const found = new Map<string, number>();
  for (const [i, [runId, deleting]] of rows.entries()) {
    if (deleting === 0) found.set(runId as string, Math.round(weights[i]! * scale));
  }
  return found;
}

/** Some of the seqs after `after`, up to `last`. */
function evenly(after: number, last: number): number[] {
  return Array.from(
    { length: SAMPLES },
    (_, i) => after + 1 + Math.floor((last - after - 1) * i / (SAMPLES - 1)),
  );
}
