/**
 * Reads, submits and waits for runs of a mosaic daemon, from TypeScript and JavaScript on Deno and
 * Node. One file without dependencies: `mosaic ts-client > mosaic.ts`, or `mosaic ts-client --js >
 * mosaic.mjs` for Node before 22.18.
 *
 *     import { Mosaic } from "./mosaic.ts";
 *
 *     const mosaic = new Mosaic();
 *     const [best] = await mosaic.runs({ where: "lr<1e-3", sort: "-reward", limit: 1 });
 *     console.log(await best.metrics("loss"));
 *     const run = await mosaic.submit(["python", "train.py"], { name: "again" });
 *     console.log((await run.wait()).outcome);
 */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request as requestHttp, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { homedir } from "node:os";
import { cwd, env } from "node:process";

// Written by "deno task gen" from proto/mosaic/v1/mosaic.proto and src/registry/contract.ts
export interface RunData {
  runId: string;
  name: string;
  /** the transitions */
  state: string;
  /** null while it is live */
  outcome: string;
  /** why it failed, was cancelled, waits or is held (vocabulary) */
  reason: string;
  /** what a person can do about a failure whose cause is known */
  hint: string;
  /** 1 is the first */
  attempt: number;
  /** how many it may have, by metadata.restart.max_attempts and retries by hand */
  maxAttempts: number;
  priority: number;
  /** 1 is next */
  queuePosition: number;
  /** what an INIT run waits for, or a live one whose worker is held because the store's disk is full */
  waitingFor: string;
  gpusRequested: number;
  /** the slots it holds */
  gpuSlots: number[];
  tags: string[];
  /** SHA-256 of its canonical config, hexadecimal */
  digest: string;
  submittedAt: string | null;
  /** of the current or last attempt */
  startedAt: string | null;
  finishedAt: string | null;
  lastHeartbeat: string | null;
  /** the worker's */
  exitCode: number | null;
  /** the signal that ended the worker, such as SIGKILL */
  exitSignal: string;
  /** cancelled, and some of its processes are still alive */
  cancelRequested: boolean;
  /** its files */
  directory: string;
  telemetry: TelemetryCounts | null;
  /** what a worker that calls gRPC itself registered; null for others */
  capabilities: Capabilities | null;
  workerId: string;
  workerPid: number;
  proxyPid: number;
  /** single: in order */
  transitions: Transition[];
  /** single: as stored, with run id and paths */
  configJson: string;
  /** single: the last lines of its error output */
  stderrTail: string[];
  /** the length known from the config (schedule.max_steps, worker.config.total_timesteps), of a live run also from a parameter such as total_timesteps */
  maxSteps: number;
  /** the limit in steps a second */
  maxRateHz: number;
  /** single: the resources that the daemon enforces: memory_mb, cpus; the others are advice */
  enforcedLimits: string[];
  /** columns of its row that cannot be read; mosaic doctor --repair repairs them */
  damaged: string[];
  /** single: its parameters, one a name, sorted by name; secrets are hidden */
  parameters: Parameter[];
  /** the job of an engine such as Slurm (slurm); null on the daemon's own host */
  placement: Placement | null;
  /** single: of a run on several nodes; empty for others */
  ranks: Rank[];
  /** of people, in Markdown; "": none */
  notes: string;
  /** the checkpoint that the attempt goes on from; null where it begins anew */
  resumeFrom: string;
  /** what of its code has changed between submission and start, such as train.py; null: nothing that is known */
  codeChanged: string;
  /** of its row */
  updatedAt: string | null;
  /** when an INIT run may start at the earliest: the back-off between attempts */
  notBefore: string | null;
  cancelReason: string;
  /** it is paused, or will be as soon as its worker obeys */
  pauseRequested: boolean;
  /** the part of the state directory that has its files: evals for an evaluation */
  baseDir: string;
  agentId: string;
  /** single: GPU slots of the daemon's host */
  hostGpus: number;
  /** the run whose program made this one: a trial, a job, a tracker's run (runs within a run); null for a run with a program of its own */
  parent: string;
  /** runs within this run; list --within RUN lists them */
  children: number;
  /** patterns of files that mosaic observe has added */
  observed: string[];
  /** how far a live run is by its own bars (tqdm, Keras, Epoch 3/10), 0 to 1; null: unknown */
  progress: number | null;
  /** whose it is: the name of the token that submitted it, or uid:N; "" if neither is known */
  owner: string;
  /** when it was put into the trash; null: it is not there */
  deletedAt: string | null;
  /** the part of each card that it declares, between 0 and 1; null: whole cards, or gpu_memory_mb */
  gpuShare: number;
  /** MiB of each card that it declares; null: whole cards, or gpu_share */
  gpuMemoryMb: number;
  /** the most MiB of GPU memory that it was seen to use, of all its cards; null: not measured */
  gpuPeakMb: number;
}

