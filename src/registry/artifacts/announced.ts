/**
 * What a worker's own records say about files: `artifact` and `checkpoint_saved` events, and steps
 * in names. Pure.
 */
import { nodePath } from "../../base/node_modules.ts";
import { parsedObject } from "../../base/text/json_text.ts";
import type { WorkerEventRecord } from "../../gen/records/record_types.ts";

export interface Announcement {
  /** As the worker wrote it: absolute, or relative to its directory. */
  path: string;
  kind: string;
  step: number | null;
  /** The window that shows a video; "" for none. */
  windowId: string;
}

type Json = Record<string, unknown>;

/** Characters. */
const MOST_WINDOW_ID = 128;

function objectOf(value: unknown): Json | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as Json
    : undefined;
}

function firstText(data: Json, names: readonly string[]): string | undefined {
  return names.map((name) => data[name]).find((v): v is string =>
    typeof v === "string" && v !== ""
  );
}

/** The file that an event of the worker announces; undefined if it announces none. */
export function announcementOf(
  event: Pick<WorkerEventRecord, "kind" | "dataJson">,
): Announcement | undefined {
  if (event.kind !== "artifact" && event.kind !== "checkpoint_saved") return undefined;
  const record = parsedObject(event.dataJson);
  if (record === undefined) return undefined;
  const data = { ...record, ...objectOf(record.payload) };
  const path = firstText(
    data,
    event.kind === "artifact" ? ["path", "file"] : ["checkpoint_path", "path"],
  );
  if (path === undefined) return undefined;
  const reportedKind = firstText(data, ["kind", "artifact_type"]);
  const kind = event.kind === "checkpoint_saved"
    ? "checkpoint"
    : reportedKind && /^[\w.-]{1,40}$/.test(reportedKind)
    ? reportedKind
    : "artifact";
  const step = [data.step, data.global_step, data.timestep].find((v) =>
    Number.isSafeInteger(v) && (v as number) >= 0
  );
  return {
    path,
    kind,
    step: (step as number | undefined) ?? stepInName(path),
    windowId: windowIdOf(data.window_id),
  };
}

/** A toolkit's name of a window: a whole number, or a short text. */
function windowIdOf(value: unknown): string {
  if (Number.isSafeInteger(value)) return String(value);
  return typeof value === "string" && value.length <= MOST_WINDOW_ID ? value : "";
}

/**
 * Possible places of a path that a worker wrote: below its run's directory, or its working
 * directory ("": none).
 */
export function placesOf(path: string, directories: readonly string[]): string[] {
  const { resolve } = nodePath();
  return [
    ...new Set(
      directories.filter((directory) => directory !== "").map((directory) =>
        resolve(directory, path)
      ),
    ),
  ];
}

/**
 * Size (bytes) and time of change (Unix ms) of a file that a proxy has found (src/readers/files),
 * or when it was seen to be gone.
 */
export function referenceOf(
  event: Pick<WorkerEventRecord, "dataJson">,
): { bytes: number; at: number; isDeleted: boolean } | undefined {
  const { bytes, changed_at: at, deleted } = parsedObject(event.dataJson) ?? {};
  return Number.isSafeInteger(bytes) && Number.isSafeInteger(at)
    ? { bytes: bytes as number, at: at as number, isDeleted: deleted === true }
    : undefined;
}

/**
 * The step in names like `step_1000.pt`, `model-step=1000.ckpt`, `rl_model_1000_steps.zip`,
 * `iter_1000.pth`, `ckpt-500.npz`, and of Transformers' directories
 * (`checkpoint-500/model.safetensors`). `checkpoint_000010` counts checkpoints.
 */
export function stepInName(path: string): number | null {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const digits = /steps?[-_=]?(\d{1,15})/i.exec(name)?.[1] ??
    /(\d{1,15})[-_]?steps?/i.exec(name)?.[1] ??
    /(?:iter(?:ation)?|update)[-_=]?(\d{1,15})/i.exec(name)?.[1] ??
    /(?:ckpt|checkpoint|model|weights|params|agent|policy)-(\d{1,15})(?=$|\.[a-z])/i.exec(name)
      ?.[1] ??
    /\/checkpoint-(\d{1,15})\/[^/]+$/.exec(path)?.[1];
  return digits === undefined ? null : Number(digits);
}
