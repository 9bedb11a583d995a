/**
 * The sweeps of a daemon: makes trials while there are places, stops those that early stopping
 * ends, and enters the end. It keeps nothing that is not in the registry, so the next daemon
 * continues where this one died:
 * - a trial and its run are entered in one transaction; a trial's run is a pure function of the
 *   sweep and its number
 * - a decision to stop a trial is entered before the trial is cancelled, and carried out by whoever
 *   finds it
 * - a cancelled sweep is `cancelling` until all its live trials have been asked to end
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { sleep } from "../base/time/sleep.ts";
import { momentAt, type QueueFields } from "../config/queue_fields.ts";
import { isUlid, newUlid } from "../config/ulid.ts";
import type { Registry } from "../registry/registry.ts";
import type { SweepRow, TrialOf } from "../registry/sweeps/sweep_rows.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import { namesOf, originOf, trialCount, valuesAt } from "./points.ts";
import {
  checked,
  extensionFrom,
  MOST_NAMES,
  type Part,
  type Pieces,
  prunedFrom,
  retriedFrom,
  specFrom,
  specText,
  type SweepSpec,
} from "./spec.ts";
import { Judge, type Live } from "./judge.ts";
import { type SpecOutline, specOutline } from "./outline.ts";
import { retryTrials } from "./retry_trials.ts";
import { spentOf } from "./spent.ts";
import { trialConfig, trialRunId } from "./trial_config.ts";
import { extendedParts } from "./words.ts";

/** Between two passes while early stopping watches curves, or while something could not be done. */
const WATCH_MS = 500;
const SAFETY_NET_MS = 2000;
/** After a pass, the driver rests for this many times its duration. */
const PASS_REST = 9;
/** After one that made trials and makes more: half of the thread's time is others'. */
const MAKING_REST = 1;
/** While trials are made, those that live are counted anew after so long: it takes as long as they
 * are many. */
const COUNTED_MS = 2000;
const MOST_SWEEPS = 10_000;
/** Characters of the specs that are kept as objects; beyond them they are read again. */
const KNOWN_TEXT = 64 << 20;
/** Bytes of the specs of sweeps that have not finished: all of them are known as objects. */
const UNFINISHED_BYTES = 32 << 20;
/** After so long, a pass makes no further trial of a sweep: nobody else has the thread meanwhile. */
const MAKING_MS = 25;
/** Characters of the configs of a sweep's live trials: each of them is read again and again. */
const LIVE_TEXT = 16 << 20;

export interface SweepsHost {
  registry: Registry;
  records: TelemetryReader;
  log: Logger;
  /** Trials at once if a sweep does not say; the host's GPUs may come and go. */
  parallel: () => number;
  /** One of `metadata.queue.after` by its id, whatever has its name later. @throws MosaicError */
  predecessor(text: string, at: number): string;
  /** @throws MosaicError where this config can never become a run */
  check(configJson: string, submitter: string): void;
  /** Enters the run of a trial. @throws MosaicError */
  submit(configJson: string, runId: string, submitter: string, trial: TrialOf): void;
  /** What `work` submits is entered in one transaction, all or nothing; it may be called twice. */
  together<T>(work: () => T): T;
  cancel(runId: string, reason: string): void;
  /** Whether the run has processes that can be paused. */
  canPause(runId: string): boolean;
  pause(runId: string): void;
  resume(runId: string): void;
  /** The newest checkpoint that the run has reported and that is still there. */
  checkpointOf(runId: string): string | undefined;
  retry(runId: string): void;
}

export const ACTIONS = [
  "pause",
  "resume",
  "cancel",
  "retry_failed",
  "retry",
  "prune",
  "extend",
] as const;

