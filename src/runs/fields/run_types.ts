/**
 * The types of a run, derived from the table of its fields. Times are Unix milliseconds, except in
 * JSON.
 */
import type { BaseDir } from "../../base/layout.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import type { RUN_FIELDS } from "./run_fields.ts";
import type { Outcome, PlacementPhase, RunState } from "./lifecycle_states.ts";

export type { PlacementPhase };

/** What a value is in a row, or in a property of RunDetail. */
interface Values {
  text: string;
  state: RunState;
  outcome: Outcome;
  phase: PlacementPhase;
  base: BaseDir;
  integer: number;
  number: number;
  flag: boolean;
  time: number;
  texts: string[];
  integers: number[];
  numbers: number[];
  counts: Record<string, number>;
  process: ProcessRef;
  config: string;
  any: unknown;
}
/** What it is in JSON. */
type JsonValues = Omit<Values, "time" | "process" | "config"> & {
  time: string;
  process: number;
  config: unknown;
};

type Property<S extends string> = S extends `${infer A}_${infer B}`
  ? `${A}${Capitalize<Property<B>>}`
  : S;
type Field = (typeof RUN_FIELDS)[number];
type Flat<F> = F | (F extends { fields: readonly (infer Inner)[] } ? Inner : never);
type OrNull<F, Where> = F extends { null: Where | "both" } ? null : never;
type ListOf<F, T> = F extends { list: true } ? T[] : T;

type ValueIn<F> = F extends { fields: readonly (infer Inner)[] } ? ListOf<F, Properties<Inner>>
  : F extends { kind: infer K extends keyof Values } ? Values[K]
  : never;
/** Fields whose values are properties of their own names. */
export type Properties<F> = {
  [One in F as One extends { column: string } | { from: string } ? never : NameOf<One>]:
    | ValueIn<One>
    | OrNull<One, "row">;
};
type NameOf<F> = F extends { json: infer Name extends string } ? Property<Name> : never;

type JsonIn<F> = F extends { fields: readonly (infer Inner)[] } ? ListOf<F, JsonOf<Inner>>
  : F extends { kind: infer K extends keyof JsonValues } ? JsonValues[K]
  : never;
export type JsonOf<F> = {
  [One in F as One extends { json: infer Name extends string } ? Name : never]:
    | JsonIn<One>
    | OrNull<One, "json">;
};
type Single<F> = F extends { single: true } ? F : never;

/** An attempt's job at an engine such as Slurm. */
export interface Placement {
  runId: string;
  attempt: number;
  launcher: string;
  /** How often the attempt was given to the engine; each time has a name of its own. */
  tries: number;
  /** The job's name at the engine, by which it is found again. */
  name: string;
  /**
   * The engine's id of the job; null until it is known. Engines use ids again: it means nothing
   * without the name.
   */
  job: string | null;
  /** When the engine accepted it, by the engine's clock, Unix milliseconds. */
  submittedAt: number | null;
  phase: PlacementPhase;
  /** Why the engine keeps it in its queue, or why its end is doubtful; "": neither. */
  waitingFor: string;
  expectedStart: number | null;
  nodes: string[];
  /** As the worker sees them, such as "0,1" of CUDA_VISIBLE_DEVICES. */
  gpus: string[];
  /** How it ended, as stated by the engine; null: unknown. */
  end: string | null;
  requestedAt: number;
}

/**
 * What the registry keeps about a run: the fields that have a column, by the column's name, and
 * three more.
 */
export type RunRow =
  & {
    [F in Flat<Field> as F extends { column: infer Name extends string } ? Property<Name> : never]:
      | (F extends { kind: infer K extends keyof Values } ? Values[K] : never)
      | OrNull<F, "row">;
  }
  & {
    gpuSlots: number[];
    /**
     * Where an engine has placed the attempt; null if it is not placed (yet), or runs on the
     * daemon's own host.
     */
    placement: Placement | null;
    /** Columns that cannot be read (bit rot, manual changes); their fields have neutral values. */
    damaged: string[];
  };

/** Columns of the fields that are read of very many runs. */
export type OutlineColumn = Property<Extract<Field, { outline: true }>["column"]>;

/** A run with everything about it that is computed on demand. */
export type RunDetail = { row: RunRow } & Properties<Exclude<Field, Single<Field>>>;
/** Of a single run. */
export type WholeRun = RunDetail & Properties<Single<Field>>;

export type RunJson = JsonOf<Exclude<Field, Single<Field>>> & {
  /** In `list`: the requested columns `param.…` and `metric.…`. */
  values?: Record<string, unknown>;
};
export type RunDetailJson = RunJson & JsonOf<Single<Field>>;
