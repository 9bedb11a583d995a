/**
 * The host's GPU slots, who holds them, and the time that runs have held them. A slot is held by
 * one run alone (`gpu_slots.run_id`), or by several that share its card (`gpu_shares`), never by
 * both; one transaction decides it.
 */
import { MosaicError } from "../../base/errors.ts";
import type { GpuTime, GpuUse } from "./gpu_use.ts";

type SqlValue = string | number | null;

/** The registry's database. */
interface Sql {
  get(sql: string, ...values: SqlValue[]): Record<string, unknown> | undefined;
  all(sql: string, ...values: SqlValue[]): Record<string, unknown>[];
  run(sql: string, ...values: SqlValue[]): { changes: number };
}

/** What a run has of a card that it shares. */
export interface GpuShare {
  runId: string;
  /** Of the card: above 0, at most 1. */
  part: number;
  /** Of the card's memory; null: the driver does not tell how much there is. */
  memoryMb: number | null;
}

export interface GpuSlot {
  slot: number;
  /** Who has it alone. */
  runId: string | null;
  /** Who shares it; none if one run has it alone. */
  shares: GpuShare[];
}

/** A share that is to be given. */
export type NewShare = Omit<GpuShare, "runId"> & { slot: number };

const DAY_MS = 86_400_000;
/** GPU time is kept so long. */
const GPU_USE_DAYS = 400;
/** Three thirds are one. */
const ROUNDING = 1e-6;

/** Time that is in no row of gpu_use yet, by run. `?` is the time of now. */
const UNCOUNTED =
  `SELECT run_id, max(0, ? - counted_at) AS ms FROM gpu_slots WHERE run_id IS NOT NULL AND counted_at > 0
  UNION ALL SELECT run_id, max(0, ? - counted_at) * part FROM gpu_shares`;

/**
 * Free for a part, so that no run that has the card alone and no run that shares it are ever on one
 * card.
 */
export const partLeft = ({ runId, shares }: Pick<GpuSlot, "runId" | "shares">): number =>
  runId === null ? Math.max(0, 1 - shares.reduce((sum, { part }) => sum + part, 0)) : 0;

export const fits = (part: number, left: number): boolean => part <= left + ROUNDING;

export class GpuRows {
  readonly #sql: Sql;
  readonly #write: <T>(work: () => T, always?: boolean) => T;
  /** @throws `not_found`, `failed_precondition` for a run that has ended */
  readonly #requireLive: (runId: string) => void;
  readonly #now: () => number;

  constructor(
    sql: Sql,
    write: <T>(work: () => T, always?: boolean) => T,
    requireLive: (runId: string) => void,
    now: () => number,
  ) {
    this.#sql = sql;
    this.#write = write;
    this.#requireLive = requireLive;
    this.#now = now;
    this.#sql.run("DELETE FROM gpu_use WHERE day < ?", Math.floor(now() / DAY_MS) - GPU_USE_DAYS);
  }

