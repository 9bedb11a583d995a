/** What the store keeps in memory of a run: its counters, and, while it is being written, where its series end. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { RunTelemetry, StoredEpisode, StoredWorkerEvent, TelemetryKind, ToldReward } from "../types.ts";
import { allRows, NO_SOURCE, prepareArrays, type Source } from "./reader.ts";
import type { RowRing, StepRing } from "./ring.ts";
import type { SeriesHead } from "./rollup.ts";
import { type ChecksumOf, rowChecksum } from "./row_checksums.ts";
import type { SeriesState } from "./summaries.ts";

/** A series of a run that is being written. */
export interface LiveSeries {
  summary: SeriesState;
  /** Where it ends; opened with the first point. */
  head: SeriesHead | undefined;
}

/** Only while a run is being written; dropped when it is idle and made again from its rows. */
export interface LiveState {
  /** By the four texts joined with NUL. */
  sources: Map<string, number>;
  nextSource: number;
  /** reward, episode_reward, episode_length. */
  base: LiveSeries[];
  metrics: Map<string, LiveSeries>;
  /** How many of `metrics` are counted in the store's memory. */
  counted: number;
  /** Series whose rows are to be written with the commit. */
  changed: SeriesState[];
  /** Steps that were overwritten: what a step's number is more than its position. */
  stepShift: number;
  recentRewards: number[];
  steps: StepRing;
  episodes: RowRing<StoredEpisode>;
  events: RowRing<StoredWorkerEvent>;
  touchedAt: number;
}

export interface RunState {
  runKey: number;
  attempt: number;
  heads: Record<TelemetryKind, number>;
  /** First seq kept. */
  firsts: Record<TelemetryKind, number>;
  otherLines: number;
  malformedLines: number;
  violations: Record<string, number>;
  meanReward100: number | null;
  lastRecordAt: number | null;
  /** The highest step that a metric told. */
  toldStep: number;
  toldReward: ToldReward | null;
  wide: boolean;
  /** The last step that is in a block. */
  sealed: number;
  /** Length of the texts of the rows after it, of those that this process wrote. */
  waitingText: number;
  positions: Map<number, number>;
  /** Read on demand. */
  sourceNames: Map<number, Source>;
  live: LiveState | undefined;
}

/** Different violations counted by name; the rest are counted together. */
const MAX_VIOLATION_KINDS = 64;
/** Sources remembered for reading. */
const MAX_SOURCES = 4096;

export function addViolation(state: RunState, kind: string, count: number): void {
  if (!(count > 0)) return;
  const known = Object.hasOwn(state.violations, kind);
  const name = known || Object.keys(state.violations).length < MAX_VIOLATION_KINDS ? kind.slice(0, 200) : "other";
  state.violations[name] = (state.violations[name] ?? 0) + count;
}

export function summaryOf(state: RunState | undefined): RunTelemetry {
  return {
    steps: state?.heads.steps ?? 0,
    episodes: state?.heads.episodes ?? 0,
    events: state?.heads.events ?? 0,
    metrics: state?.heads.metrics ?? 0,
    otherLines: state?.otherLines ?? 0,
    malformedLines: state?.malformedLines ?? 0,
    violations: { ...state?.violations },
    attempt: state?.attempt ?? 0,
    journalPosition: state?.positions.get(state.attempt) ?? 0,
    meanReward100: state?.meanReward100 ?? null,
    lastRecordAt: state?.lastRecordAt ?? null,
    toldStep: state?.toldStep ?? 0,
    toldReward: state?.toldReward ?? null,
  };
}

export const SOURCE_SELECT =
  `SELECT agent_id AS agentId, worker_id AS workerId, policy_label AS policyLabel, backend FROM sources
    WHERE run_key = ? AND source = ?`;

/** The tables of counters: telemetry_runs, journal_positions, sources. */
export class RunRows {
  readonly #load: StatementSync;
  readonly #positions: StatementSync;
  readonly #insert: StatementSync;
  readonly #save: StatementSync;
  readonly #advance: StatementSync;
  readonly #source: StatementSync;
  readonly #sources: StatementSync;
  readonly #insertSource: StatementSync;
  readonly #positionSum: ChecksumOf;
  readonly #sourceSum: ChecksumOf;

