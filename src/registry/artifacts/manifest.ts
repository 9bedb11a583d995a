/**
 * The two summaries that the original's GUI reads when a run has ended, for workers that write
 * none: `analytics.json` (in the form that the original's workers use) and, for evaluations,
 * `eval_summary.json`. Pure.
 */
import { isPlainObject } from "../../base/text/exact_numbers.ts";
import { relativeWithin } from "./run_directory.ts";
import type { ArtifactRow, RunRow } from "../row_types.ts";

type Json = Record<string, unknown>;

function valueAt(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>(
    (v, key) => (typeof v === "object" && v !== null ? (v as Json)[key] : undefined),
    value,
  );
}

/** @param directory the run's, absolute */
export function analyticsOf(
  run: RunRow,
  directory: string,
  artifacts: readonly ArtifactRow[],
): Json {
  let config: unknown;
  try {
    config = JSON.parse(run.configJson);
  } catch {
    config = {};
  }
  const checkpoints = artifacts.filter((a) => a.kind === "checkpoint");
  const newest = checkpoints.reduce<ArtifactRow | undefined>(
    (a, b) => (a === undefined || b.at >= a.at ? b : a),
    undefined,
  );
  const best = checkpoints.find((a) => /best/i.test(a.path.slice(a.path.lastIndexOf("/") + 1)));
  const extension = newest === undefined
    ? ""
    : /\.([A-Za-z0-9]{1,12})$/.exec(newest.path)?.[1] ?? "";
  const tensorboard = valueAt(config, "metadata", "artifacts", "tensorboard", "relative_path");
  const wandb = valueAt(config, "metadata", "artifacts", "wandb");
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  const relative = text(tensorboard) || "tensorboard";
  return {
    run_id: run.runId,
    worker_type: run.workerKind ?? "",
    artifacts: {
      tensorboard: {
        enabled: artifacts.some((a) => a.kind === "tensorboard"),
        relative_path: relative,
        log_dir: `${directory}/${relative}`,
        port: null,
        url: null,
      },
      wandb: {
        enabled: valueAt(wandb, "enabled") === true,
        run_path: text(valueAt(wandb, "run_path")),
        project: text(valueAt(wandb, "project")),
        entity: text(valueAt(wandb, "entity")),
        run_id: null,
        run_name: null,
        url: null,
      },
      checkpoints: {
        directory: `${directory}/checkpoints`,
        format: extension,
        files: checkpoints.map((a) => a.path),
        best_checkpoint: best?.path ?? null,
        final_checkpoint: newest?.path ?? null,
      },
      logs_dir: `${directory}/logs`,
      videos_dir: `${directory}/videos`,
    },
    metadata: {
      written_by: "mosaic",
      run_name: run.name,
      outcome: run.outcome,
      reason: run.reason,
      exit_code: run.exitCode,
      attempt: run.attempt,
    },
  };
}

/** Whether mosaic wrote this summary, so that it may be rewritten. */
export function isWrittenByMosaic(analytics: unknown): boolean {
  return valueAt(analytics, "metadata", "written_by") === "mosaic";
}

/**
 * A summary without the paths of removed directories: null instead of a path, and nothing in lists.
 * @param directory the run's, absolute
 * @param removed names of directories in it
 */
export function withoutRemoved(
  analytics: unknown,
  directory: string,
  removed: readonly string[],
): unknown {
  const isGone = (value: unknown): boolean => {
    const path = typeof value === "string" ? relativeWithin(directory, value) : undefined;
    return path !== undefined && removed.includes(path.split("/")[0]!);
  };
  const without = (value: unknown): unknown => {
    if (isGone(value)) return null;
    if (Array.isArray(value)) return value.filter((item) => !isGone(item)).map(without);
    if (!isPlainObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, without(inner)]));
  };
  const artifacts = valueAt(analytics, "artifacts");
  return artifacts === undefined
    ? analytics
    : { ...analytics as Json, artifacts: without(artifacts) };
}

/**
 * @param returns total rewards of the evaluation's episodes; those that are not finite are ignored
 */
export function evalSummaryOf(
  returns: readonly number[],
  durationSeconds: number,
  now: Date,
): Json {
  const finite = returns.filter(Number.isFinite).sort((a, b) => a - b);
  const n = finite.length;
  const mean = finite.reduce((sum, r) => sum + r, 0) / n;
  const middle = n % 2 === 1 ? finite[(n - 1) / 2]! : (finite[n / 2 - 1]! + finite[n / 2]!) / 2;
  const deviation = Math.sqrt(finite.reduce((sum, r) => sum + (r - mean) ** 2, 0) / n);
  return {
    batch_index: 0,
    episodes: returns.length,
    avg_return: n === 0 ? null : mean,
    min_return: n === 0 ? null : finite[0]!,
    max_return: n === 0 ? null : finite[n - 1]!,
    median_return: n === 0 ? null : middle,
    std_return: n === 0 ? null : deviation,
    duration_sec: durationSeconds,
    updated_at: now.toISOString(),
  };
}
