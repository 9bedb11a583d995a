/**
 * The runs within a run: trials, jobs and tracker runs of one supervised program. Each is a run of
 * its own, with parameters, curves and a state, and without a process, a directory and a slot: it
 * ends with its parent.
 */
import { newUlid } from "../../../config/ulid.ts";
import { messageOf } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { LONGEST_TAG, MOST_TAGS } from "../../../base/field_limits.ts";
import { isPlainObject } from "../../../base/text/exact_numbers.ts";
import { parsedObject } from "../../../base/text/json_text.ts";
import { LONGEST_RUN_NAME } from "../../../base/run_name.ts";
import {
  type ChildPlace,
  childPlaceOf,
  writerDirectories,
  writerPlaceOf,
} from "../../../readers/files/child_places.ts";
import { TRACKER_RUN_KIND } from "../../../readers/files/source_records.ts";
import type { WorkerEventRecord } from "../../../gen/records/record_types.ts";
import { parentOf } from "../../../os/files/files.ts";
import { objectiveIn } from "../../../records/objective.ts";
import { TRIAL_KIND } from "../../../readers/text/text_records.ts";
import { isEnded, type LifecycleEvent } from "../../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { RunPatch, RunRow } from "../../../registry/row_types.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";
import { TrialRuns } from "./trial_runs.ts";

/** Beyond it, records stay with the parent. */
const MOST_CHILDREN = 10_000;
/** Known places in memory; the registry has them all. */
const MOST_KNOWN = 20_000;

interface ChildRunsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
}

export class ChildRuns {
  readonly #options: ChildRunsOptions;
  /** By parent, attempt and key; "": the parent itself. */
  readonly #known = new Map<string, string>();
  /** Runs with too many runs within, which was said. */
  readonly #full = new Set<string>();
  readonly #trials: TrialRuns;

  constructor({ registry, telemetry, log }: ChildRunsOptions) {
    this.#options = { registry, telemetry, log };
    const child = (parent: string, key: string, name: string) => this.child(parent, key, name);
    this.#trials = new TrialRuns({ registry, telemetry, log, child, most: MOST_CHILDREN });
  }

  /**
   * The child run that the records of a tracker's file belong to; undefined: the run itself. Makes
   * it if it is new.
   */
  runOf(runId: string, attempt: number, path: string): string | undefined {
    const place = childPlaceOf(path);
    if (place === undefined) return this.#ofWriter(runId, attempt, path);
    const id = `${runId} ${attempt} ${place.key}`;
    let known = this.#known.get(id);
    if (known === undefined) {
      known = this.#earlierChild(runId, place, path);
      if (known === undefined) {
        const isOwn = place.aloneIsParent && this.#isFirst(runId, attempt, place.key);
        known = isOwn ? "" : this.child(runId, place.key, place.name) ?? "";
      }
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      this.#known.set(id, known);
    }
    return known === "" ? undefined : known;
  }

