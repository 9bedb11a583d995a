/**
 * What the store keeps in memory for a run: its counters, and, while it is being written, the ends
 * of its series.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { TelemetryKind } from "../../records/record_fields.ts";
import type { StoredEpisode, StoredWorkerEvent } from "../../gen/records/record_types.ts";
import type { ReportedReward, RunTelemetry } from "../../records/stored.ts";
import {
  allRows,
  NO_SOURCE,
  prepareArrays,
  type Source,
  SOURCE_SELECT,
} from "../tables/row_reader.ts";
import type { RowRing, StepRing } from "./ring.ts";
import type { SeriesHead } from "../series/rollup.ts";
import type { BlockSteps } from "../../records/step_block.ts";
import { type ChecksumOf, CRC_COLUMN, intact, rowChecksum } from "../tables/row_checksums.ts";
import type { SeriesState } from "../series/summaries.ts";
import { MosaicError } from "../../base/errors.ts";

/** A series of a run that is being written. */
export interface LiveSeries {
  summary: SeriesState;
  /** The end of the series; opened with the first point. */
  head: SeriesHead | undefined;
  /** With those of other sources that are called alike. */
  isCompared?: boolean;
}

/** Exists only while a run is being written; dropped when it is idle and rebuilt from its rows. */
export interface LiveState {
  /** By the four texts joined with NUL. */
  sources: Map<string, number>;
  nextSource: number;
  /** reward, episode_reward, episode_length. */
  base: LiveSeries[];
  metrics: Map<string, LiveSeries>;
  /** The worker's metrics by the last part of their names. */
  byLastPart: Map<string, SeriesState[]>;
  /** How many of `metrics` mosaic adds itself: they take none of the worker's places. */
  ownMetrics: number;
  /** How many of `metrics` are included in the store's memory count. */
  counted: number;
  /** Series whose rows are to be written before the commit. */
  changed: SeriesState[];
  /** Steps of the transaction that are not in a block yet. */
  unsealed: (BlockSteps & { textLength: number })[];
  /** Number of overwritten steps: a step's number minus its position. */
  stepShift: number;
  recentRewards: number[];
  steps: StepRing;
  episodes: RowRing<StoredEpisode>;
  events: RowRing<StoredWorkerEvent>;
  touchedAt: number;
}

export interface SmallBlocks {
  blocks: number;
  steps: number;
  /** Length of their texts. */
  text: number;
}
export const NO_BLOCKS: SmallBlocks = { blocks: 0, steps: 0, text: 0 };

export interface RunState {
  runKey: number;
  attempt: number;
  heads: Record<TelemetryKind, number>;
  /** First stored seq. */
  firsts: Record<TelemetryKind, number>;
  otherLines: number;
  malformedLines: number;
  violations: Record<string, number>;
  meanReward100: number | null;
  lastRecordAt: number | null;
  /** The highest step of a metric. */
  toldStep: number;
  /**
   * The highest step of a metric of the newest attempt since the store was opened, and that
   * attempt.
   */
  attemptStep: { attempt: number; step: number };
  reportedReward: ReportedReward | null;
  wide: boolean;
  /** The last step that is in a block, or will be after the commit. */
  sealed: number;
  /** The newest small blocks up to `sealed` that this process wrote: they will be merged. */
  small: SmallBlocks;
  /** Stored position of each attempt's journal; NaN: the database's value is damaged. */
  positions: Map<number, number>;
  /** Read on demand. */
  sourceNames: Map<number, Source>;
  live: LiveState | undefined;
}

/** Violations counted by name; further names are counted together. */
const MAX_VIOLATION_KINDS = 64;
/** Sources kept in memory for reading. */
const MAX_SOURCES = 4096;

export function addViolation(state: RunState, kind: string, count: number): void {
  if (!(count > 0)) return;
  const known = Object.hasOwn(state.violations, kind);
  const name = known || Object.keys(state.violations).length < MAX_VIOLATION_KINDS
    ? kind.slice(0, 200)
    : "other";
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
    journalPosition: state?.positions.get(state.attempt) || 0,
    meanReward100: state?.meanReward100 ?? null,
    lastRecordAt: state?.lastRecordAt ?? null,
    toldStep: state?.toldStep ?? 0,
    reportedReward: state?.reportedReward ?? null,
  };
}

/**
 * @throws MosaicError `unavailable` if it is damaged: with a wrong position records would be lost
 * or stored twice
 */
export function positionOf({ positions }: RunState, runId: string, attempt: number): number {
  const position = positions.get(attempt) ?? 0;
  if (!Number.isNaN(position)) return position;
  throw new MosaicError(
    "unavailable",
    `the position up to which attempt ${attempt} of run ${runId} is stored is damaged`,
    {
      hint:
        "Stop the daemon, run mosaic doctor --repair, and start it again. The worker continues meanwhile; its output waits.",
    },
  );
}

type Row = Record<string, number | string | null>;

/** The columns that `save` writes. */
const SAVED = [
  ...[
    "attempt",
    "steps",
    "episodes",
    "events",
    "metrics",
    "other_lines",
    "malformed_lines",
    "violations",
  ],
  ...["mean_reward_100", "last_record_ms", "told_step", "told_reward", "told_reward_name", "wide"],
];