export interface SeriesData {
  name: string;
  points: number;
  last: number | null;
  /** Over all finite values; unset if there are none. */
  min: number | null;
  max: number | null;
  mean: number | null;
  /** The worker's step at the first smallest and the first largest value; unset if unknown. */
  minStep: number | null;
  maxStep: number | null;
  /** How many of the points are NaN or infinite. */
  nonFinite: number;
  /** Where the points come from: a tracker's name, the name of a file or a directory; empty: what the program printed. */
  source: string;
  /** The series with the same points, more exactly; empty: it is no copy. Only with sources. */
  copyOf: string;
}

export interface SweepData {
  sweepId: string;
  name: string;
  /** "running", "paused", "cancelling", "cancelled" or "finished". */
  state: string;
  /** Trials in all, and those that are made. */
  total: number;
  made: number;
  /** How many trials are in which state: those of runs in lower case, "pruned", "refused" and "deleted". */
  states: Record<string, number>;
  /** Everything, as `mosaic sweep show -o json` prints it. */
  json: string;
}

export interface TelemetryCounts {
  /** number of records (telemetry) */
  steps: number;
  episodes: number;
  events: number;
  /** lines of the worker that are not telemetry, kept only in its log */
  otherLines: number;
  /** lines that look like telemetry and cannot be read as such */
  malformedLines: number;
  /** number of violations of each rule of the run's schema; not read: …: what the program produced and mosaic did not take */
  violations: Record<string, number>;
  /** bytes of its output that are stored */
  journalPosition: number;
  /** bytes that the worker has written */
  journalSize: number;
  /** of the last 100 episodes; null before the first */
  meanReward100: number | null;
  /** over the last 5 s; the measurement restarts after a pause, a rate change or a new connection, and excludes records that are read late */
  stepsPerSecond: number;
  lastRecordAt: string | null;
  /** when the live worker last wrote to its standard output or standard error, telemetry or not */
  lastOutputAt: string | null;
  /** points of metrics */
  metrics: number;
  /** the highest step of a metric; 0: none. list, show and the page show it if it is above steps */
  toldStep: number;
  /** the metric that most probably is the reward of episodes, such as rollout/ep_rew_mean, and its last value. list, show, compare and the page show it if mean_reward_100 is null */
  reportedReward: ReportedReward | null;
  /** how many of steps are overwritten. list, show and the page show the number if it is not 0 */
  overwrittenSteps: number;
  /** the same of episodes */
  overwrittenEpisodes: number;
  /** the metric by which the run is judged, if its metadata.objective or the daemon's --objective names one. list, show, compare, top and the page show it as the reward, also while it has no value: a list never compares it with another metric */
  objective: Objective | null;
}

export interface Capabilities {
  workerKind: string;
  protoVersion: string;
  schemaId: string;
  schemaVersion: number;
  supportsPause: boolean;
  supportsCheckpoint: boolean;
}

export interface Transition {
  /** ascending over all runs */
  seq: number;
  /** null for the first */
  fromState: string;
  toState: string;
  /** the event that caused it */
  event: string;
  reason: string;
  attempt: number;
  at: string | null;
}

export interface Parameter {
  /** names of nested values are joined with dots */
  name: string;
  valueJson: string;
  /** config, command, or the source that its event names: hparams, wandb, mlflow, init … */
  source: string;
  /** other values that it had in earlier attempts: attempt, value; oldest first */
  earlierJson: string;
}

