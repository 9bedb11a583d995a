/**
 * The runs within a run: trials, jobs and tracker runs of one supervised program. Each is a run of its own, with parameters,
 * curves and a state, and without a process, a directory and a slot: it ends with its parent.
 */
import { newUlid } from "../../../config/ulid.ts";
import { messageOf } from "../../../base/errors.ts";
import { isPlainObject } from "../../../base/text/exact_numbers.ts";
import { parsedObject } from "../../../base/text/json_text.ts";
import { withoutSecrets } from "../../../base/text/secrets.ts";
import type { Logger } from "../../../base/log.ts";
import { LONGEST_RUN_NAME } from "../../../base/run_name.ts";
import { childPlaceOf } from "../../../readers/files/child_places.ts";
import type { WorkerEventRecord } from "../../../gen/records/record_types.ts";
import { TRIAL_KIND } from "../../../readers/text/text_records.ts";
import { isEnded, type LifecycleEvent } from "../../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";

/** Beyond it, records stay with the parent. */
const MOST_CHILDREN = 10_000;
/** Studies of one program. */
const MOST_STUDIES = 100;
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

  constructor({ registry, telemetry, log }: ChildRunsOptions) {
    this.#options = { registry, telemetry, log };
  }

  /** The child run that the records of a tracker's file belong to; undefined: the run itself. Makes it if it is new. */
  runOf(runId: string, attempt: number, path: string): string | undefined {
    const place = childPlaceOf(path);
    if (place === undefined) return undefined;
    const id = `${runId} ${attempt} ${place.key}`;
    let known = this.#known.get(id);
    if (known === undefined) {
      const isOwn = place.aloneIsParent && this.#isFirst(runId, attempt, place.key);
      known = isOwn ? "" : this.#child(runId, place.key, place.name) ?? "";
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      this.#known.set(id, known);
    }
    return known === "" ? undefined : known;
  }

  /** Whether the parent has no other file of this kind of its own. */
  #isFirst(runId: string, attempt: number, key: string): boolean {
    const { registry, telemetry } = this.#options;
    if (registry.child(runId, key) !== undefined) return false;
    const own = (telemetry.sourceCursors(runId, attempt) ?? []).flatMap(({ name }) => {
      const place = childPlaceOf(name);
      return place?.aloneIsParent && registry.child(runId, place.key) === undefined ? [place.key] : [];
    });
    return own.length === 0 || own.includes(key);
  }

  #child(parentId: string, key: string, name: string): string | undefined {
    const { registry, log } = this.#options;
    const known = registry.child(parentId, key);
    if (known !== undefined) return known;
    if (registry.childrenOf(parentId) >= MOST_CHILDREN) {
      log.warn(
        { run_id: parentId, key },
        `more than ${MOST_CHILDREN} runs within a run: records stay with the run itself`,
      );
      return undefined;
    }
    const parent = registry.require(parentId);
    const runId = newUlid();
    const whole = [...`${parent.name}/${name}`].slice(0, LONGEST_RUN_NAME).join("");
    const config = {
      run_name: whole,
      entry_point: "sh",
      arguments: [],
      environment: {},
      resources: { gpus: { requested: 0 } },
      artifacts: {},
      metadata: { within: { run: parentId, place: key } },
    };
    registry.insertChild({
      runId,
      name: whole,
      digest: `within:${runId}`,
      maxAttempts: 1,
      priority: parent.priority,
      tags: parent.tags,
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

  /** Trials of a study in the program's own process, from what it prints when one ends: each is made, filled and ended. */
  trials(runId: string, attempt: number, events: readonly WorkerEventRecord[]): void {
    for (const { kind, dataJson, tsNs } of events) {
      if (kind !== TRIAL_KIND) continue;
      const { number, state, values, parameters } = trialIn(dataJson);
      if (!Number.isSafeInteger(number)) continue;
      const { registry, telemetry } = this.#options;
      // Another study in the same program counts from 0 again.
      let key = `study:${attempt}:${number}`;
      for (let i = 2; registry.child(runId, key) !== undefined && i <= MOST_STUDIES; i++) {
        key = `study-${i}:${attempt}:${number}`;
      }
      const child = this.#child(runId, key, `trial-${number}`);
      if (child === undefined || isEnded(registry.require(child).state)) continue;
      const numbers = (Array.isArray(values) ? values : []).filter((value) => typeof value === "number");
      const points = numbers.map((value, i) => [numbers.length === 1 ? "value" : `value_${i}`, value]);
      const given = withoutSecrets("", parameters ?? {});
      telemetry.append(child, 1, [], [], [
        { kind: "parameters", dataJson: JSON.stringify({ source: "optuna", values: given }), tsNs },
        ...(points.length === 0
          ? []
          : [{ kind: "metrics", dataJson: JSON.stringify(Object.fromEntries(points)), tsNs }]),
      ]);
      registry.apply(child, trialEnd(state));
    }
  }

  /** The parent's attempt has ended, and so have its children. */
  end(parent: RunRow): void {
    const { registry, log } = this.#options;
    if (!isEnded(parent.state)) return;
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
    for (const id of this.#known.keys()) if (id.startsWith(`${parent.runId} `)) this.#known.delete(id);
  }

  /** Those whose parent ended while no daemon lived. */
  endLeft(): void {
    for (const parentId of this.#options.registry.parentsOfLive()) {
      const parent = this.#options.registry.get(parentId);
      if (parent !== undefined) this.end(parent);
    }
  }
}

/** The event's data; that of an imported log is one level deeper. */
function trialIn(dataJson: string): Record<string, unknown> {
  const data = parsedObject(dataJson) ?? {};
  return isPlainObject(data["payload"]) ? data["payload"] as Record<string, unknown> : data;
}

function trialEnd(state: unknown): LifecycleEvent {
  if (state === "pruned") return { type: "cancelled", reason: "pruned" };
  return state === "failed" ? { type: "failed", reason: "trial_failed" } : { type: "exited_ok" };
}

function endOf({ state, reason }: RunRow): LifecycleEvent {
  if (state === "TERMINATED") return { type: "exited_ok" };
  const why = reason ?? "parent_ended";
  return state === "CANCELLED" ? { type: "cancelled", reason: why } : { type: "failed", reason: why };
}
