/** Converts rows of registry.db to and from objects. */
import type { SQLInputValue } from "node:sqlite";
import { RUN_STATES, type RunState } from "./lifecycle/lifecycle.ts";
import { STORED_LENGTH } from "../base/field_limits.ts";
import type {
  ArtifactRow,
  EventRow,
  Placement,
  RunOutline,
  RunPatch,
  RunRow,
  TransitionRow,
} from "./row_types.ts";
import { BASE_DIRS, type BaseDir } from "../base/layout.ts";
import { propertyOf, type RunFieldKind, storedFields } from "../runs/fields/run_fields.ts";
import type { SqlRow } from "./sqlite.ts";

/** Kinds that are validated when read, because the run could not be handled otherwise. */
type CheckedKind = "texts" | "process" | "state" | "base";

/**
 * Property, column and kind of every field of a run that is stored in its row (its GPU slots are a
 * table of their own).
 */
const FIELDS = storedFields().map(({ column, kind, outline = false }) => ({
  property: propertyOf(column) as keyof RunRow,
  column,
  kind,
  outline,
}));

/** A placement as one JSON object. */
const PLACEMENT =
  `json_object('runId', run_id, 'attempt', attempt, 'launcher', launcher, 'tries', tries, 'name', name,
  'job', job, 'submittedAt', submitted_at, 'phase', phase, 'waitingFor', waiting_for, 'expectedStart', expected_start,
  'nodes', json(nodes), 'gpus', json(gpus), 'end', ended, 'requestedAt', requested_at)`;

export const SELECT_PLACEMENT = `SELECT ${PLACEMENT} AS placement FROM placements`;

/**
 * A run with the GPU slots it holds and its attempt's placement; to be followed by WHERE, ORDER BY
 * and LIMIT on `runs`.
 */
export const SELECT_RUN = `SELECT runs.*,
  (SELECT json_group_array(slot) FROM (SELECT slot FROM gpu_slots WHERE gpu_slots.run_id = runs.run_id
    UNION ALL SELECT slot FROM gpu_shares WHERE gpu_shares.run_id = runs.run_id ORDER BY slot))
  AS gpu_slots,
  (SELECT ${PLACEMENT} FROM placements WHERE placements.run_id = runs.run_id AND placements.attempt = runs.attempt)
  AS placement FROM runs`;

export function placementFrom(row: SqlRow): Placement {
  return JSON.parse(row.placement as string);
}

function encode(kind: RunFieldKind, value: unknown): SQLInputValue {
  if (value === null || value === undefined) return null;
  switch (kind) {
    case "flag":
      return value ? 1 : 0;
    case "integer":
    case "time":
      return Math.trunc(value as number);
    case "texts":
    case "process":
      return JSON.stringify(value);
    default:
      return value as SQLInputValue;
  }
}

/** Substitute for a damaged value: nothing is known, and the run does not continue. */
const IN_ITS_PLACE: Record<CheckedKind, string | null> = {
  texts: "[]",
  process: null,
  state: "FAULTED" satisfies RunState,
  base: "runs" satisfies BaseDir,
};

/** Value that a repair writes into each damaged column. */
export const MENDED: ReadonlyMap<string, string | null> = new Map(
  FIELDS.flatMap(({ column, kind }) => isChecked(kind) ? [[column, IN_ITS_PLACE[kind]]] : []),
);

function isChecked(kind: RunFieldKind): kind is CheckedKind {
  return kind in IN_ITS_PLACE;
}