export interface Placement {
  /** the engine */
  launcher: string;
  /** the job's name there */
  name: string;
  /** its id there; null while it is unknown */
  job: string;
  /** intended: the job is being submitted to the engine */
  phase: string;
  /** why the engine does not start it yet, or what is uncertain about its end */
  waitingFor: string;
  /** by the engine */
  expectedStart: string | null;
  /** where it runs */
  nodes: string[];
  /** as the worker sees them */
  gpus: string[];
  /** how the job ended, by the engine: finished, time_limit, preempted, … */
  end: string;
}

export interface Rank {
  rank: number;
  /** null while it has not begun */
  node: string;
  /** exit code, 128 + n for signal n; null while it runs, and where another rank's failure ended it */
  code: number | null;
  /** it failed first, which ended the others */
  first: boolean;
}

export interface ReportedReward {
  /** of the metric */
  name: string;
  value: number;
}

export interface Objective {
  /** such as eval/reward:max */
  name: string;
  /** the maximum, minimum, last value or mean of the series; null: no such point yet */
  value: number | null;
}

export interface Step {
  seq: number;
  run_id: string;
  attempt: number;
  episode_index: number;
  step_index: number;
  action: unknown;
  observation: unknown;
  reward: number | null;
  reward_text?: "NaN" | "Infinity" | "-Infinity";
  terminated: boolean;
  truncated: boolean;
  timestamp: string;
  ts_ns: string;
  agent_id?: string;
  worker_id?: string;
  policy_label?: string;
  backend?: string;
  render_hint?: unknown;
  render_payload?: unknown;
  frame_ref?: string;
  payload_version?: number;
  episode_seed?: number;
  info?: unknown;
}

export interface Episode {
  seq: number;
  run_id: string;
  attempt: number;
  episode_index: number;
  total_reward: number | null;
  total_reward_text?: "NaN" | "Infinity" | "-Infinity";
  steps: number;
  terminated: boolean;
  truncated: boolean;
  timestamp: string;
  ts_ns: string;
  agent_id?: string;
  worker_id?: string;
  metadata?: unknown;
}

export interface WorkerEvent {
  seq: number;
  run_id: string;
  attempt: number;
  event: string;
  timestamp: string;
  ts_ns: string;
  payload?: unknown;
}

export interface Point {
  seq: number;
  run_id: string;
  name: string;
  value: number | null;
  value_text?: "NaN" | "Infinity" | "-Infinity";
  step: number;
  timestamp: string;
}