export class Sweeps {
  readonly #host: SweepsHost;
  readonly #judge: Judge;
  readonly #specs = new Map<string, SweepSpec>();
  /** Characters of the largest config that a sweep's trials have had since this daemon's start. */
  readonly #largest = new Map<string, number>();
  #knownText = 0;
  readonly #outlines = new Map<string, SpecOutline>();
  /** By sweep; each is logged once. */
  readonly #troubles = new Map<string, string>();
  readonly #closed = new AbortController();
  /** Live trials by sweep, with those made since; those that have ended since still count. */
  #counted: { at: number; live: Map<string, number> } | undefined;
  #wake = Promise.withResolvers<void>();
  #loop: Promise<void> | undefined;

  constructor(host: SweepsHost) {
    this.#host = host;
    this.#judge = new Judge({ ...host, specChanged: (sweepId) => this.#specChanged(sweepId) });
  }

  /** Continues the sweeps that an earlier daemon has left. */
  start(): void {
    if (this.#loop !== undefined || this.#closed.signal.aborted) return;
    if (this.#host.registry.sweeps.unfinished().length === 0) return;
    this.#loop = this.#run().finally(() => {
      this.#loop = undefined;
      // A sweep that was begun while the loop ended.
      this.start();
    });
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#wake.resolve();
    await this.#loop;
  }

  /**
   * Begins a sweep. Its first trial's config is checked as a run's is.
   * @param sweepId of the caller, so that it can repeat the call; "": a new one
   * @param anyName a name that is taken gets a number
   * @throws MosaicError `invalid_argument`, `already_exists`, `resource_exhausted`
   */
  create(specJson: string, sweepId: string, anyName: boolean, submitter: string): SweepRow {
    const { registry, log, check } = this.#host;
    if (sweepId !== "" && !isUlid(sweepId)) {
      throw new MosaicError(
        "invalid_argument",
        `sweep_id ${JSON.stringify(sweepId)} is not a ULID`,
      );
    }
    const known = registry.sweeps.get(sweepId);
    if (known !== undefined) return known;
    if (registry.sweeps.count() >= MOST_SWEEPS) {
      throw new MosaicError("resource_exhausted", `there are ${MOST_SWEEPS} sweeps already`);
    }
    const given = this.#pinned(specFrom(specJson));
    let spec = given;
    for (let n = 2; anyName && registry.sweeps.hasName(spec.name); n++) {
      spec = { ...given, name: `${given.name}-${n}` };
    }
    const trials = trialCount(spec);
    requireFewNames(spec);
    const id = sweepId === "" ? newUlid() : sweepId;
    check(JSON.stringify(trialConfig(spec, id, 0)), submitter);
    const row = registry.sweeps.insert({
      sweepId: id,
      name: spec.name,
      submitter,
      specJson: this.#textOf(spec, id),
    });
    log.info({ sweep: spec.name, trials, parameters: namesOf(spec) }, "sweep begins");
    this.#continue();
    return row;
  }

