/**
 * MLflow's tracking REST API (2.0), as far as its clients use it during training: a worker's
 * `MLFLOW_TRACKING_URI` is `http://HOST:PORT/mlflow/RUN_ID`. A client sees only the MLflow runs of
 * its own run of mosaic. Points become series of that run; experiments, tags and parameters are
 * stored in a file in its directory.
 */
import { parsedJson } from "../base/text/json_text.ts";
import { numberOnWire } from "../gen/records/step_columns.ts";
import { withoutSecrets } from "../base/text/secrets.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import { bytesOfText, isLonger, MLFLOW_LIMITS } from "../base/field_limits.ts";
import { RunFiles } from "../base/layout.ts";
import type { Core } from "../dispatch/core/core.ts";
import { readRecord } from "../os/files/untrusted.ts";
import { writeRecord } from "../os/files/untrusted_changes.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { RunRow } from "../registry/row_types.ts";
import type { WorkerEventRecord } from "../gen/records/record_types.ts";
import { MAX_NAME_LENGTH } from "../records/points.ts";
import { conditionsOf, orderOf, type Searched } from "./search.ts";
import { eventsOf, type MetricPoint, pointsOfEvent, RecentPoints } from "./points.ts";
import {
  addExperiment,
  addRun,
  type Experiment,
  type LoggedModel,
  metricKey,
  type MlflowRun,
  prefixesOf,
  seriesName,
  type Tracked,
  trackedOf,
  typedParameter,
} from "./tracked.ts";

/** MLflow's client sends at most 1 MB or 1000 points. */
export const MLFLOW_BODY = { maxBytes: 4 << 20, withinMs: 30_000 };
const PATH = /^\/mlflow\/([^/]+)\/api\/2\.0\/mlflow\/(.+)$/;
/** Other paths are for browsers. */
export const isMlflowCall = (path: string) => /^\/mlflow\/[^/]+\/./.test(path);
/** Runs of mosaic whose state is in memory. */
const OPEN_RUNS = 64;
const HISTORY_ROWS = 100_000;
const RESULTS = 25_000;
/** Bound on the stored state of a run's clients. */
const MAX_STATE_BYTES = 8 << 20;

/** A client may begin a run anew, and log on; mosaic's has ended then. */
const ENDS: ReadonlySet<string> = new Set(["FINISHED", "FAILED", "KILLED"]);

type Json = Record<string, unknown>;
/** The newest point of each metric of an MLflow run. */
type Latest = (run: MlflowRun) => Json[];
type KeyValue = { key: string; value: string };

/** An error in the form of MLflow's clients. */
class MlflowError extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    [this.status, this.code] = [status, code];
  }
}
const invalid = (message: string) => new MlflowError(400, "INVALID_PARAMETER_VALUE", message);
const missing = (message: string) => new MlflowError(404, "RESOURCE_DOES_NOT_EXIST", message);

interface Open {
  readonly row: RunRow;
  readonly tracked: Tracked;
  /** By the run that has the points. */
  readonly recent: Map<string, RecentPoints>;
  readonly directory: string;
}

/** A method's input: the run of mosaic, and the fields of the body or the query. */
interface Call {
  run: Open;
  fields: Json;
}

/** @throws MosaicError for a token that is not the run's */
type OwnRunCheck = (runId: string, token: string) => void;

export class MlflowApi {
  readonly #core: Core;
  readonly #requireOwnRun: OwnRunCheck;
  readonly #open = new Map<string, Omit<Open, "row">>();

  constructor(core: Core, requireOwnRun: OwnRunCheck = () => {}) {
    this.#core = core;
    this.#requireOwnRun = requireOwnRun;
  }