/** The value of a column; undefined when it is damaged. */
function readChecked(kind: CheckedKind, text: string | null): unknown {
  if (kind === "state") return RUN_STATES.find((state) => state === text);
  if (kind === "base") return BASE_DIRS.find((base) => base === text);
  if (text === null) return null;
  const value = jsonOf(text);
  if (kind === "texts") {
    return Array.isArray(value) && value.every((item) => typeof item === "string")
      ? value
      : undefined;
  }
  const { pid, identity } = (value ?? {}) as Record<string, unknown>;
  return Number.isSafeInteger(pid) && typeof identity === "string" ? value : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A column with bounds of its own, which every version has had. */
const WHOLE = "notes";

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}… (cut)`;
}

/** The first texts, as many as fit. */
function firstOf(texts: string[]): string[] {
  let left = STORED_LENGTH.list;
  const end = texts.findIndex((text) => (left -= text.length) < 0);
  return end === -1 ? texts : [...texts.slice(0, end), "… (cut)"];
}

/**
 * Quarantines damaged columns: substitutes their values and names them in `damaged`, so that other
 * runs stay readable.
 */
export function runFrom(row: SqlRow): RunRow {
  const damaged: string[] = [];
  const decode = (column: string, kind: RunFieldKind): unknown => {
    const value = row[column] as string | null;
    if (kind === "text" && typeof value === "string" && column !== WHOLE) {
      return cut(value, STORED_LENGTH.text);
    }
    if (!isChecked(kind)) {
      return kind === "flag" && value !== null ? (value as unknown) === 1 : value;
    }
    const read = readChecked(kind, value);
    if (read !== undefined) return kind === "texts" ? firstOf(read as string[]) : read;
    damaged.push(column);
    return readChecked(kind, IN_ITS_PLACE[kind]);
  };
  const run: Record<string, unknown> = {
    gpuSlots: JSON.parse(row.gpu_slots as string),
    placement: row.placement === null ? null : placementFrom(row),
    damaged,
  };
  for (const { property, column, kind } of FIELDS) run[property] = decode(column, kind);
  return run as unknown as RunRow;
}

const OF_OUTLINES = FIELDS.filter(({ outline }) => outline);
export const OUTLINE_COLUMNS = OF_OUTLINES.map(({ column }) => column).join(", ");

export function outlineFrom(row: SqlRow): RunOutline {
  const outline: Record<string, unknown> = { bytes: row.bytes };
  for (const { property, column, kind } of OF_OUTLINES) {
    const value = row[column] as string | null;
    outline[property] = isChecked(kind)
      ? readChecked(kind, value) ?? readChecked(kind, IN_ITS_PLACE[kind])
      : value;
  }
  return outline as RunOutline;
}

/**
 * Column names and values of the fields that `values` has; a field that is undefined counts as
 * absent.
 */
export function runColumns(
  values: Partial<RunRow>,
): { columns: string[]; values: SQLInputValue[] } {
  const columns: string[] = [];
  const encoded: SQLInputValue[] = [];
  for (const { property, column, kind } of FIELDS) {
    const value = values[property];
    if (value === undefined) continue;
    columns.push(column);
    encoded.push(encode(kind, value));
  }
  return { columns, values: encoded };
}

const NEVER_PATCHED: readonly string[] = [
  "runId",
  "digest",
  "state",
  "attempt",
  "createdAt",
  "updatedAt",
  "outcome",
  "gpuSlots",
  "placement",
  "damaged",
];

/**
 * The patch without fields that only a transition may change, in case an untyped caller has set
 * them.
 */
export function patchOnly(patch: RunPatch): RunPatch {
  return Object.fromEntries(
    Object.entries(patch).filter(([field]) => !NEVER_PATCHED.includes(field)),
  );
}

export function transitionFrom(row: SqlRow): TransitionRow {
  return {
    seq: row.seq,
    runId: row.run_id,
    from: row.from_state,
    to: row.to_state,
    event: row.event,
    reason: row.reason,
    attempt: row.attempt,
    at: row.at,
  } as TransitionRow;
}

/** Damaged data becomes `{"damaged": TEXT}`, so that other events stay readable. */
export function eventFrom(row: SqlRow): EventRow {
  return {
    seq: row.seq,
    at: row.at,
    runId: row.run_id,
    runName: row.run_name,
    kind: row.kind,
    attempt: row.attempt,
    dataJson: isObject(row.data_json as string)
      ? row.data_json
      : JSON.stringify({ damaged: row.data_json }),
  } as EventRow;
}

function isObject(json: string): boolean {
  const value = jsonOf(json);
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function artifactFrom(row: SqlRow): ArtifactRow {
  return {
    runId: row.run_id,
    path: row.path,
    kind: row.kind,
    bytes: row.bytes,
    sha256: row.sha256,
    step: row.step,
    windowId: row.window_id,
    at: row.at,
    deletedAt: row.deleted_at,
  } as ArtifactRow;
}