  /** The trial of an event file, if the program has told the parameters of an earlier one. */
  #ofWriter(runId: string, attempt: number, path: string): string | undefined {
    const directories = writerDirectories(path);
    if (directories.length === 0) return undefined;
    const id = `${runId} ${attempt} ${path}`;
    let known = this.#known.get(id);
    if (known === undefined) {
      const { registry, telemetry } = this.#options;
      const earlier = (telemetry.sourceCursors(runId, attempt) ?? []).map(({ name }) => name);
      const place = writerPlaceOf(path, earlier);
      const keys = place === undefined ? directories : [place.key];
      known = keys.map((key) => registry.child(runId, key)).find((child) => child !== undefined) ??
        (place && this.child(runId, place.key, place.name)) ?? "";
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      this.#known.set(id, known);
    }
    return known === "" ? undefined : known;
  }

  /** Before 0.2.0 the key of a W&B run was its directory: its records go on in the same child. */
  #earlierChild(runId: string, { aloneIsParent }: ChildPlace, path: string): string | undefined {
    return aloneIsParent ? this.#options.registry.child(runId, parentOf(path)) : undefined;
  }

  /** Whether the parent has no other file of this kind of its own. */
  #isFirst(runId: string, attempt: number, key: string): boolean {
    const { registry, telemetry } = this.#options;
    if (registry.child(runId, key) !== undefined) return false;
    const own = (telemetry.sourceCursors(runId, attempt) ?? []).flatMap(({ name }) => {
      const place = childPlaceOf(name);
      return place?.aloneIsParent && registry.child(runId, place.key) === undefined &&
          this.#earlierChild(runId, place, name) === undefined
        ? [place.key]
        : [];
    });
    return own.length === 0 || own.includes(key);
  }

  /** Makes it if it is new; undefined: there are too many. */
  child(parentId: string, key: string, name: string): string | undefined {
    const { registry, log } = this.#options;
    const known = registry.child(parentId, key);
    if (known !== undefined) {
      // Deleted alone, and its program goes on with it.
      if (registry.get(known) === undefined) registry.restore(known);
      return known;
    }
    if (registry.childrenOf(parentId) >= MOST_CHILDREN) {
      if (!this.#full.has(parentId)) {
        log.warn(
          { run_id: parentId, key },
          `more than ${MOST_CHILDREN} runs within a run: records of further ones stay with the run itself`,
        );
      }
      this.#full.add(parentId);
      return undefined;
    }
    const parent = registry.require(parentId);
    const runId = newUlid();
    const whole = childName(parent.name, name);
    const objective = objectiveIn(parent.configJson);
    const config = {
      run_name: whole,
      entry_point: "sh",
      arguments: [],
      environment: {},
      resources: { gpus: { requested: 0 } },
      artifacts: {},
      metadata: {
        within: { run: parentId, place: key },
        ...(objective === undefined ? {} : { objective }),
      },
    };
    registry.insertChild({
      runId,
      name: whole,
      digest: `within:${runId}`,
      maxAttempts: 1,
      priority: parent.priority,
      tags: parent.tags,
      owner: parent.owner,
      baseDir: parent.baseDir,
      configJson: JSON.stringify(config),
      gpusRequested: 0,
      gpusMandatory: false,
      workerId: "",
      agentId: "",
      parent: parentId,
      childKey: key,
    });
    log.info({ run_id: parentId, child: runId, key }, "a run within a run has begun");
    return runId;
  }

  /** These records of the run are about to be stored. @throws if the registry cannot be written */
  expectTrials(runId: string, events: readonly WorkerEventRecord[]): void {
    this.#trials.expect(runId, events);
  }

  /**
   * Makes the trials that these records, which are stored, have announced, and those that are left
   * of earlier ones.
   */
  makeTrials(runId: string, events: readonly WorkerEventRecord[]): void {
    if (events.some(({ kind }) => kind === TRIAL_KIND) || this.#trials.waits(runId)) {
      this.#trials.make(runId);
    }
  }

  /**
   * An imported trial that ends goes into the imported run of its program; it stays beside it if
   * that is gone, or has this trial already.
   */
  importedInto(row: RunRow): Pick<RunPatch, "parent" | "childKey"> {
    const { registry } = this.#options;
    const within = importedWithin(row);
    const parent = within && registry.get(within.run);
    const isThere = parent?.parent === null && parent.owner === row.owner &&
      importedIn(parent) !== undefined && registry.child(parent.runId, within!.place) === undefined;
    return isThere && row.parent === null ? { parent: parent.runId, childKey: within!.place } : {};
  }

  /** What a tracker calls the run: its tags, and of a run within its name. */
  tracked(runId: string, events: readonly WorkerEventRecord[]): void {
    for (const { kind, dataJson } of events) {
      if (kind !== TRACKER_RUN_KIND) continue;
      const { registry, log } = this.#options;
      try {
        const row = registry.require(runId);
        const patch = trackerPatch(row, row.parent && registry.require(row.parent).name, dataJson);
        if (Object.keys(patch).length > 0) registry.edit(runId, patch);
      } catch (error) {
        log.warn({ run_id: runId, error: messageOf(error) }, "a tracker's tags are not the run's");
      }
    }
  }

  /** A tracker's client says that its run has ended. */
  endOne(runId: string, status: string): void {
    const { registry } = this.#options;
    const run = registry.get(runId);
    // Deleted alone while its program goes on, which must not fail because of it.
    if (run !== undefined && !isEnded(run.state)) registry.apply(runId, trackerEnd(status));
  }

  /** The parent's attempt has ended, and so have its children. */
  end(parent: RunRow): void {
    const { registry, log } = this.#options;
    if (!isEnded(parent.state) || !this.#finished(parent.runId)) return;
    for (const runId of registry.liveChildren(parent.runId)) {
      try {
        registry.apply(runId, endOf(parent));
      } catch (error) {
        log.error(
          { run_id: runId, error: messageOf(error) },
          "a run within a run was not ended; the next start tries again",
        );
      }
    }
    this.#full.delete(parent.runId);
    for (const id of this.#known.keys()) {
      if (id.startsWith(`${parent.runId} `)) this.#known.delete(id);
    }
  }

  /** Trials first: they have ends of their own. */
  #finished(parentId: string): boolean {
    try {
      return this.#trials.finish(parentId);
    } catch (error) {
      this.#options.log.error(
        { run_id: parentId, error: messageOf(error) },
        "trials of a run that has ended are not runs yet; the next start tries again",
      );
      return false;
    }
  }

  /**
   * What an earlier daemon has left: trials without a run, and runs whose parent ended while no
   * daemon lived.
   */
  resume(): void {
    const { registry } = this.#options;
    const open = registry.openTrials().map(({ runId }) => ({
      runId,
      parentId: registry.get(runId)?.parent ?? runId,
    }));
    for (const { runId, parentId } of open) {
      this.#trials.make(runId, () => this.#endIfEnded(parentId, runId));
    }
    const waiting = new Set(open.map(({ parentId }) => parentId));
    for (const parentId of registry.parentsOfLive()) {
      if (!waiting.has(parentId)) this.#endIfEnded(parentId);
    }
  }

  /** @param settled the run whose trials are all made: the parent, or one within it */
  #endIfEnded(parentId: string, settled?: string): void {
    const parent = this.#options.registry.get(parentId);
    if (parent === undefined || !isEnded(parent.state)) return;
    this.end(parent);
    if (settled === undefined) return;
    try {
      this.#trials.settled(settled);
    } catch (error) {
      // It is only looked at once more.
      this.#options.log.debug(
        { run_id: settled, error: messageOf(error) },
        "the next start looks for trials again",
      );
    }
  }

  /** The registry is about to be closed. */
  close(): void {
    this.#trials.close();
  }
}