/** How each field is read. */
const SHAPES = {
  RunData: {
    runId: "text",
    name: "text",
    state: "text",
    outcome: "text",
    reason: "text",
    hint: "text",
    attempt: "number",
    maxAttempts: "number",
    priority: "number",
    queuePosition: "number",
    waitingFor: "text",
    gpusRequested: "number",
    gpuSlots: "list number",
    tags: "list text",
    digest: "text",
    submittedAt: "time",
    startedAt: "time",
    finishedAt: "time",
    lastHeartbeat: "time",
    exitCode: "maybe number",
    exitSignal: "text",
    cancelRequested: "flag",
    directory: "text",
    telemetry: "TelemetryCounts",
    capabilities: "Capabilities",
    workerId: "text",
    workerPid: "number",
    proxyPid: "number",
    transitions: "list Transition",
    configJson: "text",
    stderrTail: "list text",
    maxSteps: "number",
    maxRateHz: "number",
    enforcedLimits: "list text",
    damaged: "list text",
    parameters: "list Parameter",
    placement: "Placement",
    ranks: "list Rank",
    notes: "text",
    resumeFrom: "text",
    codeChanged: "text",
    updatedAt: "time",
    notBefore: "time",
    cancelReason: "text",
    pauseRequested: "flag",
    baseDir: "text",
    agentId: "text",
    hostGpus: "number",
    parent: "text",
    children: "number",
    observed: "list text",
    progress: "maybe number",
    owner: "text",
    deletedAt: "time",
    gpuShare: "number",
    gpuMemoryMb: "number",
    gpuPeakMb: "number",
  },
  SeriesData: {
    name: "text",
    points: "number",
    last: "maybe number",
    min: "maybe number",
    max: "maybe number",
    mean: "maybe number",
    minStep: "maybe number",
    maxStep: "maybe number",
    nonFinite: "number",
    source: "text",
    copyOf: "text",
  },
  SweepData: {
    sweepId: "text",
    name: "text",
    state: "text",
    total: "number",
    made: "number",
    states: "map number",
    json: "text",
  },
  TelemetryCounts: {
    steps: "number",
    episodes: "number",
    events: "number",
    otherLines: "number",
    malformedLines: "number",
    violations: "map number",
    journalPosition: "number",
    journalSize: "number",
    meanReward100: "maybe number",
    stepsPerSecond: "number",
    lastRecordAt: "time",
    lastOutputAt: "time",
    metrics: "number",
    toldStep: "number",
    reportedReward: "ReportedReward",
    overwrittenSteps: "number",
    overwrittenEpisodes: "number",
    objective: "Objective",
  },
  Capabilities: {
    workerKind: "text",
    protoVersion: "text",
    schemaId: "text",
    schemaVersion: "number",
    supportsPause: "flag",
    supportsCheckpoint: "flag",
  },
  Transition: {
    seq: "number",
    fromState: "text",
    toState: "text",
    event: "text",
    reason: "text",
    attempt: "number",
    at: "time",
  },
  Parameter: { name: "text", valueJson: "text", source: "text", earlierJson: "text" },
  Placement: {
    launcher: "text",
    name: "text",
    job: "text",
    phase: "text",
    waitingFor: "text",
    expectedStart: "time",
    nodes: "list text",
    gpus: "list text",
    end: "text",
  },
  Rank: { rank: "number", node: "text", code: "maybe number", first: "flag" },
  ReportedReward: { name: "text", value: "number" },
  Objective: { name: "text", value: "maybe number" },
} as const satisfies Shapes;
// End of what is written

type Shapes = Record<string, Record<string, string>>;
type Json = Record<string, unknown>;

/** What a daemon or its address refused. `code` is that of the API, such as "not_found". */
export class MosaicError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "MosaicError";
    this.code = code;
  }
}

export interface MosaicOptions {
  /**
   * `unix:PATH`, `HOST:PORT` or `http(s)://HOST:PORT`; default: $MOSAIC_TARGET, else the state
   * directory's daemon.
   */
  target?: string;
  /** Default: $MOSAIC_TOKEN. */
  token?: string;
  /** Certificate authority (PEM) of a daemon with TLS; default: the file $MOSAIC_TLS_CA. */
  ca?: string;
  /** For one answer; default 60 000. */
  timeoutMs?: number;
}

export interface RunsOptions {
  /** The filter of `mosaic list --where`, such as `lr<1e-3 and env_id=CartPole-v1`. */
  where?: string;
  /** Runs that have all of them. */
  tags?: readonly string[];
  /** A part of the name. */
  name?: string;
  states?: readonly string[];
  /** A column, a parameter or a metric; a leading `-` means descending. Default: newest first. */
  sort?: string;
  /** Default: all. */
  limit?: number;
}

export interface SubmitOptions {
  name?: string;
  tags?: readonly string[];
  gpus?: number;
  /** In addition to PATH. */
  env?: Record<string, string>;
  /** Default: this program's. */
  cwd?: string;
  /** Further fields of the config's `metadata`, such as `restart` or `uses`. */
  metadata?: Json;
}

export interface SweepOptions extends Omit<SubmitOptions, "name"> {
  name: string;
  /**
   * Every combination of these values. `{NAME}` in the command is a value; what it does not name is
   * added as `--NAME=value`.
   */
  grid?: Record<string, readonly unknown[]>;
  /** Combinations that are given one by one. */
  points?: readonly Record<string, unknown>[];
  /** Each combination is tried with each of them, as the parameter `seed`. */
  seeds?: readonly number[];
  /** What is compared, such as `eval/reward:max`. */
  metric?: string;
  maxParallel?: number;
}

export class Mosaic {
  readonly target: string;
  readonly #token: string;
  readonly #ca: string | undefined;
  readonly #timeoutMs: number;

