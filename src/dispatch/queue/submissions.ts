/**
 * Checks who may submit and how often, and counts submissions; submission.ts handles the config
 * itself.
 */
import { boundReached, type Bounds } from "../../base/load_limits.ts";
import type { Layout } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { TokenBucket } from "../../base/time/token_bucket.ts";
import { readConfig, violationsOf } from "../../config/config.ts";
import type { Activity } from "../../observability/activity.ts";
import { type FileDescriptors, requireDescriptors } from "../../os/processes/descriptors.ts";
import type { Registry } from "../../registry/registry.ts";
import { MAX_PARAMETERS } from "../../records/parameters.ts";
import type { SlurmFields } from "../../config/schema.ts";
import type { RunPlan } from "../../config/plan.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { TrialOf } from "../../registry/sweeps/sweep_rows.ts";
import type { GpuPool } from "../gpus/gpu_pool.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { FoundArtifact } from "../lineage/lineage.ts";
import type { Placer } from "../launch/placed/placer.ts";
import type { DiskQuota } from "./disk_quota.ts";
import { requireAdmissible, requireRoom, submit } from "./submission.ts";

export interface SubmissionsOptions {
  registry: Registry;
  log: Logger;
  layout: Layout;
  activity: Activity;
  dispatcher: Dispatcher;
  descriptors: FileDescriptors;
  bounds: Bounds;
  /** The host's GPU slots, free or not. */
  gpus: GpuPool;
  /** @throws MosaicError where a run of this plan can never be started */
  admit: (plan: RunPlan, owner: string) => void;
  /** An artifact by its name. @throws MosaicError `not_found`, … */
  findArtifact: (artifact: string) => FoundArtifact;
  placer: Placer;
  /** Runs have begun or ceased to wait. */
  onChanged: (row: RunRow) => void;
  /** Acknowledged submissions survive a power failure. */
  durable: boolean;
  /** Defaults of metadata.slurm. */
  slurm: SlurmFields;
  /** GPU slots of one owner at a time. */
  maxGpusPerUser: number;
  disk: Pick<DiskQuota, "requireRoom">;
}

export class Submissions {
  readonly #options: SubmissionsOptions;
  readonly #rate: TokenBucket;
  /** Runs of `together` that are not committed yet. */
  #entered: RunRow[] | undefined;

  constructor(options: SubmissionsOptions) {
    this.#options = options;
    const { submitRate, submitBurst } = options.bounds;
    this.#rate = new TokenBucket(submitRate, submitBurst, performance.now());
  }

  /**
   * @param trial the run is this trial of a sweep, which has bounds of its own instead of the rate
   * of submissions
   */
  submit(
    configJson: string,
    runId: string,
    submitter: string,
    trial?: TrialOf,
  ): { runId: string; digest: string } {
    const {
      registry,
      log,
      layout,
      activity,
      dispatcher,
      descriptors,
      bounds,
      gpus,
      durable,
      slurm,
    } = this.#options;
    const { admit, findArtifact, onChanged, maxGpusPerUser } = this.#options;
    const arrived = performance.now();
    let result = "rejected";
    try {
      requireDescriptors(descriptors, "take a run");
      if (trial === undefined) {
        this.#admit(arrived);
        this.#options.disk.requireRoom(submitter);
      }
      const { row, fresh, leftOutParameters } = submit(configJson, runId, {
        registry,
        layout,
        gpus,
        durable,
        slurm,
        submitter,
        findArtifact,
        maxGpusPerUser,
        admit,
        queueLength: this.#queueLength,
        placeFor: (priority) => dispatcher.placeFor(priority) + this.#enteredBefore(priority),
        maxQueue: bounds.maxQueue,
      }, trial);
      result = fresh ? "accepted" : "running_already";
      if (fresh) {
        log.info({ run_id: row.runId, name: row.name, digest: row.digest }, "run submitted");
        if (leftOutParameters) {
          log.warn(
            { run_id: row.runId, left_out: leftOutParameters },
            `only ${MAX_PARAMETERS} parameters are stored`,
          );
        }
        if (this.#entered === undefined) onChanged(row);
        else this.#entered.push(row);
      }
      return { runId: row.runId, digest: row.digest };
    } finally {
      activity.submissions.add(result);
      activity.submitSeconds.observe((performance.now() - arrived) / 1000);
    }
  }

  /**
   * Submissions of `work` in one transaction, which costs as much as one alone: all are entered,
   * or none. @param work may be called again where a disk was full
   */
  together<T>(work: () => T): T {
    const entered: RunRow[] = [];
    this.#entered = entered;
    try {
      const result = this.#options.registry.together(() => {
        entered.length = 0;
        return work();
      });
      this.#entered = undefined;
      for (const row of entered) this.#options.onChanged(row);
      return result;
    } finally {
      this.#entered = undefined;
    }
  }

  #enteredBefore(priority: number): number {
    return this.#entered?.filter((row) => row.priority >= priority).length ?? 0;
  }

  get #queueLength(): number {
    const { dispatcher, placer } = this.#options;
    return dispatcher.queueLength + placer.waiting + (this.#entered?.length ?? 0);
  }

  /** @throws MosaicError `resource_exhausted` where the queue takes no further run */
  requireRoom(): void {
    requireRoom({ queueLength: this.#queueLength, maxQueue: this.#options.bounds.maxQueue });
  }

  /** Checks a config without entering it. @throws MosaicError where it can never become a run */
  check(configJson: string, submitter: string): void {
    requireAdmissible(configJson, { ...this.#options, submitter });
  }

  /** Reading a config and entering a run takes time of this thread, which all runs share. */
  #admit(now: number): void {
    const waitMs = this.#rate.take(now);
    if (waitMs === undefined) return;
    const { submitRate, submitBurst } = this.#options.bounds;
    throw boundReached(
      "submitRate",
      submitRate,
      `more submissions a second than this daemon takes (after ${submitBurst} at once, --submit-burst)`,
      `Submit again in ${(waitMs / 1000).toFixed(2)} s`,
      waitMs,
    );
  }

  validate(
    configJson: string,
  ): { violations: { path: string; message: string }[]; digest: string; canonicalJson: string } {
    const violations = violationsOf(configJson);
    if (violations.length > 0) return { violations, digest: "", canonicalJson: "" };
    const { digest, canonicalJson } = readConfig(configJson);
    return { violations: [], digest, canonicalJson };
  }
}
