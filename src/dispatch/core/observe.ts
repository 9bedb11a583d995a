/**
 * Files that people name when their run has begun, or is over (`mosaic observe`). The daemon has no
 * permission to read them. While a run runs, its proxy reads them: it is replaced by one whose
 * start file has the patterns, as a dead one would be. After its end a helper (`mosaic proxy
 * --read-files`) reads them once, and the daemon stores what it prints.
 */
import { MosaicError } from "../../base/errors.ts";
import { type Layout, RunFiles } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { planIfReadable, type RunPlan } from "../../config/plan.ts";
import { IMPORT_WORKER } from "../../config/schema.ts";
import { readRecord } from "../../os/files/untrusted.ts";
import { writeRecord } from "../../os/files/untrusted_changes.ts";
import type { NamedFiles, NamedLine } from "../../proxy/delivery/named_files.ts";
import { matcherOf, observationOf } from "../../readers/files/observation.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import { placeOfWorker } from "../../proxy/start/start_file.ts";
import { realPaths } from "../launch/local/linked_places.ts";
import { readFilesBeside } from "../launch/local/proxy_process.ts";
import { requireWhole } from "./control.ts";
import type { ObservedFile } from "./core.ts";

const MAX_PATTERNS = 64;
const MAX_LENGTH = 4096;
/** Larger states of files that are not named are left out: the helper needs only their labels. */
const MAX_CURSORS_LENGTH = 8 << 20;

export interface ObserveOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  supervisor: Supervisor;
}

export class Observing {
  readonly #options: ObserveOptions;
  /** Runs whose files are being read. */
  readonly #reading = new Set<string>();

  constructor(options: ObserveOptions) {
    this.#options = options;
  }

  /**
   * @param patterns absolute
   * @throws MosaicError `invalid_argument` for a pattern, `failed_precondition` for a run whose
   * files cannot be read here
   */
  async observe(runId: string, asked: readonly string[]): Promise<ObservedFile[]> {
    const { registry, layout, supervisor, log } = this.#options;
    requireOwnFiles(registry.require(runId));
    const patterns = await withRealRoots(checked(asked));
    const row = registry.require(runId);
    const plan = requireOwnFiles(row);
    const observed = [...new Set([...row.observed, ...patterns])];
    if (observed.length > MAX_PATTERNS) {
      throw new MosaicError(
        "invalid_argument",
        `run ${runId} would have ${observed.length} patterns of files`,
        {
          hint: `It may have ${MAX_PATTERNS}: name a directory, or use * and **.`,
        },
      );
    }
    const files = new RunFiles(layout.runDir(row.baseDir, runId), row.workerId);
    const isNew = observed.length > row.observed.length;
    if (row.state === "INIT") {
      if (isNew) registry.update(runId, { observed });
      return patterns.map((path) => ({
        path,
        format: "",
        records: 0,
        note: "is read when the run runs",
      }));
    }
    requireHere(row, plan, files);
    if (isEnded(row.state)) {
      return await this.#alone(row, async () => {
        const found = await this.#store(row, plan, files, patterns);
        const isRead = (pattern: string) =>
          found.some(({ path, format }) => format !== "" && matcherOf(pattern)(path));
        const useful = [...new Set([...row.observed, ...patterns.filter(isRead)])];
        if (useful.length > row.observed.length) registry.update(runId, { observed: useful });
        return found;
      });
    }
    const named = await this.#alone(row, () => this.#read(row, files, patterns, true));
    registry.update(runId, { observed });
    if (isNew) {
      log.info(
        { run_id: runId, patterns },
        "further files are observed: the run's proxy is replaced",
      );
      supervisor.get(runId)?.host.killProxy();
    }
    return filesOf(named).map((file) =>
      file.note === "" ? { ...file, note: "is read from now on" } : file
    );
  }

  /** One reader of a run at a time. */
  async #alone<T>({ runId }: RunRow, work: () => Promise<T>): Promise<T> {
    if (this.#reading.has(runId)) {
      throw new MosaicError(
        "failed_precondition",
        `files of run ${runId} are being read for another call`,
        {
          hint: "Call again when it has returned.",
        },
      );
    }
    this.#reading.add(runId);
    try {
      return await work();
    } finally {
      this.#reading.delete(runId);
    }
  }

  async #store(
    row: RunRow,
    plan: RunPlan,
    files: RunFiles,
    patterns: readonly string[],
  ): Promise<ObservedFile[]> {
    const { registry, supervisor, log } = this.#options;
    const found = new Map<string, ObservedFile>();
    let stored = 0;
    for (let more = true; more;) {
      const lines = await this.#read(row, files, patterns, false);
      for (const file of filesOf(lines)) if (!found.has(file.path)) found.set(file.path, file);
      for (const { batch } of lines) {
        if (batch === undefined) continue;
        const now = registry.require(row.runId);
        if (now.attempt !== row.attempt || !isEnded(now.state)) {
          throw new MosaicError(
            "aborted",
            `run ${row.runId} has another attempt now: its files are not read further`,
          );
        }
        await supervisor.storeNamed(now, plan, files, batch);
        const file = found.get(batch.path);
        if (file !== undefined) file.records += batch.count;
        stored += batch.count;
      }
      more = lines.some((line) => line.more === true);
      for (const { file } of more ? [] : lines) {
        const its = file?.format === undefined ? undefined : found.get(file.path);
        if (its?.records === 0) {
          its.note = file!.isKnown ? "all of it was stored" : "nothing in it is read";
        }
      }
    }
    log.info(
      { run_id: row.runId, patterns, records: stored },
      "files that were named after the run's end are read",
    );
    return [...found.values()];
  }

  /** What a helper prints. @param lists it only says what it would read */
  async #read(
    row: RunRow,
    files: RunFiles,
    patterns: readonly string[],
    lists: boolean,
  ): Promise<NamedLine[]> {
    const { runId, agentId, workerId, attempt } = row;
    const all = lists ? [] : this.#options.telemetry.sourceCursors(runId, attempt);
    if (all === undefined) {
      throw new MosaicError(
        "failed_precondition",
        `how far the files of run ${runId} are stored is damaged`,
        {
          hint: "Stop the daemon, run mosaic doctor --repair, and start it again.",
        },
      );
    }
    const { globs } = observationOf({ cwd: "/", env: {} }, patterns);
    const cursors = all.reduce((length, { state }) => length + state.length, 0) < MAX_CURSORS_LENGTH
      ? all
      : all.filter(({ name }) => name === "." || globs.some(({ root }) => name.startsWith(root)));
    writeRecord(files.namedFiles, JSON.stringify({ globs, cursors, lists } satisfies NamedFiles));
    const { user } = placeOfWorker(files.proxyFile(attempt));
    const proxy = {
      target: "",
      runId,
      agentId,
      workerId,
      attempt,
      runDir: files.directory,
      attach: false,
      command: [],
    };
    const text = await readFilesBeside({ ...proxy, user });
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
  }
}