  /**
   * @param owner whether the caller is the daemon's user, who needs no token @param read reads the
   * body
   */
  async answer(
    request: Request,
    path: string,
    owner: boolean,
    read: () => Promise<string>,
  ): Promise<Response> {
    try {
      const [, runId = "", name = ""] = PATH.exec(path) ?? [];
      const method = METHODS[name] ?? ofModel(request.method, name);
      if (method === undefined) {
        const of = /\/(?:registered-models|model-versions)\//.test(path)
          ? "the model registry"
          : path;
        throw new MlflowError(
          404,
          "ENDPOINT_NOT_FOUND",
          `mosaic does not serve ${of} of MLflow's API: models stay files of the run. Set MLFLOW_TRACKING_URI to another server for it`,
        );
      }
      if (!owner) this.#requireOwnRun(runId, bearerOf(request));
      const fields = request.method === "GET" ? queryOf(request) : bodyOf(await read());
      return Response.json(method(this, { run: this.#runOf(runId), fields }));
    } catch (error) {
      const { status, code, message } = asMlflow(error);
      if (code === "INTERNAL_ERROR") {
        this.#core.log.error({ path, error: message }, "a call of MLflow's API failed");
      }
      return Response.json({ error_code: code, message }, { status });
    }
  }

  #runOf(runId: string): Open {
    const row = this.#core.runs.get(runId);
    if (row === undefined) throw missing(`there is no run ${runId}`);
    let open = this.#open.get(runId);
    if (open === undefined) {
      const { directory } = this.#core.detail(row);
      open = {
        directory,
        tracked: trackedOf(readRecord(fileOf(directory))),
        recent: new Map(),
      };
      this.#open.set(runId, open);
      for (const key of this.#open.keys()) {
        if (this.#open.size <= OPEN_RUNS) break;
        this.#open.delete(key);
      }
    }
    return { ...open, row };
  }

  /**
   * The last points that an earlier daemon stored: their client may not have received the answer.
   */
  #recentOf(runId: string): RecentPoints {
    const recent = new RecentPoints();
    const { records } = this.#core;
    for (
      let seq = Math.max(0, records.head(runId, "events") - 2000), page;;
      seq = page.at(-1)!.seq
    ) {
      page = records.read(runId, "events", seq, 1000);
      if (page.length === 0) return recent;
      for (const event of page) if (event.kind === "metrics") recent.stored(pointsOfEvent(event));
    }
  }

  /**
   * Stores points first and then the state, all of it idempotent: a client that receives no answer
   * repeats its request.
   */
  record(
    { row, recent: all }: Open,
    { within }: MlflowRun,
    points: readonly MetricPoint[],
    events: readonly WorkerEventRecord[] = [],
  ): void {
    if (isEnded(row.state)) {
      throw new MlflowError(400, "INVALID_STATE", `run ${row.runId} is ${row.state}`);
    }
    const of = within ?? row.runId;
    let recent = all.get(of);
    if (recent === undefined) all.set(of, recent = this.#recentOf(of));
    const fresh = recent.fresh(points);
    if (fresh.length + events.length === 0) return;
    this.#core.record(row.runId, [...events, ...eventsOf(recent.placed(fresh))], within);
    recent.stored(fresh);
  }

  save({ directory, tracked, row }: Open): void {
    const text = JSON.stringify(tracked);
    try {
      requireStateSize(text.length);
    } catch (error) {
      this.#open.delete(row.runId);
      throw error;
    }
    try {
      writeRecord(fileOf(directory), text);
    } catch (error) {
      // The state in memory is newer than the disk's: it is read again.
      this.#open.delete(row.runId);
      throw new MosaicError("unavailable", `${fileOf(directory)}: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** The run within mosaic's run for a further run of the client. */
  within({ row }: Open, key: string, name: string): string | undefined {
    return this.#core.childRun(row.runId, `${row.attempt} ${key}`, name);
  }

  /** The client says how one of its runs has ended; mosaic's own run ends by its process. */
  ended({ within, status }: MlflowRun): void {
    if (within === undefined || !ENDS.has(status)) return;
    this.#core.endChild(within, status);
  }

  /**
   * The newest point of each metric of an MLflow run. Each series is looked up once, for the first
   * run that is asked for.
   */
  latest({ row, tracked }: Open): Latest {
    let own: Map<string, Json[]> | undefined;
    return ({ prefix, within }) => {
      const points = within === undefined
        ? own ??= this.#latestPoints(row.runId, prefixesOf(tracked.runs))
        : this.#latestPoints(within, new Set([""]));
      return points.get(prefix) ?? [];
    };
  }

  #latestPoints(runId: string, prefixes: ReadonlySet<string>): Map<string, Json[]> {
    const { records } = this.#core;
    const byPrefix = new Map<string, Json[]>();
    for (const { name, points } of records.listSeries(runId)) {
      const { prefix, key } = metricKey(prefixes, name) ?? {};
      if (prefix === undefined) continue;
      const [at] = records.series(runId, name, points, points, 1);
      if (at === undefined) continue;
      let metrics = byPrefix.get(prefix);
      if (metrics === undefined) byPrefix.set(prefix, metrics = []);
      metrics.push({ key, value: numberOnWire(at.last), timestamp: at.atMs, step: at.step ?? 0 });
    }
    return byPrefix;
  }

  /** Points of one metric after row `since` of the metrics of the run that has them. */
  history(
    { row }: Open,
    of: MlflowRun,
    key: string,
    since: number,
    limit: number,
  ): { points: Json[]; next: number | undefined } {
    const points: Json[] = [];
    const series = seriesName(of, key);
    const runId = of.within ?? row.runId;
    let seq = since;
    const end = this.#core.records.head(runId, "metrics");
    while (seq < end && seq - since < HISTORY_ROWS && points.length < limit) {
      const page = this.#core.records.read(runId, "metrics", seq, 4096);
      if (page.length === 0) break;
      for (const point of page) {
        seq = point.seq;
        if (point.name === series) {
          points.push({
            value: numberOnWire(point.value),
            step: point.step ?? 0,
            timestamp: point.tsMs,
          });
        }
        if (points.length >= limit) break;
      }
    }
    return { points, next: seq < end ? seq : undefined };
  }
}

function requireStateSize(bytes: number): void {
  if (bytes > MAX_STATE_BYTES) {
    throw invalid(`the parameters and tags of a run take ${MAX_STATE_BYTES >> 20} MiB at most`);
  }
}

type Method = (api: MlflowApi, call: Call) => Json;

const METHODS: Readonly<Record<string, Method>> = {
  "experiments/get-by-name": (_, { run, fields }) => ({
    experiment: experimentJson(run, named(run, fields)),
  }),
  "experiments/get": (_, { run, fields }) => ({
    experiment: experimentJson(run, experimentOf(run, fields)),
  }),
  "experiments/search": (_, { run, fields }) => {
    refuseFilter(fields);
    return {
      experiments: run.tracked.experiments.map((experiment) => experimentJson(run, experiment)),
    };
  },
  "experiments/create": (api, { run, fields }) => {
    const name = text(fields, "name");
    if (run.tracked.experiments.some((e) => e.name === name)) {
      throw new MlflowError(400, "RESOURCE_ALREADY_EXISTS", `there is an experiment "${name}"`);
    }
    const { id } = addExperiment(run.tracked, name, byKey(pairs(fields, "tags")));
    api.save(run);
    return { experiment_id: id };
  },
  "experiments/set-experiment-tag": (api, { run, fields }) => {
    experimentOf(run, fields).tags[text(fields, "key")] = string(fields, "value");
    api.save(run);
    return {};
  },
  "runs/create": (api, { run, fields }) => {
    const { row, tracked } = run;
    const tags = byKey(pairs(fields, "tags"));
    const made = addRun(
      tracked,
      {
        name: string(fields, "run_name") || tags["mlflow.runName"] || "",
        experiment: experimentOf(run, { experiment_id: "0", ...fields }).id,
        user: string(fields, "user_id"),
        start: whole(fields, "start_time", Date.now()),
        attempt: row.attempt,
        tags,
      },
      row.name,
      (key, name) => api.within(run, key, name),
    );
    api.save(run);
    return { run: runJson(api.latest(run), run, made) };
  },
  "runs/get": (api, { run, fields }) => ({
    run: runJson(api.latest(run), run, mlflowRun(run, fields)),
  }),
  "runs/search": (api, { run, fields }) => {
    const ids = new Set(
      Array.isArray(fields.experiment_ids) ? fields.experiment_ids.map(String) : [],
    );
    const view = string(fields, "run_view_type") || "ACTIVE_ONLY";
    const order = Array.isArray(fields.order_by) ? fields.order_by.map(String) : [];
    const latest = api.latest(run);
    const found = searching(() => {
      const [holds, compare] = [conditionsOf(string(fields, "filter")), orderOf(order)];
      return run.tracked.runs
        .filter((r) =>
          ids.has(r.experiment) && (view === "ALL" || r.deleted === (view === "DELETED_ONLY"))
        )
        .map((r) => ({ r, searched: searchedOf(latest, run, r) }))
        .filter(({ searched }) => holds(searched))
        .sort((a, b) => compare(a.searched, b.searched) || b.r.start - a.r.start);
    });
    const from = whole(fields, "page_token", 0);
    const to = from + whole(fields, "max_results", 1000);
    return {
      runs: found.slice(from, to).map(({ r }) => runJson(latest, run, r)),
      ...(to < found.length ? { next_page_token: String(to) } : {}),
    };
  },
  "runs/update": (api, { run, fields }) => {
    const changed = mlflowRun(run, fields);
    if (string(fields, "status") !== "") changed.status = string(fields, "status");
    if (fields.end_time !== undefined) changed.end = whole(fields, "end_time", 0);
    const name = string(fields, "run_name");
    if (name !== "") [changed.name, changed.tags["mlflow.runName"]] = [name, name];
    api.ended(changed);
    api.save(run);
    return { run_info: infoJson(run, changed) };
  },
  "runs/delete": (api, { run, fields }) => setDeleted(api, run, fields, true),
  "runs/restore": (api, { run, fields }) => setDeleted(api, run, fields, false),
  "runs/log-metric": (api, { run, fields }) => {
    const of = mlflowRun(run, fields);
    api.record(run, of, [pointOf(of, fields)]);
    return {};
  },
  "runs/log-parameter": (api, { run, fields }) => {
    setParameters(api, run, mlflowRun(run, fields), [{
      key: text(fields, "key"),
      value: string(fields, "value"),
    }], []);
    return {};
  },
  "runs/set-tag": (api, { run, fields }) => {
    mlflowRun(run, fields).tags[text(fields, "key")] = string(fields, "value");
    api.save(run);
    return {};
  },
  "runs/delete-tag": (api, { run, fields }) => {
    delete mlflowRun(run, fields).tags[text(fields, "key")];
    api.save(run);
    return {};
  },
  "runs/log-batch": (api, { run, fields }) => {
    const of = mlflowRun(run, fields);
    const points = list(fields, "metrics").map((metric) => pointOf(of, metric));
    const tags = pairs(fields, "tags");
    setParameters(api, run, of, pairs(fields, "params"), points);
    Object.assign(of.tags, byKey(tags));
    if (tags.length > 0) api.save(run);
    return {};
  },
  // Tags, parameters and artifacts describe models and data sets; nothing reads these.
  "runs/log-model": () => ({}),
  "runs/log-inputs": (api, { run, fields }) => {
    const of = mlflowRun(run, fields);
    const known = of.datasets ?? [];
    for (const input of list(fields, "datasets")) {
      const { name, digest } = (input["dataset"] ?? {}) as Json;
      const context = pairs(input, "tags").find(({ key }) =>
        key === "mlflow.data.context"
      )?.value ?? "";
      const one = { name: String(name ?? ""), digest: String(digest ?? ""), context };
      if (!known.some((other) => JSON.stringify(other) === JSON.stringify(one))) known.push(one);
    }
    of.datasets = known;
    api.save(run);
    return {};
  },
  // Models stay files of the run. A version is counted, so that a training that registers its model
  // goes on.
  "registered-models/create": (api, { run, fields }) =>
    registered(api, run, text(fields, "name"), 0),
  "registered-models/get": (api, { run, fields }) => {
    const name = text(fields, "name");
    if (run.tracked.registered?.[name] === undefined) {
      throw missing(`there is no registered model "${name}"`);
    }
    return registered(api, run, name, 0);
  },
  "registered-models/update": (api, { run, fields }) =>
    registered(api, run, text(fields, "name"), 0),
  "registered-models/set-tag": () => ({}),
  "registered-models/alias": () => ({}),
  "model-versions/create": (api, { run, fields }) => {
    const name = text(fields, "name");
    registered(api, run, name, 1);
    return { model_version: versionJson(run, name, run.tracked.registered![name]!, fields) };
  },
  "model-versions/get": (_, { run, fields }) => ({
    model_version: versionJson(run, text(fields, "name"), whole(fields, "version", 1), fields),
  }),
  "model-versions/update": (_, { run, fields }) => ({
    model_version: versionJson(run, text(fields, "name"), whole(fields, "version", 1), fields),
  }),
  "model-versions/transition-stage": (_, { run, fields }) => ({
    model_version: versionJson(run, text(fields, "name"), whole(fields, "version", 1), fields),
  }),
  "model-versions/set-tag": () => ({}),
  "registered-models/search": () => ({ registered_models: [] }),
  "model-versions/search": () => ({ model_versions: [] }),
  "runs/outputs": () => ({}),
  "metrics/get-history": (api, { run, fields }) => {
    const key = text(fields, "metric_key");
    const limit = Math.min(RESULTS, whole(fields, "max_results", RESULTS));
    const of = mlflowRun(run, fields);
    const { points, next } = api.history(run, of, key, whole(fields, "page_token", 0), limit);
    return {
      metrics: points.map((point) => ({ key, ...point })),
      ...(next === undefined ? {} : { next_page_token: String(next) }),
    };
  },
};

const NO_REGISTRY =
  "mosaic has no model registry: models stay files of the run, and their versions are only counted. " +
  "Set MLFLOW_TRACKING_URI to another server for it";

function registered(api: MlflowApi, run: Open, name: string, versions: number): Json {
  const all = run.tracked.registered ??= {};
  if (name === "__proto__") throw invalid(`"${name}" is no name of a model`);
  if (!Object.hasOwn(all, name) || versions > 0) {
    all[name] = (Object.hasOwn(all, name) ? all[name]! : 0) + versions;
    api.save(run);
  }
  // Clients pass over the message; a person who looks at the answer sees it.
  return {
    registered_model: { name, creation_timestamp: run.row.createdAt, latest_versions: [] },
    message: NO_REGISTRY,
  };
}

function versionJson({ row }: Open, name: string, version: number, fields: Json): Json {
  return {
    ...{
      name,
      version: String(version),
      status: "READY",
      current_stage: "None",
      creation_timestamp: row.createdAt,
    },
    ...{ source: string(fields, "source"), run_id: string(fields, "run_id") },
  };
}

const MODEL_PATH = /^logged-models(?:\/([\w-]+)(\/params|\/tags)?)?$/;

/** The methods for logged models name the model in the path. */
function ofModel(http: string, name: string): Method | undefined {
  const [all, id, part = ""] = MODEL_PATH.exec(name) ?? [];
  if (all === undefined) return undefined;
  if (id === undefined || name === "logged-models/search") {
    return id === undefined ? createModel : searchModels;
  }
  return (api, { run, fields }) => {
    const model = run.tracked.models.find((m) => m.id === id);
    if (model === undefined) throw missing(`this run has no logged model ${id}`);
    if (part === "/params") Object.assign(model.params, byKey(pairs(fields, "params")));
    else if (part === "/tags") Object.assign(model.tags, byKey(pairs(fields, "tags")));
    else if (http === "PATCH") {
      model.status = MODEL_STATUS[String(fields.status)] ?? text(fields, "status");
    }
    if (http !== "GET") api.save(run);
    return { model: modelJson(run, model) };
  };
}

const MODEL_STATUS: Readonly<Record<string, string>> = {
  1: "LOGGED_MODEL_PENDING",
  2: "LOGGED_MODEL_READY",
  3: "LOGGED_MODEL_UPLOAD_FAILED",
};

const createModel: Method = (api, { run, fields }) => {
  const id = `m-${crypto.randomUUID().replaceAll("-", "")}`;
  const model: LoggedModel = {
    id,
    name: string(fields, "name") || id,
    experiment: experimentOf(run, { experiment_id: "0", ...fields }).id,
    type: string(fields, "model_type"),
    sourceRun: string(fields, "source_run_id"),
    status: MODEL_STATUS[1]!,
    created: Date.now(),
    params: byKey(pairs(fields, "params")),
    tags: byKey(pairs(fields, "tags")),
  };
  run.tracked.models.push(model);
  api.save(run);
  return { model: modelJson(run, model) };
};

const searchModels: Method = (_, { run, fields }) => {
  refuseFilter(fields);
  return { models: run.tracked.models.map((model) => modelJson(run, model)) };
};

function modelJson({ directory }: Open, model: LoggedModel): Json {
  return {
    info: {
      ...{
        model_id: model.id,
        name: model.name,
        experiment_id: model.experiment,
        model_type: model.type,
      },
      ...{ source_run_id: model.sourceRun, status: model.status, tags: pairsOf(model.tags) },
      ...{ creation_timestamp_ms: model.created, last_updated_timestamp_ms: model.created },
      artifact_uri: fileUrl(`${directory}/mlflow/models/${model.id}/artifacts`),
    },
    data: { params: pairsOf(model.params), metrics: [] },
  };
}

function setParameters(
  api: MlflowApi,
  run: Open,
  of: MlflowRun,
  params: readonly KeyValue[],
  points: readonly MetricPoint[],
): void {
  const values: Json = {};
  for (const { key, value } of params) {
    const before = of.params[key];
    if (before !== undefined && before !== value) {
      throw invalid(
        `parameter ${key} is "${before}" and cannot become "${value}": parameters do not change`,
      );
    }
    if (before === undefined) values[of.prefix + key] = typedParameter(value);
  }
  const isNew = Object.keys(values).length > 0;
  // Checked before anything of it is stored.
  if (isNew) requireStateSize(JSON.stringify(run.tracked).length + JSON.stringify(params).length);
  const data = JSON.stringify({ source: "mlflow", values: withoutSecrets("", values) });
  api.record(run, of, points, isNew ? [{ kind: "parameters", dataJson: data, tsNs: "" }] : []);
  if (!isNew) return;
  Object.assign(of.params, byKey(params));
  api.save(run);
}

function setDeleted(api: MlflowApi, run: Open, fields: Json, deleted: boolean): Json {
  mlflowRun(run, fields).deleted = deleted;
  api.save(run);
  return {};
}

// ------------------------------------------------------------------------------------------------------------
// answers

function experimentJson({ directory }: Open, { id, name, tags }: Experiment): Json {
  return {
    experiment_id: id,
    name,
    artifact_location: fileUrl(`${directory}/mlflow/experiment-${id}`),
    lifecycle_stage: "active",
    tags: pairsOf(tags),
  };
}

function runJson(latest: Latest, open: Open, run: MlflowRun): Json {
  const data = { metrics: latest(run), params: pairsOf(run.params), tags: pairsOf(run.tags) };
  return { info: infoJson(open, run), data, inputs: {}, outputs: {} };
}

/** Artifacts are files on this host: the client copies them there itself. */
function infoJson({ directory }: Open, run: MlflowRun): Json {
  return {
    ...{
      run_id: run.id,
      run_uuid: run.id,
      run_name: run.name,
      experiment_id: run.experiment,
      user_id: run.user,
    },
    ...{
      status: run.status,
      start_time: run.start,
      ...(run.end === null ? {} : { end_time: run.end }),
    },
    lifecycle_stage: run.deleted ? "deleted" : "active",
    artifact_uri: fileUrl(`${directory}/mlflow/${run.id}/artifacts`),
  };
}

function fileUrl(path: string): string {
  return `file://${path.split("/").map(encodeURIComponent).join("/")}`;
}

const pairsOf = (values: Record<string, string>) =>
  Object.entries(values).map(([key, value]) => ({ key, value }));
const byKey = (pairs: readonly KeyValue[]) =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, value]));

// -----------------------------------------------------------------------------------------------------------
// requests

function experimentOf({ tracked }: Open, fields: Json): Experiment {
  const id = text(fields, "experiment_id");
  const found = tracked.experiments.find((experiment) => experiment.id === id);
  if (found === undefined) throw missing(`this run has no experiment ${id}`);
  return found;
}

function named({ tracked }: Open, fields: Json): Experiment {
  const name = text(fields, "experiment_name");
  const found = tracked.experiments.find((experiment) => experiment.name === name);
  if (found === undefined) throw missing(`this run has no experiment "${name}"`);
  return found;
}

function mlflowRun({ tracked, row }: Open, fields: Json): MlflowRun {
  const id = string(fields, "run_id") || text(fields, "run_uuid");
  const found = tracked.runs.find((run) => run.id === id);
  if (found === undefined) throw missing(`run ${row.runId} has no MLflow run ${id}`);
  return found;
}

function pointOf(run: MlflowRun, fields: Json): MetricPoint {
  const name = seriesName(run, text(fields, "key"));
  if (name.length > MAX_NAME_LENGTH) {
    throw invalid(
      `the metric's name has ${name.length} characters; ${MAX_NAME_LENGTH} are possible: ${name}`,
    );
  }
  const { value } = fields;
  const isNumber = typeof value === "number" || value === "NaN" || value === "Infinity" ||
    value === "-Infinity";
  if (!isNumber) {
    throw invalid(`the value of metric ${name} is ${JSON.stringify(value)}; it must be a number`);
  }
  return {
    name,
    value,
    step: whole(fields, "step", 0),
    timestamp: whole(fields, "timestamp", Date.now()),
  };
}

function searchedOf(latest: Latest, open: Open, run: MlflowRun): Searched {
  let metrics: Map<string, number> | undefined;
  return {
    // Most searches use none.
    get metrics() {
      return metrics ??= new Map(latest(run).map(({ key, value }) => [String(key), Number(value)]));
    },
    params: run.params,
    tags: run.tags,
    attributes: infoJson(open, run) as Searched["attributes"],
    datasets: run.datasets ?? [],
  };
}

function searching<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof MosaicError && error.code === "invalid_argument"
      ? invalid(error.message)
      : error;
  }
}

function refuseFilter(fields: Json): void {
  // Clients send this filter if the user gives none.
  if (["", "attribute.name != ''"].includes(string(fields, "filter"))) return;
  throw invalid("mosaic filters MLflow runs only: search experiments and models without a filter");
}

function string(fields: Json, name: string): string {
  const value = fields[name] ?? "";
  if (typeof value !== "string") {
    throw invalid(`${name} is ${JSON.stringify(value)}; it must be a text`);
  }
  if (isLonger(value, MLFLOW_LIMITS.text)) {
    throw invalid(
      `${name} has ${bytesOfText(value)} bytes; the bound is ${MLFLOW_LIMITS.text} bytes`,
    );
  }
  return value;
}

function text(fields: Json, name: string): string {
  const value = string(fields, name);
  if (value === "") throw invalid(`${name} is missing`);
  return value;
}

/** 64-bit integers may be texts. */
function whole(fields: Json, name: string, otherwise: number): number {
  const value = fields[name] ?? otherwise;
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  if (!Number.isSafeInteger(number)) {
    throw invalid(`${name} is ${JSON.stringify(value)}; it must be a whole number`);
  }
  return number as number;
}

function list(fields: Json, name: string): Json[] {
  const value = fields[name] ?? [];
  if (Array.isArray(value) && value.length > MLFLOW_LIMITS.entries) {
    throw invalid(
      `${name} has ${value.length} entries; the bound is ${MLFLOW_LIMITS.entries} entries`,
    );
  }
  if (Array.isArray(value) && value.every((entry) => typeof entry === "object" && entry !== null)) {
    return value;
  }
  throw invalid(`${name} must be an array of objects`);
}

function pairs(fields: Json, name: string): KeyValue[] {
  return list(fields, name).map((pair) => ({
    key: text(pair, "key"),
    value: string(pair, "value"),
  }));
}

function queryOf(request: Request): Json {
  return Object.fromEntries(new URL(request.url).searchParams);
}

function bodyOf(text: string): Json {
  try {
    const value = parsedJson(text === "" ? "{}" : text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  } catch {
    // The error below says so.
  }
  throw invalid("the body is no JSON object");
}

function bearerOf(request: Request): string {
  return /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
}

function fileOf(directory: string): string {
  return `${new RunFiles(directory, "").control}/mlflow.json`;
}

/** Clients retry after 429, 500, 503 and a refused connection. */
function asMlflow(error: unknown): Pick<MlflowError, "status" | "code" | "message"> {
  if (error instanceof MlflowError) return error;
  const message = messageOf(error);
  if (!(error instanceof MosaicError)) {
    const { status } = error as { status?: unknown };
    return typeof status === "number"
      ? { status, code: "BAD_REQUEST", message }
      : { status: 500, code: "INTERNAL_ERROR", message };
  }
  switch (error.code) {
    case "unauthenticated":
      return { status: 401, code: "UNAUTHENTICATED", message };
    case "permission_denied":
      return { status: 403, code: "PERMISSION_DENIED", message };
    case "not_found":
      return missing(message);
    // The run's proxy may connect soon, or the store may become writable.
    case "failed_precondition":
    case "unavailable":
      return { status: 503, code: "TEMPORARILY_UNAVAILABLE", message };
    default:
      return invalid(message);
  }
}