  constructor(db: DatabaseSync, private readonly sealedTo: (runKey: number) => number) {
    this.#load = db.prepare("SELECT * FROM telemetry_runs WHERE run_id = ?");
    this.#positions = prepareArrays(db, "SELECT attempt, position FROM journal_positions WHERE run_key = ?");
    this.#insert = db.prepare("INSERT INTO telemetry_runs (run_id) VALUES (?)");
    this.#save = db.prepare(
      `UPDATE telemetry_runs SET attempt = ?, steps = ?, episodes = ?, events = ?, metrics = ?, other_lines = ?,
        malformed_lines = ?, violations = ?, mean_reward_100 = ?, last_record_ms = ?, told_step = ?,
        told_reward = ?, told_reward_name = ?, wide = ? WHERE run_key = ?`,
    );
    this.#advance = db.prepare(
      `INSERT INTO journal_positions (run_key, attempt, position, crc) VALUES (?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET position = excluded.position, crc = excluded.crc WHERE position = ?`,
    );
    this.#positionSum = rowChecksum(db, "journal_positions", ["attempt", "position"]);
    this.#source = db.prepare(SOURCE_SELECT);
    this.#sources = prepareArrays(
      db,
      `SELECT source, agent_id, worker_id, policy_label, backend FROM sources WHERE run_key = ?
        ORDER BY source DESC LIMIT ${MAX_SOURCES}`,
    );
    const texts = ["source", "agent_id", "worker_id", "policy_label", "backend"];
    this.#insertSource = db.prepare(
      `INSERT INTO sources (run_key, ${texts.join(", ")}, crc) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#sourceSum = rowChecksum(db, "sources", texts);
  }

  load(runId: string): RunState | undefined {
    const row = this.#load.get(runId) as Record<string, number | string | null> | undefined;
    if (row === undefined) return undefined;
    const number = (name: string) => row[name] as number;
    return {
      runKey: number("run_key"),
      attempt: number("attempt"),
      heads: {
        steps: number("steps"),
        episodes: number("episodes"),
        events: number("events"),
        metrics: number("metrics"),
      },
      firsts: {
        steps: number("first_step"),
        episodes: number("first_episode"),
        events: number("first_event"),
        metrics: number("first_metric"),
      },
      otherLines: number("other_lines"),
      malformedLines: number("malformed_lines"),
      violations: typeof row.violations === "string" ? JSON.parse(row.violations) : {},
      meanReward100: row.mean_reward_100 as number | null,
      lastRecordAt: row.last_record_ms as number | null,
      toldStep: number("told_step"),
      toldReward: row.told_reward_name === null
        ? null
        : { name: row.told_reward_name as string, value: number("told_reward") },
      wide: row.wide === 1,
      waitingText: 0,
      sealed: this.sealedTo(number("run_key")),
      positions: new Map(allRows(this.#positions, number("run_key")) as [number, number][]),
      sourceNames: new Map(),
      live: undefined,
    };
  }

  create(runId: string): RunState {
    this.#insert.run(runId);
    return this.load(runId)!;
  }

  save(state: RunState): void {
    const { heads } = state;
    this.#save.run(
      state.attempt,
      heads.steps,
      heads.episodes,
      heads.events,
      heads.metrics,
      state.otherLines,
      state.malformedLines,
      Object.keys(state.violations).length === 0 ? null : JSON.stringify(state.violations),
      state.meanReward100,
      state.lastRecordAt,
      state.toldStep,
      state.toldReward?.value ?? null,
      state.toldReward?.name ?? null,
      state.wide ? 1 : 0,
      state.runKey,
    );
  }

  /** Moves the journal position; false when the stored one is not `from`. */
  advance(runKey: number, attempt: number, from: number, to: number): boolean {
    return this.#advance.run(runKey, attempt, to, this.#positionSum([attempt, to], 0), from).changes === 1;
  }

  sourceOf(state: RunState, source: number): Source {
    if (source === 0) return NO_SOURCE;
    let found = state.sourceNames.get(source);
    if (found === undefined) {
      found = (this.#source.get(state.runKey, source) as unknown as Source | undefined) ?? NO_SOURCE;
      if (state.sourceNames.size >= MAX_SOURCES) state.sourceNames.clear();
      state.sourceNames.set(source, found);
    }
    return found;
  }

  /** The newest known sources, by their texts, and the next free key. */
  sources(runKey: number): { sources: Map<string, number>; nextSource: number } {
    const rows = allRows(this.#sources, runKey);
    const sources = new Map(rows.map((row) => [row.slice(1).join("\0"), row[0] as number]));
    return { sources, nextSource: ((rows[0]?.[0] ?? 0) as number) + 1 };
  }

  /** Key of the four texts, made when it is new. (A forgotten one may get a second key: nothing relies on it.) */
  sourceKey(state: RunState, agentId: string, workerId: string, policyLabel: string, backend: string): number {
    if (agentId === "" && workerId === "" && policyLabel === "" && backend === "") return 0;
    const live = state.live!;
    const text = `${agentId}\0${workerId}\0${policyLabel}\0${backend}`;
    let source = live.sources.get(text);
    if (source === undefined) {
      source = live.nextSource++;
      const row = [source, agentId, workerId, policyLabel, backend];
      this.#insertSource.run(state.runKey, ...row, this.#sourceSum(row, 0));
      if (live.sources.size >= MAX_SOURCES) live.sources.clear();
      live.sources.set(text, source);
    }
    return source;
  }
}
