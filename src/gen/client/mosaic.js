// src/os/ts_client/mosaic.ts
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { homedir } from "node:os";
import { cwd, env } from "node:process";
var SHAPES = {
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
    gpuPeakMb: "number"
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
    copyOf: "text"
  },
  SweepData: {
    sweepId: "text",
    name: "text",
    state: "text",
    total: "number",
    made: "number",
    states: "map number",
    json: "text"
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
    objective: "Objective"
  },
  Capabilities: {
    workerKind: "text",
    protoVersion: "text",
    schemaId: "text",
    schemaVersion: "number",
    supportsPause: "flag",
    supportsCheckpoint: "flag"
  },
  Transition: {
    seq: "number",
    fromState: "text",
    toState: "text",
    event: "text",
    reason: "text",
    attempt: "number",
    at: "time"
  },
  Parameter: {
    name: "text",
    valueJson: "text",
    source: "text",
    earlierJson: "text"
  },
  Placement: {
    launcher: "text",
    name: "text",
    job: "text",
    phase: "text",
    waitingFor: "text",
    expectedStart: "time",
    nodes: "list text",
    gpus: "list text",
    end: "text"
  },
  Rank: {
    rank: "number",
    node: "text",
    code: "maybe number",
    first: "flag"
  },
  ReportedReward: {
    name: "text",
    value: "number"
  },
  Objective: {
    name: "text",
    value: "maybe number"
  }
};
var MosaicError = class extends Error {
  code;
  constructor(code, message2, options) {
    super(message2, options);
    this.name = "MosaicError";
    this.code = code;
  }
};
var Mosaic = class {
  target;
  #token;
  #ca;
  #timeoutMs;
  /**
   * @throws MosaicError `unavailable` if no daemon is named and none runs in the state directory
   */
  constructor({ target, token, ca, timeoutMs = 6e4 } = {}) {
    this.target = target ?? (env.MOSAIC_TARGET || targetOfStateDir());
    this.#token = token ?? env.MOSAIC_TOKEN ?? "";
    this.#ca = ca ?? (env.MOSAIC_TLS_CA ? readFileSync(env.MOSAIC_TLS_CA, "utf8") : void 0);
    this.#timeoutMs = timeoutMs;
  }
  /** Runs that fit, newest first. @throws MosaicError */
  async runs(options = {}) {
    const { where = "", tags = [], name: nameContains = "", states = [], sort = "", limit = Infinity } = options;
    const found = [];
    for (let pageToken = ""; found.length < limit; ) {
      const page = await this.call("mosaic.v1.Mosaic/ListRuns", {
        ...{
          where,
          tags,
          nameContains,
          states,
          sort,
          pageToken,
          columns: [
            "param.*",
            "reward"
          ]
        },
        limit: Math.min(1e3, limit - found.length)
      });
      const rows = page.runs ?? [];
      const values = page.values ?? [];
      rows.forEach((row, i) => {
        const [parameters, reward] = values[i].json.map((text) => JSON.parse(text));
        found.push(new Run(this, filled("RunData", row), Object.fromEntries(parameters ?? []), reward));
      });
      pageToken = page.nextPageToken ?? "";
      if (pageToken === "") break;
    }
    return found;
  }
  /**
   * One run: by its id, the beginning of its id, its name, or "@last". @throws MosaicError
   * `not_found`
   */
  async run(run = "@last") {
    const data = filled("RunData", await this.call("mosaic.v1.Mosaic/GetRun", {
      run
    }));
    return new Run(this, data, Object.fromEntries(data.parameters.map((one) => [
      one.name,
      JSON.parse(one.valueJson)
    ])));
  }
  /** Submits a command, or a whole config. @throws MosaicError */
  async submit(what, options = {}) {
    const config = Array.isArray(what) ? configOf(what, options) : what;
    const answer = await this.call("gymgui.trainer.TrainerService/SubmitRun", {
      configJson: JSON.stringify(config)
    });
    return await this.run(answer.runId);
  }
  /**
   * Tries a command with many values of its parameters. A name is taken once. @throws MosaicError
   */
  async sweep(command, options) {
    const { grid = {}, points, seeds, metric, maxParallel, name, ...others } = options;
    const [, metricName, goal] = /^(.*?)(?::(max|min))?$/s.exec(metric ?? "");
    const spec = {
      name,
      config: configOf(command, {
        name,
        ...others
      }),
      pass: "flags",
      parts: [
        {
          axes: Object.entries(grid).map(([name2, values]) => ({
            name: name2,
            values
          })),
          ...points === void 0 ? {} : {
            rows: points
          },
          ...seeds === void 0 ? {} : {
            seeds: {
              name: "seed",
              values: seeds
            }
          }
        }
      ],
      budget: {},
      ...metric === void 0 ? {} : {
        metric: {
          name: metricName,
          goal: goal ?? "max"
        }
      },
      ...maxParallel === void 0 ? {} : {
        max_parallel: maxParallel
      }
    };
    const data = await this.call("mosaic.v1.Mosaic/CreateSweep", {
      specJson: JSON.stringify(spec)
    });
    return new Sweep(this, filled("SweepData", data));
  }
  /**
   * The path of an artifact on the daemon's host: `RUN:checkpoints/best.pt`, `policy:best`. @throws
   * MosaicError
   */
  async artifact(artifact) {
    return (await this.call("mosaic.v1.Mosaic/GetNamedArtifact", {
      artifact
    })).file;
  }
  /**
   * One unary call, such as `call("mosaic.v1.Mosaic/GetRun", { run: "@last" })`: JSON of the API.
   * @throws MosaicError
   */
  async call(method, request) {
    const answer = await this.#post(method, "application/json", JSON.stringify(request));
    const pieces = [];
    for await (const piece of answer) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    if (answer.statusCode === 200) return JSON.parse(text);
    throw refusal(text, answer.statusCode);
  }
  /** The messages of a call that answers with a stream. @throws MosaicError */
  async *stream(method, request) {
    const message2 = Buffer.from(JSON.stringify(request));
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message2.length, 1);
    const answer = await this.#post(method, "application/connect+json", Buffer.concat([
      head,
      message2
    ]));
    let left = Buffer.alloc(0);
    try {
      for await (const piece of answer) {
        left = Buffer.concat([
          left,
          piece
        ]);
        while (answer.statusCode === 200 && left.length >= 5 && left.length >= 5 + left.readUInt32BE(1)) {
          const end = 5 + left.readUInt32BE(1);
          const payload = JSON.parse(left.subarray(5, end).toString() || "{}");
          if ((left[0] & 2) === 0) yield payload;
          else if (payload.error === void 0) return;
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
  #post(method, contentType, body) {
    const headers = {
      "content-type": contentType,
      "connect-protocol-version": "1"
    };
    if (this.#token !== "") headers.authorization = `Bearer ${this.#token}`;
    const { secure, ...address } = addressOf(this.target, this.#token !== "");
    const options = {
      ...address,
      method: "POST",
      path: `/${method}`,
      headers,
      timeout: this.#timeoutMs
    };
    return new Promise((resolve, reject) => {
      const failed = (error) => reject(error instanceof MosaicError ? error : new MosaicError("unavailable", `no daemon answers at ${this.target}: ${error.message}. Start one with "mosaic up".`, {
        cause: error
      }));
      const request = secure ? requestHttps({
        ...options,
        ...this.#ca === void 0 ? {} : {
          ca: this.#ca
        }
      }, resolve) : requestHttp(options, resolve);
      request.on("error", failed);
      request.on("timeout", () => {
        request.destroy(new MosaicError("deadline_exceeded", `${this.target} has not answered in ${this.#timeoutMs} ms`));
      });
      request.end(body);
    });
  }
};
var Run = class {
  #mosaic;
  /** Every field of the API. Where its description says null, a text is "" and a number 0. */
  data;
  parameters;
  #reward;
  constructor(mosaic, data, parameters, reward) {
    this.#mosaic = mosaic;
    this.data = data;
    this.parameters = parameters;
    this.#reward = reward;
  }
  get id() {
    return this.data.runId;
  }
  get name() {
    return this.data.name;
  }
  /** INIT, EXECUTING, TERMINATED, FAULTED, CANCELLED … */
  get state() {
    return this.data.state;
  }
  /** succeeded, failed, canceled; "" while it is live. */
  get outcome() {
    return this.data.outcome;
  }
  get reason() {
    return this.data.reason;
  }
  get tags() {
    return this.data.tags;
  }
  /** The number that `mosaic list` shows; null if there is none. */
  async reward() {
    if (this.#reward === void 0) {
      const [run] = await this.#mosaic.runs({
        where: `run_id=${this.id}`,
        limit: 1
      });
      this.#reward = run === void 0 ? null : await run.reward();
    }
    return this.#reward;
  }
  /**
   * Every stored point of the metric, or of all metrics. A NaN is null, and named in `value_text`.
   * @throws MosaicError
   */
  async metrics(name) {
    const points = await this.#records("metrics");
    return name === void 0 ? points : points.filter((point) => point.name === name);
  }
  async episodes() {
    return await this.#records("episodes");
  }
  async steps() {
    return await this.#records("steps");
  }
  async events() {
    return await this.#records("events");
  }
  /** Its metrics, each with a summary. @throws MosaicError */
  async series() {
    const { series = [] } = await this.#mosaic.call("mosaic.v1.Mosaic/ListSeries", {
      run: this.id
    });
    return series.map((one) => filled("SeriesData", one));
  }
  async #records(kind) {
    const records = [];
    for await (const batch of this.#mosaic.stream("mosaic.v1.Mosaic/StreamTelemetry", {
      run: this.id,
      kind
    })) {
      const lines = Buffer.from(batch.jsonl ?? "", "base64").toString().split("\n");
      for (const line of lines) if (line !== "") records.push(JSON.parse(line));
    }
    return records;
  }
  /** @throws MosaicError `not_found` if it was deleted */
  async refresh() {
    const fresh = await this.#mosaic.run(this.id);
    [this.data, this.parameters, this.#reward] = [
      fresh.data,
      fresh.parameters,
      void 0
    ];
    return this;
  }
  /**
   * Until the run has ended. @throws the signal's reason when it aborts, such as that of
   * `AbortSignal.timeout(60_000)`
   */
  async wait(signal) {
    return await ended(this, () => this.outcome !== "", signal);
  }
  async cancel() {
    return await this.#changed("CancelRun");
  }
  async retry() {
    return await this.#changed("RetryRun");
  }
  async #changed(method) {
    this.data = filled("RunData", await this.#mosaic.call(`mosaic.v1.Mosaic/${method}`, {
      run: this.id
    }));
    return this;
  }
};
var Sweep = class {
  #mosaic;
  data;
  constructor(mosaic, data) {
    this.#mosaic = mosaic;
    this.data = data;
  }
  get id() {
    return this.data.sweepId;
  }
  get name() {
    return this.data.name;
  }
  /** running, paused, cancelling, cancelled, finished */
  get state() {
    return this.data.state;
  }
  /** The runs of its trials that are made, newest first. @throws MosaicError */
  async runs(options = {}) {
    return await this.#mosaic.runs({
      ...options,
      tags: [
        `sweep:${this.name}`
      ]
    });
  }
  async refresh() {
    this.data = filled("SweepData", await this.#mosaic.call("mosaic.v1.Mosaic/GetSweep", {
      sweep: this.id
    }));
    return this;
  }
  /** Until all trials have ended. @throws as `Run.wait` */
  async wait(signal) {
    return await ended(this, () => [
      "finished",
      "cancelled"
    ].includes(this.state), signal);
  }
  async cancel() {
    const request = {
      sweep: this.id,
      action: "cancel"
    };
    this.data = filled("SweepData", await this.#mosaic.call("mosaic.v1.Mosaic/ChangeSweep", request));
    return this;
  }
};
async function ended(what, isOver, signal) {
  for (let pauseMs = 100; ; pauseMs = Math.min(2e3, pauseMs * 1.5)) {
    signal?.throwIfAborted();
    await what.refresh();
    if (isOver()) return what;
    await new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, pauseMs);
      signal?.addEventListener("abort", done, {
        once: true
      });
    });
  }
}
function filled(shape, data) {
  return message(shape, data);
}
function message(shape, data) {
  const fields = Object.entries(SHAPES[shape]);
  return Object.fromEntries(fields.map(([name, kind]) => [
    name,
    valueOf(kind, data[name])
  ]));
}
function valueOf(kind, value) {
  const [form, inner] = kind.includes(" ") ? kind.split(" ") : [
    "one",
    kind
  ];
  if (form === "list") return (value ?? []).map((item) => valueOf(inner, item));
  if (form === "map") {
    const entries = Object.entries(value ?? {});
    return Object.fromEntries(entries.map(([key, item]) => [
      key,
      valueOf(inner, item)
    ]));
  }
  if (value === void 0 || value === null) {
    if (form === "maybe") return null;
    return {
      text: "",
      number: 0,
      flag: false
    }[inner] ?? null;
  }
  if (inner === "number") return Number(value);
  return inner in SHAPES ? message(inner, value) : value;
}
function addressOf(target, hasToken) {
  if (target.startsWith("unix:")) return {
    socketPath: target.slice(5),
    secure: false
  };
  const text = target.includes("://") ? target : `http://${target}`;
  const url = URL.canParse(text) ? new URL(text) : void 0;
  if (url === void 0 || !/^https?:$/.test(url.protocol) || !/:\d+\/?$/.test(text)) {
    throw new MosaicError("invalid_argument", `"${target}" is not an address; use HOST:PORT or unix:PATH`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const secure = url.protocol === "https:";
  if (hasToken && !secure && ![
    "localhost",
    "127.0.0.1",
    "::1"
  ].includes(host)) {
    throw new MosaicError("failed_precondition", `a token is not sent unencrypted to ${target}: use https://`);
  }
  return {
    host,
    port: url.port || (secure ? "443" : "80"),
    secure
  };
}
function targetOfStateDir() {
  const home = env.XDG_STATE_HOME || `${homedir()}/.local/state`;
  const directory = env.MOSAIC_STATE_DIR || `${home}/mosaic`;
  try {
    return `unix:${JSON.parse(readFileSync(`${directory}/trainer/daemon.json`, "utf8")).socket}`;
  } catch (error) {
    throw new MosaicError("unavailable", `no daemon runs in ${directory}. Start one with "mosaic up", or set MOSAIC_TARGET.`, {
      cause: error
    });
  }
}
function refusal(text, status) {
  try {
    const { code, message: message2 } = JSON.parse(text);
    if (typeof code === "string") return new MosaicError(code, message2 ?? code);
  } catch {
  }
  return new MosaicError("unavailable", `the answer of status ${status} is not mosaic's: ${text.slice(0, 200)}`);
}
function configOf(command, options) {
  const [program, ...words] = command;
  if (program === void 0) throw new MosaicError("invalid_argument", "the command is empty");
  const { name, tags = [], gpus = 0, env: variables = {}, cwd: directory = cwd(), metadata = {} } = options;
  const last = command.at(-1);
  return {
    run_name: name ?? (last.split("/").filter((part) => part !== "").at(-1) || "run"),
    entry_point: program,
    arguments: words,
    environment: {
      PATH: env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
      ...variables
    },
    resources: {
      gpus: {
        requested: gpus,
        mandatory: gpus > 0
      }
    },
    artifacts: {},
    metadata: {
      tags,
      submission: {
        by: "typescript",
        nonce: crypto.randomUUID()
      },
      worker: {
        script: program,
        arguments: words,
        cwd: directory,
        use_grpc: false
      },
      ...metadata
    }
  };
}
export {
  Mosaic,
  MosaicError,
  Run,
  Sweep
};