  /**
   * @throws MosaicError `unavailable` if no daemon is named and none runs in the state directory
   */
  constructor({ target, token, ca, timeoutMs = 60_000 }: MosaicOptions = {}) {
    this.target = target ?? (env.MOSAIC_TARGET || targetOfStateDir());
    this.#token = token ?? env.MOSAIC_TOKEN ?? "";
    this.#ca = ca ?? (env.MOSAIC_TLS_CA ? readFileSync(env.MOSAIC_TLS_CA, "utf8") : undefined);
    this.#timeoutMs = timeoutMs;
  }

  /** Runs that fit, newest first. @throws MosaicError */
  async runs(options: RunsOptions = {}): Promise<Run[]> {
    const {
      where = "",
      tags = [],
      name: nameContains = "",
      states = [],
      sort = "",
      limit = Infinity,
    } = options;
    const found: Run[] = [];
    for (let pageToken = ""; found.length < limit;) {
      const page = await this.call("mosaic.v1.Mosaic/ListRuns", {
        ...{ where, tags, nameContains, states, sort, pageToken, columns: ["param.*", "reward"] },
        limit: Math.min(1000, limit - found.length),
      });
      const rows = (page.runs ?? []) as Json[];
      const values = (page.values ?? []) as { json: string[] }[];
      rows.forEach((row, i) => {
        const [parameters, reward] = values[i]!.json.map((text) => JSON.parse(text));
        found.push(
          new Run(this, filled("RunData", row), Object.fromEntries(parameters ?? []), reward),
        );
      });
      pageToken = (page.nextPageToken ?? "") as string;
      if (pageToken === "") break;
    }
    return found;
  }

  /**
   * One run: by its id, the beginning of its id, its name, or "@last". @throws MosaicError
   * `not_found`
   */
  async run(run = "@last"): Promise<Run> {
    const data = filled("RunData", await this.call("mosaic.v1.Mosaic/GetRun", { run }));
    return new Run(
      this,
      data,
      Object.fromEntries(data.parameters.map((one) => [one.name, JSON.parse(one.valueJson)])),
    );
  }

  /** Submits a command, or a whole config. @throws MosaicError */
  async submit(what: readonly string[] | Json, options: SubmitOptions = {}): Promise<Run> {
    const config = Array.isArray(what) ? configOf(what as readonly string[], options) : what;
    const answer = await this.call("gymgui.trainer.TrainerService/SubmitRun", {
      configJson: JSON.stringify(config),
    });
    return await this.run(answer.runId as string);
  }

  /**
   * Tries a command with many values of its parameters. A name is taken once. @throws MosaicError
   */
  async sweep(command: readonly string[], options: SweepOptions): Promise<Sweep> {
    const { grid = {}, points, seeds, metric, maxParallel, name, ...others } = options;
    const [, metricName, goal] = /^(.*?)(?::(max|min))?$/s.exec(metric ?? "")!;
    const spec = {
      name,
      config: configOf(command, { name, ...others }),
      pass: "flags",
      parts: [{
        axes: Object.entries(grid).map(([name, values]) => ({ name, values })),
        ...(points === undefined ? {} : { rows: points }),
        ...(seeds === undefined ? {} : { seeds: { name: "seed", values: seeds } }),
      }],
      budget: {},
      ...(metric === undefined ? {} : { metric: { name: metricName, goal: goal ?? "max" } }),
      ...(maxParallel === undefined ? {} : { max_parallel: maxParallel }),
    };
    const data = await this.call("mosaic.v1.Mosaic/CreateSweep", {
      specJson: JSON.stringify(spec),
    });
    return new Sweep(this, filled("SweepData", data));
  }

  /**
   * The path of an artifact on the daemon's host: `RUN:checkpoints/best.pt`, `policy:best`. @throws
   * MosaicError
   */
  async artifact(artifact: string): Promise<string> {
    return (await this.call("mosaic.v1.Mosaic/GetNamedArtifact", { artifact })).file as string;
  }

