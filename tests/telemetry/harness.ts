/** A store in a directory of its own, and batches to put into it. */
import type { IngestBatch } from "../../src/records/ingest_batch.ts";
import type { StepColumns } from "../../src/gen/records/record_types.ts";
import type { TelemetryKind } from "../../src/records/record_fields.ts";
import type { StoredOf } from "../../src/records/stored.ts";
import { type StoreOptions, TelemetryStore } from "../../src/telemetry/store.ts";

export interface Bench {
  path: string;
  store: TelemetryStore;
  /** Closes the store and opens it again, as a restarted daemon does. */
  reopen(options?: StoreOptions): TelemetryStore;
}

export async function withStore(
  work: (bench: Bench) => void | Promise<void>,
  options: StoreOptions = {},
): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-store-" });
  const path = `${directory}/telemetry.sqlite`;
  const bench: Bench = {
    path,
    store: TelemetryStore.open(path, options),
    reopen(again = options) {
      bench.store.close();
      return bench.store = TelemetryStore.open(path, again);
    },
  };
  try {
    await work(bench);
  } finally {
    bench.store.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

export function batch(from: number, to: number, parts: Partial<IngestBatch> = {}): IngestBatch {
  return {
    from,
    to,
    steps: { n: 0 },
    episodes: [],
    events: [],
    otherLines: 0,
    malformedLines: 0,
    violations: {},
    ...parts,
  };
}

/** `n` ordinary steps, numbered on from `start`. */
export function steps(start: number, n: number, extra: Partial<StepColumns> = {}): StepColumns {
  const index = Array.from({ length: n }, (_, i) => start + i);
  return {
    n,
    episode: index.map((i) => i >> 4),
    step: index.map((i) => i & 15),
    reward: index.map((i) => Math.sin(i) * 10),
    tsNs: index.map((i) => String(1_700_000_000_000_000_000n + BigInt(i) * 1_000_003n)),
    actionJson: index.map((i) => String(i % 3)),
    observationJson: index.map((i) => `[${i},0.5]`),
    agentId: "agent_1",
    ...extra,
  };
}

/** The whole log of a run, read in chunks as a subscriber does; checks that seq is contiguous. */
export function readAll<K extends TelemetryKind>(
  store: TelemetryStore,
  runId: string,
  kind: K,
  limit = 1000,
): StoredOf[K][] {
  const rows: StoredOf[K][] = [];
  for (let since = 0;;) {
    const chunk = store.read(runId, kind, since, limit);
    if (chunk.length === 0) return rows;
    for (const row of chunk) {
      if (row.seq !== since + 1) throw new Error(`${kind} ${row.seq} follows ${since}`);
      since = row.seq;
      rows.push(row);
    }
  }
}