  /**
   * Sets the host's slots; slots held by a run stay until released. @param uuids of their devices,
   * as far as known
   */
  set(slots: readonly number[], uuids: ReadonlyMap<number, string> = new Map()): void {
    this.#write(() => {
      this.#sql.run("UPDATE gpu_slots SET offered = 0");
      for (const slot of slots) {
        this.#sql.run(
          `INSERT INTO gpu_slots (slot, run_id, offered, uuid) VALUES (?, NULL, 1, ?) ON CONFLICT (slot) DO UPDATE SET
             offered = 1, uuid = CASE WHEN excluded.uuid = '' AND
               (run_id IS NOT NULL OR EXISTS (SELECT 1 FROM gpu_shares s WHERE s.slot = gpu_slots.slot))
               THEN uuid ELSE excluded.uuid END`,
          slot,
          uuids.get(slot) ?? "",
        );
      }
      this.#dropUnoffered();
    }, true);
  }

  /** All slots, those that the host has lost and a run still holds included. */
  slots(): GpuSlot[] {
    return this.devices().map(({ slot, runId, shares }) => ({ slot, runId, shares }));
  }

  /** The same, with their devices' UUIDs ("" if unknown). */
  devices(): (GpuSlot & { uuid: string })[] {
    const shares = Map.groupBy(
      this.#sql.all(
        "SELECT slot, run_id, part, memory_mb FROM gpu_shares ORDER BY slot, counted_at, run_id",
      ),
      ({ slot }) => slot as number,
    );
    return this.#sql.all("SELECT slot, uuid, run_id FROM gpu_slots ORDER BY slot").map((
      { slot, uuid, run_id },
    ) => ({
      slot: slot as number,
      uuid: uuid as string,
      runId: run_id as string | null,
      shares: (shares.get(slot as number) ?? []).map((share) => ({
        runId: share.run_id as string,
        part: share.part as number,
        memoryMb: share.memory_mb as number | null,
      })),
    }));
  }

  /** What a run has of cards that it shares, in the order of the slots. */
  sharesOf(runId: string): NewShare[] {
    return this.#sql.all(
      "SELECT slot, part, memory_mb FROM gpu_shares WHERE run_id = ? ORDER BY slot",
      runId,
    ).map((
      { slot, part, memory_mb },
    ) => ({ slot: slot as number, part: part as number, memoryMb: memory_mb as number | null }));
  }

  /**
   * Assigns the slots to the run alone, all or none. @throws `failed_precondition` if one is taken.
   */
  claim(runId: string, slots: readonly number[]): void {
    this.#write(() => {
      this.#requireLive(runId);
      for (const slot of slots) {
        const { changes } = this.#sql.run(
          `UPDATE gpu_slots SET counted_at = CASE WHEN run_id IS NULL THEN ? ELSE counted_at END, run_id = ?
             WHERE slot = ? AND offered = 1 AND (run_id IS NULL OR run_id = ?)
               AND NOT EXISTS (SELECT 1 FROM gpu_shares s WHERE s.slot = gpu_slots.slot)`,
          ...[this.#now(), runId, slot, runId],
        );
        if (changes === 0) throw this.#taken(slot);
      }
    });
  }

  /**
   * Gives the run parts of cards, all or none. @throws `failed_precondition` if a card has not so
   * much left
   */
  claimShares(runId: string, shares: readonly NewShare[]): void {
    this.#write(() => {
      this.#requireLive(runId);
      for (const { slot, part, memoryMb } of shares) {
        const row = this.devices().find((its) => its.slot === slot);
        const offered =
          this.#sql.get("SELECT 1 FROM gpu_slots WHERE slot = ? AND offered = 1", slot) !==
            undefined;
        if (row === undefined || !offered || row.runId !== null) throw this.#taken(slot);
        if (!fits(part, partLeft(row))) {
          throw new MosaicError(
            "failed_precondition",
            `GPU slot ${slot} has ${percent(partLeft(row))} left, and run ${runId} needs ${
              percent(part)
            }`,
          );
        }
        this.#sql.run(
          "INSERT INTO gpu_shares (slot, run_id, part, memory_mb, counted_at) VALUES (?, ?, ?, ?, ?)",
          ...[slot, runId, part, memoryMb, this.#now()],
        );
      }
    });
  }

  /** Within the transaction that ends the run, or returns it to the queue. */
  release(runId: string): void {
    this.#count(runId, { measuredMs: 0, idleMs: 0 });
    this.#sql.run("UPDATE gpu_slots SET run_id = NULL WHERE run_id = ?", runId);
    this.#sql.run("DELETE FROM gpu_shares WHERE run_id = ?", runId);
    this.#dropUnoffered();
  }

  /**
   * Adds to a run's GPU time; `measured` and `idle` are sums over its cards since the last call.
   */
  count(runId: string, time: GpuTime): void {
    this.#write(() => this.#count(runId, time), true);
  }

  /**
   * GPU time by run since the beginning of a day (UTC), deleted runs included. @param since Unix
   * milliseconds
   */
  use(since: number): GpuUse[] {
    const now = this.#now();
    return this.#sql.all(
      `SELECT run_id, max(run_name) AS name, max(submitter) AS submitter, sum(gpu_ms) AS gpu, sum(measured_ms) AS measured,
         sum(idle_ms) AS idle, (SELECT tags FROM runs WHERE runs.run_id = uses.run_id) AS tags FROM (
           SELECT * FROM gpu_use WHERE day >= ?
           UNION ALL SELECT 0, run_id, name, owner, ms, 0, 0 FROM (${UNCOUNTED}) JOIN runs USING (run_id)
         ) AS uses GROUP BY run_id ORDER BY gpu DESC, run_id`,
      ...[Math.floor(since / DAY_MS), now, now],
    ).map((row) => ({
      runId: row.run_id as string,
      name: row.name as string,
      submitter: row.submitter as string,
      tags: row.tags === null ? [] : JSON.parse(row.tags as string),
      gpuMs: Math.round(row.gpu as number),
      measuredMs: row.measured as number,
      idleMs: row.idle as number,
    }));
  }

  #taken(slot: number): MosaicError {
    const row = this.devices().find((its) => its.slot === slot);
    const holders = row === undefined
      ? []
      : row.runId === null
      ? row.shares.map(({ runId }) => runId)
      : [row.runId];
    return new MosaicError(
      "failed_precondition",
      holders.length === 0
        ? `this host has no GPU slot ${slot}`
        : `GPU slot ${slot} is ${row?.runId === null ? "shared" : "held"} by run ${
          holders.join(", ")
        }`,
    );
  }

  /**
   * Adds the time since the last count, at most what the clock tells; a part of a card counts in
   * part.
   */
  #count(runId: string, { measuredMs, idleMs }: GpuTime): void {
    const now = this.#now();
    this.#sql.run(
      `INSERT INTO gpu_use (day, run_id, run_name, submitter, gpu_ms, measured_ms, idle_ms)
         SELECT ?, run_id, name, owner, CAST(round((SELECT sum(ms) FROM (${UNCOUNTED}) WHERE run_id = ?)) AS INTEGER),
           ?, ? FROM runs WHERE run_id = ? AND EXISTS (SELECT 1 FROM (${UNCOUNTED}) WHERE run_id = ?)
       ON CONFLICT (day, run_id) DO UPDATE SET run_name = excluded.run_name, gpu_ms = gpu_ms + excluded.gpu_ms,
         measured_ms = measured_ms + excluded.measured_ms, idle_ms = idle_ms + excluded.idle_ms`,
      ...[
        Math.floor(now / DAY_MS),
        now,
        now,
        runId,
        Math.round(measuredMs),
        Math.round(idleMs),
        runId,
        now,
        now,
        runId,
      ],
    );
    for (const table of ["gpu_slots", "gpu_shares"]) {
      this.#sql.run(`UPDATE ${table} SET counted_at = ? WHERE run_id = ?`, now, runId);
    }
  }

  /** A slot that the host no longer has is deleted when its last holder releases it. */
  #dropUnoffered(): void {
    this.#sql.run(
      `DELETE FROM gpu_slots WHERE offered = 0 AND run_id IS NULL
         AND NOT EXISTS (SELECT 1 FROM gpu_shares s WHERE s.slot = gpu_slots.slot)`,
    );
  }
}

const percent = (part: number) => `${Math.round(part * 1000) / 10} %`;