  /**
   * One unary call, such as `call("mosaic.v1.Mosaic/GetRun", { run: "@last" })`: JSON of the API.
   * @throws MosaicError
   */
  async call(method: string, request: Json): Promise<Json> {
    const answer = await this.#post(method, "application/json", JSON.stringify(request));
    const pieces: Uint8Array[] = [];
    for await (const piece of answer) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    if (answer.statusCode === 200) return JSON.parse(text);
    throw refusal(text, answer.statusCode);
  }

  /** The messages of a call that answers with a stream. @throws MosaicError */
  async *stream(method: string, request: Json): AsyncGenerator<Json> {
    const message = Buffer.from(JSON.stringify(request));
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    const answer = await this.#post(
      method,
      "application/connect+json",
      Buffer.concat([head, message]),
    );
    let left = Buffer.alloc(0);
    try {
      for await (const piece of answer) {
        left = Buffer.concat([left, piece]);
        while (
          answer.statusCode === 200 && left.length >= 5 && left.length >= 5 + left.readUInt32BE(1)
        ) {
          const end = 5 + left.readUInt32BE(1);
          const payload = JSON.parse(left.subarray(5, end).toString() || "{}");
          if ((left[0]! & 2) === 0) yield payload;
          else if (payload.error === undefined) return;
          else throw refusal(JSON.stringify(payload.error), 200);
          left = left.subarray(end);
        }
      }
    } finally {
      answer.destroy();
    }
    if (answer.statusCode !== 200) throw refusal(left.toString(), answer.statusCode);
    throw new MosaicError("unavailable", "the daemon has ended the stream before its end");
  }

  #post(method: string, contentType: string, body: string | Uint8Array): Promise<IncomingMessage> {
    const headers: Record<string, string> = {
      "content-type": contentType,
      "connect-protocol-version": "1",
    };
    if (this.#token !== "") headers.authorization = `Bearer ${this.#token}`;
    const { secure, ...address } = addressOf(this.target, this.#token !== "");
    const options: RequestOptions = {
      ...address,
      method: "POST",
      path: `/${method}`,
      headers,
      timeout: this.#timeoutMs,
    };
    return new Promise((resolve, reject) => {
      const failed = (error: Error) =>
        reject(
          error instanceof MosaicError ? error : new MosaicError(
            "unavailable",
            `no daemon answers at ${this.target}: ${error.message}. Start one with "mosaic up".`,
            { cause: error },
          ),
        );
      const request = secure
        ? requestHttps({ ...options, ...(this.#ca === undefined ? {} : { ca: this.#ca }) }, resolve)
        : requestHttp(options, resolve);
      request.on("error", failed);
      request.on("timeout", () => {
        request.destroy(
          new MosaicError(
            "deadline_exceeded",
            `${this.target} has not answered in ${this.#timeoutMs} ms`,
          ),
        );
      });
      request.end(body);
    });
  }
}

/** A run as it was when it was read; `refresh()` reads it anew. */
export class Run {
  readonly #mosaic: Mosaic;
  /** Every field of the API. Where its description says null, a text is "" and a number 0. */
  data: RunData;
  parameters: Record<string, unknown>;
  #reward: number | null | undefined;

  constructor(
    mosaic: Mosaic,
    data: RunData,
    parameters: Record<string, unknown>,
    reward?: number | null,
  ) {
    this.#mosaic = mosaic;
    this.data = data;
    this.parameters = parameters;
    this.#reward = reward;
  }

  get id(): string {
    return this.data.runId;
  }
  get name(): string {
    return this.data.name;
  }
  /** INIT, EXECUTING, TERMINATED, FAULTED, CANCELLED … */
  get state(): string {
    return this.data.state;
  }
  /** succeeded, failed, canceled; "" while it is live. */
  get outcome(): string {
    return this.data.outcome;
  }
  get reason(): string {
    return this.data.reason;
  }
  get tags(): readonly string[] {
    return this.data.tags;
  }

  /** The number that `mosaic list` shows; null if there is none. */
  async reward(): Promise<number | null> {
    if (this.#reward === undefined) {
      const [run] = await this.#mosaic.runs({ where: `run_id=${this.id}`, limit: 1 });
      this.#reward = run === undefined ? null : await run.reward();
    }
    return this.#reward;
  }

  /**
   * Every stored point of the metric, or of all metrics. A NaN is null, and named in `value_text`.
   * @throws MosaicError
   */
  async metrics(name?: string): Promise<Point[]> {
    const points = await this.#records<Point>("metrics");
    return name === undefined ? points : points.filter((point) => point.name === name);
  }
  async episodes(): Promise<Episode[]> {
    return await this.#records<Episode>("episodes");
  }
  async steps(): Promise<Step[]> {
    return await this.#records<Step>("steps");
  }
  async events(): Promise<WorkerEvent[]> {
    return await this.#records<WorkerEvent>("events");
  }

  /** Its metrics, each with a summary. @throws MosaicError */
  async series(): Promise<SeriesData[]> {
    const { series = [] } = await this.#mosaic.call("mosaic.v1.Mosaic/ListSeries", {
      run: this.id,
    });
    return (series as Json[]).map((one) => filled("SeriesData", one));
  }

  async #records<T>(kind: string): Promise<T[]> {
    const records: T[] = [];
    for await (
      const batch of this.#mosaic.stream("mosaic.v1.Mosaic/StreamTelemetry", { run: this.id, kind })
    ) {
      const lines = Buffer.from((batch.jsonl ?? "") as string, "base64").toString().split("\n");
      for (const line of lines) if (line !== "") records.push(JSON.parse(line));
    }
    return records;
  }

  /** @throws MosaicError `not_found` if it was deleted */
  async refresh(): Promise<this> {
    const fresh = await this.#mosaic.run(this.id);
    [this.data, this.parameters, this.#reward] = [fresh.data, fresh.parameters, undefined];
    return this;
  }

  /**
   * Until the run has ended. @throws the signal's reason when it aborts, such as that of
   * `AbortSignal.timeout(60_000)`
   */
  async wait(signal?: AbortSignal): Promise<this> {
    return await ended(this, () => this.outcome !== "", signal);
  }

  async cancel(): Promise<this> {
    return await this.#changed("CancelRun");
  }
  async retry(): Promise<this> {
    return await this.#changed("RetryRun");
  }

  async #changed(method: string): Promise<this> {
    this.data = filled(
      "RunData",
      await this.#mosaic.call(`mosaic.v1.Mosaic/${method}`, { run: this.id }),
    );
    return this;
  }
}