  /**
   * What the whole sweep waits for: "@last" and "+2h" mean what they mean now, not when a trial is
   * made.
   * @throws MosaicError for a predecessor that is not known
   */
  #pinned(spec: SweepSpec): SweepSpec {
    const { metadata } = spec.config as { metadata?: { queue?: QueueFields } };
    const { after, begin, deadline } = metadata?.queue ?? {};
    const now = Date.now();
    const moment = (text: unknown) => {
      const at = typeof text === "string" && text.startsWith("+") ? momentAt(text, now) : null;
      return at === null ? text : new Date(at).toISOString();
    };
    const queue = {
      ...metadata?.queue,
      ...(Array.isArray(after)
        ? { after: after.map((one, at) => this.#host.predecessor(String(one), at)) }
        : {}),
      ...(begin === undefined ? {} : { begin: moment(begin) }),
      ...(deadline === undefined ? {} : { deadline: moment(deadline) }),
    };
    if (Object.keys(queue).length === 0) return spec;
    return { ...spec, config: { ...spec.config, metadata: { ...metadata, queue } } };
  }

  /** Why no further trial could be made at the last try; undefined: nothing was in the way. */
  troubleOf(sweepId: string): string | undefined {
    return this.#troubles.get(sweepId);
  }

  specOf(row: SweepRow): SweepSpec {
    const known = this.#specs.get(row.sweepId);
    if (known !== undefined) return known;
    const { specJson } = row;
    const spec = specFrom(specJson);
    this.#knownText += specJson.length;
    if (this.#knownText > KNOWN_TEXT) {
      this.#specs.clear();
      this.#knownText = specJson.length;
    }
    this.#specs.set(row.sweepId, spec);
    return spec;
  }

  /**
   * Kept until the spec changes: a list has a thousand of them, each of which may have megabytes of
   * points.
   */
  outlineOf(row: SweepRow): SpecOutline {
    const known = this.#outlines.get(row.sweepId) ?? specOutline(this.specOf(row));
    this.#outlines.set(row.sweepId, known);
    return known;
  }

  /**
   * @param extension of `extend`, or the trials of `retry`, as JSON
   * @throws MosaicError `failed_precondition` for a change that the sweep's state does not allow,
   * and where trials could not be retried, `invalid_argument`
   */
  change(row: SweepRow, action: string, extension: string): SweepRow | Promise<SweepRow> {
    const { registry, log } = this.#host;
    const { sweeps } = registry;
    const refuse = (what: string, hint: string) => {
      throw new MosaicError(
        "failed_precondition",
        `sweep ${row.name} is ${row.state} and cannot be ${what}`,
        { hint },
      );
    };
    log.info({ sweep: row.name, action }, "sweep is changed");
    switch (action) {
      case "pause":
        if (row.state === "paused") return row;
        if (row.state !== "running") refuse("paused", "Only a running sweep makes trials.");
        return sweeps.change(row.sweepId, { state: "paused" });
      case "resume":
        if (row.state === "running") return row;
        if (row.state === "finished") {
          refuse("resumed", `To try more: mosaic sweep extend ${row.name}`);
        }
        return this.#begin(sweeps.change(row.sweepId, { state: "running" }));
      case "cancel":
        if (row.state === "finished") refuse("cancelled", "All its trials have ended.");
        if (row.state === "cancelled") return row;
        return this.#begin(sweeps.change(row.sweepId, { state: "cancelling" }));
      case "retry_failed":
        return this.#retry(row);
      case "retry":
        return this.#retry(row, retriedFrom(extension));
      case "prune": {
        const { trial, rung } = prunedFrom(extension);
        if (this.specOf(row).stop?.rule !== "optimizer") {
          throw new MosaicError(
            "failed_precondition",
            `no optimizer decides who of sweep ${row.name} is stopped`,
            {
              hint:
                "Such a sweep begins with --optimizer --stop optimizer:min=STEPS. One trial: mosaic cancel RUN",
            },
          );
        }
        const live = registry.sweeps.live().filter(({ sweepId }) => sweepId === row.sweepId);
        this.#judge.prune(row, live, trial, rung);
        return row;
      }
      case "extend": {
        const spec = this.specOf(row);
        const { budget, max_parallel, like, ...pieces } = extensionFrom(extension);
        const more = pieces.axes.length + pieces.space.length > 0 || pieces.rows !== undefined ||
          pieces.random !== undefined || pieces.seeds !== undefined || pieces.when !== undefined;
        const extended = checked({
          ...spec,
          parts: like !== undefined
            ? [...spec.parts, partLike(row, spec, like, pieces)]
            : more
            ? extendedParts(spec.parts, pieces)
            : spec.parts,
          budget: { ...spec.budget, ...budget },
          ...(max_parallel === undefined ? {} : { max_parallel }),
        });
        requireFewNames(extended);
        const before = trialCount(spec);
        if (trialCount(extended) > before) {
          this.#host.check(
            JSON.stringify(trialConfig(extended, row.sweepId, before)),
            row.submitter,
          );
        }
        const state = row.state === "finished" ? "running" : row.state;
        const changed = sweeps.change(row.sweepId, {
          specJson: this.#textOf(extended, row.sweepId),
          state,
        });
        this.#specChanged(row.sweepId);
        return this.#begin(changed);
      }
      default:
        throw new MosaicError(
          "invalid_argument",
          `action is "${action}".${didYouMean(action, ACTIONS)}`,
          {
            hint: `It is one of ${ACTIONS.join(", ")}.`,
          },
        );
    }
  }

