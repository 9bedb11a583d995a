/**
 * A state directory of a lab: many runs with many metrics each. One run is stored by the store
 * itself; the others are copies of its rows with other values, because storing a billion points in
 * the usual way takes hours.
 */
import { DatabaseSync } from "node:sqlite";
import type { Layout } from "../src/base/layout.ts";
import { Registry } from "../src/registry/registry.ts";
import { EMPTY_EPISODE, EMPTY_WORKER_EVENT } from "../src/gen/records/record_types.ts";
import { TelemetryStore } from "../src/telemetry/store.ts";

export interface LabSize {
  runs: number;
  metrics: number;
  /** Number of metrics that are logged at each update; the others are logged four times in all. */
  dense: number;
  updates: number;
}

/** Steps between two updates. */
const STRIDE = 2048;
/** Times that the other metrics are logged. */
const SPARSE = 4;
const START_MS = Date.UTC(2026, 0, 1);
const UPDATE_MS = 4000;

export const labRun = (i: number) => `01LAB${String(i).padStart(21, "0")}`;

export function prepareLab(layout: Layout, size: LabSize): void {
  for (const directory of layout.directories()) Deno.mkdirSync(directory, { recursive: true });
  const registry = Registry.open(layout.registryDb);
  for (let i = 0; i < size.runs; i++) {
    const name = `ppo-lr${i % 10}-seed${Math.floor(i / 10)}`;
    registry.insert({
      ...{
        runId: labRun(i),
        name,
        digest: "0".repeat(64),
        maxAttempts: 1,
        priority: 0,
        baseDir: "runs",
      },
      ...{
        tags: ["lab"],
        configJson: JSON.stringify({ run_name: name, lr: 10 ** -(i % 10), seed: i }),
      },
      ...{ gpusRequested: 0, gpusMandatory: false, workerId: "", agentId: "agent_1", owner: "" },
    });
    const events = ["spawned", "registered", "active", "exited_ok"] as const;
    for (const type of events) {
      registry.apply(labRun(i), { type }, type === "spawned" ? { startedAt: START_MS } : {});
    }
  }
  registry.close();
  const store = TelemetryStore.open(layout.telemetryDb);
  for (let u = 0; u < size.updates; u++) writeUpdate(store, u, size);
  store.close();
  copyRun(layout.telemetryDb, size.runs);
}

function writeUpdate(store: TelemetryStore, u: number, { metrics, dense, updates }: LabSize): void {
  const tsNs = `${BigInt(START_MS + u * UPDATE_MS) * 1_000_000n}`;
  const sparse = u % Math.ceil(updates / SPARSE) === 0;
  const point = (m: number) =>
    Math.exp(-u / updates * (1 + m % 3)) * (1 + m % 5) + Math.sin(u / 7 + m) / 20;
  const names = Array.from(
    { length: sparse ? metrics : dense },
    (_, m) => [labMetric(m, dense), point(m)],
  );
  const data = { step: (u + 1) * STRIDE, ...Object.fromEntries(names) };
  const event = { ...EMPTY_WORKER_EVENT, kind: "metrics", tsNs, dataJson: JSON.stringify(data) };
  const episode = {
    ...EMPTY_EPISODE,
    episode: u,
    totalReward: 200 * (1 - Math.exp(-u / 60)),
    steps: 20 + u,
    tsNs,
  };
  store.append(labRun(0), 1, [], [episode], [event]);
}

/** Names of dense metrics come first. */
export function labMetric(m: number, dense: number): string {
  return m < dense ? `charts/metric${m}` : `layer${m % 32}/metric${m}`;
}

const TABLES = ["episodes", "worker_events", "metrics", "series", "series_buckets"];
/** A run's curves are the first run's times this factor. */
const FACTOR = "(0.5 + (r.run_key * 7919 % 1000) / 1000.0)";
const SCALED: Record<string, string[]> = {
  episodes: ["total_reward"],
  metrics: ["value"],
  series: ["last", "min", "max", "sum"],
  series_buckets: ["min", "max", "sum", "last"],
};

function copyRun(path: string, runs: number): void {
  const db = new DatabaseSync(path);
  db.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144");
  const columnsOf = (table: string) =>
    db.prepare("SELECT name FROM pragma_table_info(?)").all(table).map(({ name }) =>
      name as string
    );
  const counters = columnsOf("telemetry_runs").filter((c) => c !== "run_key" && c !== "run_id");
  db.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${runs - 1})
    INSERT INTO telemetry_runs (run_id, ${counters.join()})
    SELECT '01LAB' || printf('%021d', i), ${counters.join()} FROM n CROSS JOIN telemetry_runs WHERE run_key = 1`);
  for (const table of TABLES) {
    const values = columnsOf(table).map((column) =>
      column === "run_key"
        ? "r.run_key"
        : SCALED[table]?.includes(column)
        ? `t.${column} * ${FACTOR}`
        : `t.${column}`
    );
    db.exec(
      `INSERT INTO ${table} SELECT ${values.join()} FROM telemetry_runs r CROSS JOIN ${table} t
      WHERE r.run_key > 1 AND t.run_key = 1 ORDER BY r.run_key`,
    );
  }
  db.close();
}