/** A sweep as it was when it was read. */
export class Sweep {
  readonly #mosaic: Mosaic;
  data: SweepData;

  constructor(mosaic: Mosaic, data: SweepData) {
    this.#mosaic = mosaic;
    this.data = data;
  }

  get id(): string {
    return this.data.sweepId;
  }
  get name(): string {
    return this.data.name;
  }
  /** running, paused, cancelling, cancelled, finished */
  get state(): string {
    return this.data.state;
  }

  /** The runs of its trials that are made, newest first. @throws MosaicError */
  async runs(options: Omit<RunsOptions, "tags"> = {}): Promise<Run[]> {
    return await this.#mosaic.runs({ ...options, tags: [`sweep:${this.name}`] });
  }

  async refresh(): Promise<this> {
    this.data = filled(
      "SweepData",
      await this.#mosaic.call("mosaic.v1.Mosaic/GetSweep", { sweep: this.id }),
    );
    return this;
  }

  /** Until all trials have ended. @throws as `Run.wait` */
  async wait(signal?: AbortSignal): Promise<this> {
    return await ended(this, () => ["finished", "cancelled"].includes(this.state), signal);
  }

  async cancel(): Promise<this> {
    const request = { sweep: this.id, action: "cancel" };
    this.data = filled(
      "SweepData",
      await this.#mosaic.call("mosaic.v1.Mosaic/ChangeSweep", request),
    );
    return this;
  }
}

async function ended<T extends { refresh(): Promise<unknown> }>(
  what: T,
  isOver: () => boolean,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let pauseMs = 100;; pauseMs = Math.min(2000, pauseMs * 1.5)) {
    signal?.throwIfAborted();
    await what.refresh();
    if (isOver()) return what;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, pauseMs);
      signal?.addEventListener("abort", done, { once: true });
    });
  }
}