/** For a damaged row: counters from the run's rows. Others stay unchanged. */
function recount(): string {
  const most = (what: string, table: string) =>
    `ifnull((SELECT max(${what}) FROM ${table} t WHERE t.run_key = r.run_key), 0)`;
  const least = (tables: string[]) =>
    `ifnull((SELECT min(seq) FROM (${
      tables.map((t) =>
        `SELECT min(${
          t === "step_blocks" ? "first_seq" : "seq"
        }) AS seq FROM ${t} t WHERE t.run_key = r.run_key`
      )
        .join(" UNION ALL ")
    })), 1)`;
  const attempts = ["journal_positions", "steps", "episodes", "worker_events"].map((table) =>
    most("attempt", table)
  );
  return `UPDATE telemetry_runs AS r SET attempt = max(${attempts.join(", ")}),
    steps = max(${most("seq", "steps")}, ${most("first_seq + n - 1", "step_blocks")}),
    episodes = ${most("seq", "episodes")}, events = ${most("seq", "worker_events")}, metrics = ${
    most("seq", "metrics")
  },
    first_step = ${least(["steps", "step_blocks"])}, first_episode = ${least(["episodes"])},
    first_event = ${least(["worker_events"])}, first_metric = ${least(["metrics"])},
    violations = CASE WHEN json_valid(violations) THEN violations END,
    mean_reward_100 = (SELECT avg(total_reward) FROM (SELECT total_reward FROM episodes e WHERE e.run_key = r.run_key
      ORDER BY seq DESC LIMIT 100)),
    told_step = min(told_step, ${most("step", "metrics")}), wide = 1 WHERE run_id = ?`;
}

/** NaN is NULL in SQLite. */
const stored = (value: number | null) => Number.isNaN(value) ? null : value;

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
  readonly #recount: StatementSync;
  readonly #savedSum: ChecksumOf;
  readonly #positionSum: ChecksumOf;
  readonly #sourceSum: ChecksumOf;

  /** @param damaged receives what was damaged, and the consequences */
  constructor(
    db: DatabaseSync,
    private readonly sealedTo: (runKey: number) => number,
    private readonly damaged: (message: string) => void,
  ) {
    this.#load = db.prepare("SELECT * FROM telemetry_runs WHERE run_id = ?");
    this.#positions = prepareArrays(
      db,
      "SELECT attempt, position, crc FROM journal_positions WHERE run_key = ?",
    );
    this.#insert = db.prepare("INSERT INTO telemetry_runs (run_id) VALUES (?)");
    this.#save = db.prepare(
      `UPDATE telemetry_runs SET ${
        SAVED.map((name) => `${name} = ?, `).join("")
      }crc = ? WHERE run_key = ?`,
    );
    this.#savedSum = rowChecksum(db, "telemetry_runs", SAVED);
    this.#recount = db.prepare(recount());
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
    const row = this.#load.get(runId) as Row | undefined;
    if (row === undefined) return undefined;
    if (intact(this.#savedSum, SAVED.map((name) => row[name]!), row[CRC_COLUMN])) {
      return this.#stateOf(row);
    }
    this.#recount.run(runId);
    const counted = this.#stateOf(this.#load.get(runId) as Row);
    this.save(counted);
    this.damaged(`the counters of run ${runId} were damaged: its rows were counted again`);
    return counted;
  }

  #stateOf(row: Row): RunState {
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
      attemptStep: { attempt: 0, step: 0 },
      reportedReward: row.told_reward_name === null
        ? null
        : { name: row.told_reward_name as string, value: number("told_reward") },
      wide: row.wide === 1,
      small: NO_BLOCKS,
      sealed: this.sealedTo(number("run_key")),
      positions: this.#positionsOf(number("run_key"), row.run_id as string),
      sourceNames: new Map(),
      live: undefined,
    };
  }

  #positionsOf(runKey: number, runId: string): Map<number, number> {
    const positions = new Map<number, number>();
    for (
      const [attempt, position, crc] of allRows(this.#positions, runKey) as [
        number,
        number,
        number | null,
      ][]
    ) {
      const isIntact = intact(this.#positionSum, [attempt, position], crc);
      positions.set(attempt, isIntact ? position : NaN);
      if (!isIntact) {
        this.damaged(
          `the stored position of the log of attempt ${attempt} of run ${runId} is damaged`,
        );
      }
    }
    return positions;
  }

  create(runId: string): RunState {
    this.#insert.run(runId);
    return this.load(runId)!;
  }

  save(state: RunState): void {
    const { heads } = state;
    const values = [
      ...[
        state.attempt,
        heads.steps,
        heads.episodes,
        heads.events,
        heads.metrics,
        state.otherLines,
        state.malformedLines,
      ],
      Object.keys(state.violations).length === 0 ? null : JSON.stringify(state.violations),
      stored(state.meanReward100),
      state.lastRecordAt,
      state.toldStep,
      stored(state.reportedReward?.value ?? null),
      state.reportedReward?.name ?? null,
      state.wide ? 1 : 0,
    ];
    this.#save.run(...values, this.#savedSum(values, 0), state.runKey);
  }

  /** Moves the journal position; false if the stored one is not `from`. */
  advance(runKey: number, attempt: number, from: number, to: number): boolean {
    return this.#advance.run(runKey, attempt, to, this.#positionSum([attempt, to], 0), from)
      .changes === 1;
  }

  sourceOf(state: RunState, source: number): Source {
    if (source === 0) return NO_SOURCE;
    let found = state.sourceNames.get(source);
    if (found === undefined) {
      found = (this.#source.get(state.runKey, source) as unknown as Source | undefined) ??
        NO_SOURCE;
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

  /**
   * Key of the four texts, created if it is new. (A forgotten one may get a second key: nothing
   * relies on it.)
   */
  sourceKey(
    state: RunState,
    agentId: string,
    workerId: string,
    policyLabel: string,
    backend: string,
  ): number {
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
