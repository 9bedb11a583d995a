/**
 * A sweep as people describe it, by a file or by options, before it is one: what is missing and how
 * the rest is combined.
 */
import { MosaicError } from "../base/errors.ts";
import { partsFrom, stopOf } from "./words.ts";
import { checked, type Pieces, type StopRule, type SweepSpec } from "./spec.ts";

export interface Described
  extends Partial<Pick<SweepSpec, "name" | "pass" | "max_parallel" | "metric" | "config">> {
  pieces: Pieces;
  budget: SweepSpec["budget"];
  /** Words, or a rule that another tracker's file states. */
  stop?: string | StopRule;
  /** A program with its arguments, instead of a config. */
  command?: string[];
  environment?: Record<string, string>;
  /** What of a file has no meaning here, and why. */
  notes: string[];
}

export const NOTHING: Described = { pieces: { axes: [], space: [] }, budget: {}, notes: [] };

/** What `b` says has precedence. */
export function together(a: Described, b: Described): Described {
  const pieces = { ...a.pieces, ...b.pieces };
  pieces.axes = [
    ...a.pieces.axes.filter(({ name }) => !b.pieces.axes.some((axis) => axis.name === name)),
    ...b.pieces.axes,
  ];
  pieces.space = [
    ...a.pieces.space.filter(({ name }) => !b.pieces.space.some((one) => one.name === name)),
    ...b.pieces.space,
  ];
  const when = [...a.pieces.when ?? [], ...b.pieces.when ?? []];
  if (when.length > 0) pieces.when = when;
  return {
    ...a,
    ...b,
    pieces,
    budget: { ...a.budget, ...b.budget },
    environment: { ...a.environment, ...b.environment },
    notes: [...a.notes, ...b.notes],
  };
}

/** @throws MosaicError `invalid_argument` that names what is missing or wrong */
export function specOf(
  described: Described,
  config: Record<string, unknown>,
  defaultName: string,
): SweepSpec {
  const { name = defaultName, pass = "templates", max_parallel, budget, metric, stop, pieces } =
    described;
  const { max_steps: steps, max_duration_seconds: seconds } = (config.schedule ?? {}) as {
    max_steps?: number;
    max_duration_seconds?: number;
  };
  const rule = typeof stop === "string" ? stopOf(stop, { steps, seconds }) : stop;
  if (rule !== undefined && metric === undefined) {
    throw new MosaicError("invalid_argument", "early stopping needs a metric", {
      hint: "Add --metric NAME:max.",
    });
  }
  return checked({
    name,
    config: {
      ...config,
      environment: { ...(config.environment as object), ...described.environment },
    },
    pass,
    parts: partsFrom(pieces),
    budget,
    ...(max_parallel === undefined ? {} : { max_parallel }),
    ...(metric === undefined ? {} : { metric }),
    ...(rule === undefined ? {} : { stop: rule }),
  });
}
