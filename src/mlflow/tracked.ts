/**
 * What MLflow's clients have created within one run of mosaic: experiments and MLflow runs with
 * their tags and parameters. Pure. Their metrics are in the telemetry store, as series of the run.
 */
import { parsedObject } from "../base/text/json_text.ts";
import type { Dataset } from "./search.ts";
import { isMetricName } from "../records/points.ts";

export interface Experiment {
  id: string;
  name: string;
  tags: Record<string, string>;
}

export interface MlflowRun {
  id: string;
  name: string;
  experiment: string;
  user: string;
  status: string;
  /** Unix milliseconds. */
  start: number;
  end: number | null;
  deleted: boolean;
  /** Attempt of mosaic's run in which it was created. */
  attempt: number;
  /** The run within mosaic's run that has its records; absent: they are that run's own. */
  within?: string;
  /** Prefix of its metrics' names, if it has no run within and is not the first of an attempt. */
  prefix: string;
  params: Record<string, string>;
  tags: Record<string, string>;
  /** Absent in earlier versions, and if there are none. */
  datasets?: Dataset[];
}

/** A logged model, for the client, which reads it back. The client stores its files itself. */
export interface LoggedModel {
  id: string;
  name: string;
  experiment: string;
  type: string;
  sourceRun: string;
  status: string;
  /** Unix milliseconds. */
  created: number;
  params: Record<string, string>;
  tags: Record<string, string>;
}

export interface Tracked {
  experiments: Experiment[];
  runs: MlflowRun[];
  models: LoggedModel[];
  /** How many versions of each model were registered; absent in earlier versions. */
  registered?: Record<string, number>;
}

/** The stored state; empty if there is no complete file. */
export function trackedOf(text: string | undefined): Tracked {
  const read = parsedObject(text ?? "") as Partial<Tracked> | undefined;
  const isWhole = [read?.experiments, read?.runs, read?.models].every(Array.isArray);
  return isWhole
    ? read as Tracked
    : { experiments: [{ id: "0", name: "Default", tags: {} }], runs: [], models: [] };
}

export function addExperiment(
  tracked: Tracked,
  name: string,
  tags: Record<string, string>,
): Experiment {
  const experiment = { id: String(tracked.experiments.length), name, tags };
  tracked.experiments.push(experiment);
  return experiment;
}

/**
 * Adds an MLflow run. A client repeats a request that got no answer: then the existing run is
 * returned.
 * @param usual its name if the client gives none
 * @param within makes a run within mosaic's run, once for each key; undefined: it has too many
 */
export function addRun(
  tracked: Tracked,
  wanted: Pick<MlflowRun, "experiment" | "user" | "start" | "attempt" | "tags"> & { name: string },
  usual: string,
  within: (key: string, name: string) => string | undefined,
): MlflowRun {
  const of = tracked.runs.filter((run) => run.attempt === wanted.attempt);
  const repeated = of.find((run) =>
    run.start === wanted.start && run.experiment === wanted.experiment &&
    run.user === wanted.user &&
    (wanted.name === "" || run.name === wanted.name)
  );
  if (repeated !== undefined) return repeated;
  const name = wanted.name || (of.length === 0 ? usual : `${usual}-${of.length + 1}`);
  const child = of.length === 0 ? undefined : within(`mlflow ${tracked.runs.length}`, name);
  const taken = prefixesOf(of);
  let prefix = of.length === 0 || child !== undefined ? "" : `${name}/`;
  for (let i = 2; prefix !== "" && taken.has(prefix); i++) prefix = `${name}-${i}/`;
  const id = crypto.randomUUID().replaceAll("-", "");
  const run: MlflowRun = {
    ...wanted,
    ...{ id, name, prefix, status: "RUNNING", end: null, deleted: false, params: {} },
    ...(child === undefined ? {} : { within: child }),
    tags: { ...wanted.tags, "mlflow.runName": name },
  };
  tracked.runs.push(run);
  return run;
}

/** The series of a metric. Names that mean something else in mosaic get a prefix. */
export function seriesName(run: MlflowRun, key: string): string {
  const name = run.prefix + key;
  return isMetricName(name) ? name : `mlflow/${name}`;
}

/** Of the runs whose series are mosaic's run's own. */
export function prefixesOf(runs: readonly MlflowRun[]): ReadonlySet<string> {
  return new Set(runs.flatMap(({ prefix, within }) => within === undefined ? [prefix] : []));
}

/**
 * The prefix and the metric of a series: the longest prefix that fits. Undefined if the series
 * belongs to no MLflow run.
 */
export function metricKey(
  prefixes: ReadonlySet<string>,
  series: string,
): { prefix: string; key: string } | undefined {
  // The series that every run has belong to no MLflow run.
  if (!isMetricName(series)) return undefined;
  let prefix = series;
  while (!prefixes.has(prefix)) {
    if (prefix === "") return undefined;
    prefix = prefix.slice(0, prefix.slice(0, -1).lastIndexOf("/") + 1);
  }
  const key = series.slice(prefix.length);
  const renamed = key.startsWith("mlflow/") ? key.slice("mlflow/".length) : key;
  return { prefix, key: isMetricName(renamed) ? key : renamed };
}

/** MLflow stores parameters as the text of Python's `str`. */
export function typedParameter(text: string): string | number | boolean | null {
  if (text === "True" || text === "False") return text === "True";
  if (text === "None") return null;
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[-+]?\d+)?$/.test(text) && Number.isFinite(Number(text))
    ? Number(text)
    : text;
}