function filesOf(lines: readonly NamedLine[]): ObservedFile[] {
  return lines.flatMap(({ file }) =>
    file === undefined
      ? []
      : [{ path: file.path, format: file.format ?? "", records: 0, note: file.why ?? "" }]
  );
}

/** Proxies follow no links. */
async function withRealRoots(patterns: readonly string[]): Promise<string[]> {
  const { globs } = observationOf({ cwd: "/", env: {} }, patterns);
  const real = await realPaths(
    globs.flatMap(({ root, glob }) => [root, ...(/[*?]/.test(glob) ? [] : [glob])]),
  );
  return globs.map(({ root, glob }) =>
    real.get(glob) ?? (real.get(root) ?? root) + glob.slice(root === "/" ? 0 : root.length)
  );
}

/** @throws MosaicError `invalid_argument` */
function checked(patterns: readonly string[]): readonly string[] {
  if (patterns.length === 0) {
    throw new MosaicError("invalid_argument", "patterns is empty: name a file or a directory");
  }
  for (const pattern of patterns) {
    const problem = !pattern.startsWith("/")
      ? "must be absolute"
      : pattern.length > MAX_LENGTH
      ? `must have ${MAX_LENGTH} characters at most`
      : /[\n\0]/.test(pattern)
      ? "must have no line breaks and no NUL"
      : observationOf({ cwd: "/", env: {} }, [pattern]).globs[0]!.root === "/"
      ? "must name a directory before its first wildcard: everything below / would be searched"
      : undefined;
    if (problem === undefined) continue;
    throw new MosaicError(
      "invalid_argument",
      `pattern ${JSON.stringify(pattern.slice(0, 200))} ${problem}`,
    );
  }
  return patterns;
}

/**
 * @throws MosaicError `failed_precondition` for a run that has no files of its own to be observed
 */
function requireOwnFiles(row: RunRow): RunPlan {
  const { runId, configJson, parent } = row;
  requireWhole(row);
  const plan = planIfReadable(configJson);
  const why = parent !== null
    ? [`is part of the program of run ${parent}`, `Name the run with the program: ${parent}`]
    : plan === undefined
    ? ["has a config that this version cannot read", "Use the version that has submitted it."]
    : (plan.worker.module || plan.worker.script || plan.entryPoint) === IMPORT_WORKER
    ? [
      "is imported and has the files that it was made from",
      "Import the others as a run of their own: mosaic import FILE",
    ]
    : plan.worker.external
    ? ["has a proxy on another host", "Name the files in its config: metadata.observe"]
    : undefined;
  if (why === undefined) return plan!;
  throw new MosaicError(
    "failed_precondition",
    `run ${runId} ${why[0]}: it observes no further files`,
    {
      hint: why[1]!,
    },
  );
}

/**
 * @throws MosaicError `failed_precondition` where neither the proxy nor this host can read the
 * run's files
 */
function requireHere({ runId, state, attempt }: RunRow, plan: RunPlan, files: RunFiles): void {
  const isLive = !isEnded(state);
  let problem: string | undefined;
  if (isLive && plan.launcher !== "local") {
    problem = `is a job of ${plan.launcher}, whose proxy cannot be replaced`;
  } else if (
    readRecord(files.workerFile(attempt)) === undefined ||
    readRecord(files.proxyFile(attempt)) === undefined
  ) {
    problem = isLive ? "is being started" : "has started no program on this host";
  }
  if (problem === undefined) return;
  throw new MosaicError(
    "failed_precondition",
    `run ${runId} ${problem}: it observes no further files now`,
    {
      hint: isLive
        ? "Try again a little later, or when it has ended."
        : "mosaic import FILE makes a run of its files.",
    },
  );
}
