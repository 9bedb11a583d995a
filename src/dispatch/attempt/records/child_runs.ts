/**
 * The runs within a run: trials, jobs and tracker runs of one supervised program. Each is a run of its own, with parameters,
 * curves and a state, and without a process, a directory and a slot: it ends with its parent.
 */
import { newUlid } from "../../../config/ulid.ts";
import { messageOf } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { LONGEST_RUN_NAME } from "../../../base/run_name.ts";
import { childPlaceOf } from "../../../readers/files/child_places.ts";
import { isEnded, type LifecycleEvent } from "../../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";

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

function endOf({ state, reason }: RunRow): LifecycleEvent {
  if (state === "TERMINATED") return { type: "exited_ok" };
  const why = reason ?? "parent_ended";
  return state === "CANCELLED" ? { type: "cancelled", reason: why } : { type: "failed", reason: why };
}