interface Shaped {
  RunData: RunData;
  SeriesData: SeriesData;
  SweepData: SweepData;
}

/** The API leaves out what is empty, and writes large numbers as texts. */
function filled<K extends keyof Shaped>(shape: K, data: Json): Shaped[K] {
  return message(shape, data) as unknown as Shaped[K];
}

function message(shape: string, data: Json): Json {
  const fields = Object.entries((SHAPES as Shapes)[shape]!);
  return Object.fromEntries(fields.map(([name, kind]) => [name, valueOf(kind, data[name])]));
}

function valueOf(kind: string, value: unknown): unknown {
  const [form, inner] = kind.includes(" ") ? kind.split(" ") as [string, string] : ["one", kind];
  if (form === "list") return ((value ?? []) as unknown[]).map((item) => valueOf(inner, item));
  if (form === "map") {
    const entries = Object.entries((value ?? {}) as Json);
    return Object.fromEntries(entries.map(([key, item]) => [key, valueOf(inner, item)]));
  }
  if (value === undefined || value === null) {
    if (form === "maybe") return null;
    return { text: "", number: 0, flag: false }[inner] ?? null;
  }
  // 64-bit numbers, and those that are not finite, are texts.
  if (inner === "number") return Number(value);
  return inner in SHAPES ? message(inner, value as Json) : value;
}

function addressOf(target: string, hasToken: boolean): { socketPath: string; secure: false } | {
  host: string;
  port: string;
  secure: boolean;
} {
  if (target.startsWith("unix:")) return { socketPath: target.slice(5), secure: false };
  const text = target.includes("://") ? target : `http://${target}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || !/:\d+\/?$/.test(text)) {
    throw new MosaicError(
      "invalid_argument",
      `"${target}" is not an address; use HOST:PORT or unix:PATH`,
    );
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const secure = url.protocol === "https:";
  if (hasToken && !secure && !["localhost", "127.0.0.1", "::1"].includes(host)) {
    throw new MosaicError(
      "failed_precondition",
      `a token is not sent unencrypted to ${target}: use https://`,
    );
  }
  return { host, port: url.port || (secure ? "443" : "80"), secure };
}

function targetOfStateDir(): string {
  const home = env.XDG_STATE_HOME || `${homedir()}/.local/state`;
  const directory = env.MOSAIC_STATE_DIR || `${home}/mosaic`;
  try {
    return `unix:${JSON.parse(readFileSync(`${directory}/trainer/daemon.json`, "utf8")).socket}`;
  } catch (error) {
    throw new MosaicError(
      "unavailable",
      `no daemon runs in ${directory}. Start one with "mosaic up", or set MOSAIC_TARGET.`,
      { cause: error },
    );
  }
}

function refusal(text: string, status: number | undefined): MosaicError {
  try {
    const { code, message } = JSON.parse(text);
    if (typeof code === "string") return new MosaicError(code, message ?? code);
  } catch {
    // Not mosaic's: below.
  }
  return new MosaicError(
    "unavailable",
    `the answer of status ${status} is not mosaic's: ${text.slice(0, 200)}`,
  );
}

/** As `mosaic run` makes it. */
function configOf(command: readonly string[], options: SubmitOptions): Json {
  const [program, ...words] = command;
  if (program === undefined) throw new MosaicError("invalid_argument", "the command is empty");
  const { name, tags = [], gpus = 0, env: variables = {}, cwd: directory = cwd(), metadata = {} } =
    options;
  const last = command.at(-1)!;
  return {
    run_name: name ?? (last.split("/").filter((part) => part !== "").at(-1) || "run"),
    entry_point: program,
    arguments: words,
    environment: { PATH: env.PATH ?? "/usr/local/bin:/usr/bin:/bin", ...variables },
    resources: { gpus: { requested: gpus, mandatory: gpus > 0 } },
    artifacts: {},
    metadata: {
      tags,
      submission: { by: "typescript", nonce: crypto.randomUUID() },
      worker: { script: program, arguments: words, cwd: directory, use_grpc: false },
      ...metadata,
    },
  };
}