function importedIn({ configJson }: RunRow): { within?: unknown } | undefined {
  if (!configJson.includes('"imported"')) return undefined;
  const { metadata } = parsedObject(configJson) ?? {};
  const imported = isPlainObject(metadata) ? metadata["imported"] : undefined;
  return isPlainObject(imported) ? imported : undefined;
}

function importedWithin(row: RunRow): { run: string; place: string } | undefined {
  const within = importedIn(row)?.within;
  if (!isPlainObject(within)) return undefined;
  const { run, place } = within;
  return typeof run === "string" && typeof place === "string" ? { run, place } : undefined;
}

/** Nothing is taken away, and a name that a person has given stays. */
function trackerPatch(
  row: RunRow,
  parent: string | null,
  dataJson: string,
): Pick<RunPatch, "name" | "tags"> {
  const { id, name, tags } = parsedObject(dataJson) as { id: string; name: string; tags: string[] };
  const cut = (text: string, length: number) => [...text].slice(0, length).join("");
  const given = tags.filter((tag) => tag.trim() !== "").map((tag) => cut(tag, LONGEST_TAG));
  const all = [...new Set([...row.tags, ...given])].slice(0, MOST_TAGS);
  const isPlain = name !== "" && row.name === childName(`${parent}`, id);
  return {
    ...(parent !== null && isPlain ? { name: childName(parent, name) } : {}),
    ...(all.length > row.tags.length ? { tags: all } : {}),
  };
}

const childName = (parent: string, name: string) =>
  [...`${parent}/${name}`].slice(0, LONGEST_RUN_NAME).join("");

/** @param status as MLflow names it */
function trackerEnd(status: string): LifecycleEvent {
  if (status === "FAILED") return { type: "failed", reason: "tracker_failed" };
  return status === "KILLED"
    ? { type: "cancelled", reason: "tracker_killed" }
    : { type: "exited_ok" };
}

function endOf({ state, reason }: RunRow): LifecycleEvent {
  if (state === "TERMINATED") return { type: "exited_ok" };
  const why = reason ?? "parent_ended";
  return state === "CANCELLED"
    ? { type: "cancelled", reason: why }
    : { type: "failed", reason: why };
}