  #specChanged(sweepId: string): void {
    this.#specs.delete(sweepId);
    this.#outlines.delete(sweepId);
  }

  /** @throws MosaicError `invalid_argument`, `resource_exhausted` */
  #textOf(spec: SweepSpec, sweepId: string): string {
    const text = specText(spec);
    const others = this.#host.registry.sweeps.unfinishedBytes(sweepId);
    if (others === 0 || others + text.length <= UNFINISHED_BYTES) return text;
    throw new MosaicError(
      "resource_exhausted",
      `sweeps that have not finished would have more than ${UNFINISHED_BYTES >> 20} MiB of points`,
      {
        hint:
          "Wait until one has finished, cancel one, or name files of values instead of long values.",
      },
    );
  }

  /**
   * Its runs stay, with their tag. @throws MosaicError `failed_precondition` while it has something
   * to do or trials live
   */
  delete(row: SweepRow): void {
    const { registry, log } = this.#host;
    const { sweepId, name, state } = row;
    const live = registry.sweeps.live().filter((one) => one.sweepId === sweepId).length;
    if ((state !== "finished" && state !== "cancelled") || live > 0) {
      const trials = live === 0 ? "" : `, and ${live} of its trials wait or run`;
      throw new MosaicError(
        "failed_precondition",
        `sweep ${name} is ${state}${trials}: it cannot be deleted`,
        {
          hint: `End it first: mosaic sweep cancel ${name}`,
        },
      );
    }
    registry.sweeps.delete(sweepId);
    this.#specChanged(sweepId);
    this.#troubles.delete(sweepId);
    this.#judge.forget(sweepId);
    log.info({ sweep: name }, "sweep is deleted");
  }

  async #retry(row: SweepRow, trials?: readonly number[]): Promise<SweepRow> {
    const { sweeps } = this.#host.registry;
    const { sweepId, name } = row;
    const { max_parallel: maxParallel = Infinity } = this.specOf(row);
    const which = { sweepId, name, maxParallel, ...(trials === undefined ? {} : { trials }) };
    await retryTrials(this.#host.registry, which, this.#host.retry, () => {
      // Those that run again are the sweep's, whatever becomes of the others.
      if (sweeps.get(sweepId)?.state === "finished") {
        this.#begin(sweeps.change(sweepId, { state: "running" }));
      }
    });
    return sweeps.get(sweepId)!;
  }

  #begin(row: SweepRow): SweepRow {
    this.#continue();
    return row;
  }

  #continue(): void {
    this.#counted = undefined;
    this.#wake.resolve();
    this.start();
  }

  async #run(): Promise<void> {
    const { registry } = this.#host;
    while (!this.#closed.signal.aborted) {
      const seq = registry.transitionHead();
      const began = performance.now();
      this.#wake = Promise.withResolvers();
      const next = this.#pass();
      if (next === "idle") return;
      const rest = next === "again" ? MAKING_REST : PASS_REST;
      await sleep(Math.min(WATCH_MS, rest * (performance.now() - began)));
      if (next === "again") continue;
      this.#counted = undefined;
      const enough = new AbortController();
      const timer = setTimeout(() => enough.abort(), next === "watch" ? WATCH_MS : SAFETY_NET_MS);
      await Promise.race([registry.waitTransitionsBeyond(seq, enough.signal), this.#wake.promise]);
      clearTimeout(timer);
      enough.abort();
    }
  }

  /**
   * @returns whether to go on at once, to watch curves, to wait for a change, or that no sweep is
   * left
   */
  #pass(): "again" | "watch" | "wait" | "idle" {
    const { registry, log } = this.#host;
    const found = new Set<"again" | "watch">();
    try {
      const sweeps = registry.sweeps.unfinished();
      if (sweeps.length === 0) return "idle";
      const counted = this.#count();
      let all: Map<string, Live[]> | undefined;
      for (const row of sweeps) {
        const liveOf = () => {
          all ??= Map.groupBy(registry.sweeps.live(), ({ sweepId }) => sweepId);
          return all.get(row.sweepId) ?? [];
        };
        try {
          const next = this.#advance(row, counted, liveOf);
          if (next !== "wait") found.add(next);
          this.#troubles.delete(row.sweepId);
        } catch (error) {
          const why = messageOf(error);
          if (this.#troubles.get(row.sweepId) !== why) {
            log.warn({ sweep: row.name, error: why }, "sweep waits");
          }
          this.#troubles.set(row.sweepId, why);
        }
      }
    } catch (error) {
      log.warn({ error: messageOf(error) }, "sweeps wait");
    }
    return found.has("again") ? "again" : found.has("watch") ? "watch" : "wait";
  }

  #count(): Map<string, number> {
    const now = performance.now();
    if (this.#counted === undefined || now - this.#counted.at >= COUNTED_MS) {
      this.#counted = { at: now, live: this.#host.registry.sweeps.liveCounts() };
    }
    return this.#counted.live;
  }

  /** @param liveOf reads its live trials */
  #advance(
    row: SweepRow,
    counted: Map<string, number>,
    liveOf: () => readonly Live[],
  ): "again" | "watch" | "wait" {
    const { registry, log, cancel } = this.#host;
    const { sweepId } = row;
    if (row.state === "cancelling") {
      // One that cannot be cancelled keeps no other from it.
      const failed = liveOf().flatMap(({ runId }) => {
        try {
          cancel(runId, "sweep_cancelled");
          return [];
        } catch (error) {
          return [error];
        }
      });
      if (failed.length > 0) throw failed[0];
      registry.sweeps.change(sweepId, { state: "cancelled" });
      this.#largest.delete(sweepId);
      return "wait";
    }
    const before = this.specOf(row);
    const watched = before.stop !== undefined && this.#judge.judge(row, before, liveOf());
    // Population based training adds trials.
    const spec = this.specOf(registry.sweeps.get(sweepId)!);
    if (row.state === "paused") return watched ? "watch" : "wait";
    const total = trialCount(spec);
    const held = this.#judge.held(sweepId);
    const busy = (before.stop === undefined ? counted.get(sweepId) ?? 0 : liveOf().length) - held;
    const places = (spec.max_parallel ?? this.#host.parallel()) - busy;
    let known: ReturnType<typeof spentOf> | undefined;
    const spent = (made: number) => (known ??= spentOf(this.#host, row, spec))(made);
    const wanted = Math.min(places, total - row.nextTrial);
    if (wanted > 0 && spent(0) === undefined) {
      const { made, isLate, full } = this.#makeSome(row, spec, wanted, busy, spent);
      counted.set(sweepId, (counted.get(sweepId) ?? 0) + made);
      if (full !== undefined) throw full;
      if (isLate) return "again";
      if (made > 0) return watched ? "watch" : "wait";
    }
    if (busy > 0) return watched ? "watch" : "wait";
    const budget = row.nextTrial < total ? spent(0) : undefined;
    if (places > 0 && (row.nextTrial >= total || budget !== undefined)) {
      if (held > 0) this.#judge.stopHeld(row, liveOf());
      if (liveOf().length > 0) return "wait";
      registry.sweeps.change(sweepId, { state: "finished" });
      this.#judge.forget(sweepId);
      this.#largest.delete(sweepId);
      log.info({ sweep: row.name, trials: row.nextTrial, budget }, "sweep has finished");
    }
    return "wait";
  }

  /**
   * @throws MosaicError `failed_precondition` if the trial that it goes on from has none any more
   */
  #checkpointFor(row: SweepRow, spec: SweepSpec, trial: number): string | undefined {
    const { registry, checkpointOf } = this.#host;
    const origin = originOf(spec, trial);
    if (origin === undefined) return undefined;
    const [from] = registry.sweeps.trials(row.sweepId, origin.trial, 1);
    const path = from?.runId == null || from.state === null ? undefined : checkpointOf(from.runId);
    if (path !== undefined) return path;
    throw new MosaicError(
      "failed_precondition",
      `trial ${origin.trial} has no checkpoint any more to go on from`,
    );
  }

  /**
   * Makes trials in one transaction, until it is late.
   * @param busy live trials
   * @param spent of the number of trials made
   * @returns full: the queue's error, behind trials that were made
   * @throws MosaicError for trouble that passes
   */
  #makeSome(
    row: SweepRow,
    spec: SweepSpec,
    wanted: number,
    busy: number,
    spent: (made: number) => string | undefined,
  ): { made: number; isLate: boolean; full: MosaicError | undefined } {
    const room = () =>
      Math.max(1, Math.floor(LIVE_TEXT / (this.#largest.get(row.sweepId) ?? 1))) - busy;
    const { made, isLate, full } = this.#host.together(() => {
      const began = performance.now();
      let made = 0;
      while (made < Math.min(wanted, room()) && spent(made) === undefined) {
        if (performance.now() - began > MAKING_MS) return { made, isLate: true };
        try {
          this.#make(row, spec, row.nextTrial + made);
        } catch (full) {
          const isFull = full instanceof MosaicError && full.code === "resource_exhausted";
          if (made > 0 && isFull) return { made, isLate: false, full };
          throw full;
        }
        made++;
      }
      return { made, isLate: false };
    });
    return { made, isLate, full };
  }

  /** @throws MosaicError for trouble that passes: a full disk, a full queue */
  #make(row: SweepRow, spec: SweepSpec, trial: number): void {
    const { registry, submit, log } = this.#host;
    const of = { sweepId: row.sweepId, trial };
    try {
      const runId = trialRunId(row.sweepId, trial);
      const config = trialConfig(spec, row.sweepId, trial, this.#checkpointFor(row, spec, trial));
      const configJson = JSON.stringify(config);
      this.#largest.set(
        row.sweepId,
        Math.max(configJson.length, this.#largest.get(row.sweepId) ?? 0),
      );
      submit(configJson, runId, row.submitter, of);
    } catch (error) {
      const passes = !(error instanceof MosaicError) ||
        ["unavailable", "resource_exhausted", "internal"].includes(error.code);
      if (passes) throw error;
      log.warn({ sweep: row.name, trial, error: error.message }, "trial is refused");
      registry.sweeps.refuseTrial(of, error.message);
    }
  }
}

/** The point of a trial, which gets further seeds. @throws MosaicError `invalid_argument` */
function partLike(
  { name, nextTrial }: SweepRow,
  spec: SweepSpec,
  like: number,
  given: Pieces,
): Part {
  if (like >= nextTrial) {
    throw new MosaicError("invalid_argument", `sweep ${name} has no trial ${like}`);
  }
  const { axes, space, rows, random, seeds } = given;
  if (
    seeds === undefined || axes.length + space.length > 0 || rows !== undefined ||
    random !== undefined
  ) {
    throw new MosaicError(
      "invalid_argument",
      "further trials of one point differ in their seeds only",
      {
        hint: "Give --seeds, and no other values.",
      },
    );
  }
  const isSeed = (name: string) =>
    name === seeds.name || spec.parts.some((part) => part.seeds?.name === name);
  const row = Object.fromEntries([...valuesAt(spec, like)].filter(([name]) => !isSeed(name)));
  return { axes: [], rows: [row], seeds, unstopped: true };
}

/** @throws MosaicError `invalid_argument` */
function requireFewNames(spec: SweepSpec): void {
  const { length } = namesOf(spec);
  if (length <= MOST_NAMES) return;
  throw new MosaicError(
    "invalid_argument",
    `the sweep has ${length} parameters; it must have at most ${MOST_NAMES}`,
  );
}
