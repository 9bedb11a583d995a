/**
 * One attempt of one run, from its start (or attaching) to the acknowledged exit: creates what the
 * proxy's loop acts on. Ownership: the wrapper shell is the worker's parent and writes the exit
 * record; the run's files hold everything that must outlive this process; this process only holds
 * the attempt's lock. It may be killed at any moment and replaced by another with `--attach`.
 */
import { messageOf } from "../base/errors.ts";
import { sleep } from "../base/time/sleep.ts";
import { VERSION } from "../base/version.ts";
import { hostEnvironment } from "../os/processes/environment.ts";
import { identityOf } from "../os/processes/identity.ts";
import { lowerPrecedence } from "../os/processes/precedence.ts";
import { infoIfThere } from "../os/files/files.ts";
import { isUnmountedForGood } from "../os/files/write_trouble.ts";
import { lockFile, removeTreeNow } from "../os/files/untrusted_changes.ts";
import type { ProxyArguments } from "./start/arguments.ts";
import { DaemonAddress } from "./delivery/daemon_address.ts";
import { Delivery, type DeliveryParts, type DeliveryPlan } from "./delivery/delivery.ts";
import { dialOptions } from "./delivery/dial_daemon.ts";
import type { Event, WorkerSettings } from "./state/events_and_effects.ts";
import { addedEnvironment } from "./start/stand_alone_environment.ts";
import { PROXY_EXIT } from "./state/exit_codes.ts";
import { GRACE_S } from "../base/agreed.ts";
import { GrowthTimes } from "../journal/growth_times.ts";
import { LogTimes } from "../journal/log_times.ts";
import { GrowthWatch } from "../journal/growth.ts";
import { Journal } from "../journal/journal.ts";
import { JournalFile } from "../journal/journal_file.ts";
import { Mirror } from "./worker/mirror.ts";
import { JournalPacker, packEndedLog } from "../journal/pack_journal.ts";
import type { PreflightChecks } from "./start/preflight.ts";
import { Pressure } from "./delivery/pressure.ts";
import type { Logger } from "../base/log.ts";
import { EventQueue } from "./state/queue.ts";
import { retryOnShortage } from "./state/retry_on_shortage.ts";
import { ANSWER_TIMEOUT_MS, REFUSED_TOKEN_TRIES } from "./state/reconnect.ts";
import { type Edges, ProxyLoop } from "./run_proxy.ts";
import type { FileSources } from "../readers/files/file_sources.ts";
import type { TextDialect } from "../readers/text/text_dialects.ts";
import type { ProxyStartFile } from "./start/start_file.ts";
import type { StartPlan } from "./start/start_plan.ts";
import type { Settings } from "./state/state.ts";
import { nodeEnvironment, placeOf } from "./start/node_environment.ts";
import { journalOrigin, wasStarted, type WorkerStart } from "./worker/worker.ts";
import { WorkerHandle } from "./worker/worker_handle.ts";

/** A daemon that only checks the lock holds it for a moment. */
const LOCK_TRIES = 20;
const LOCK_AGAIN_MS = 50;
const CLEARANCE_MS = 5000;
const PLACE_CHECK_MS = 2000;

/**
 * @returns the proxy's exit status. @throws errors after which another proxy must continue with the
 * worker and its journal.
 */
export async function serveAttempt(
  args: ProxyArguments,
  plan: StartPlan,
  log: Logger,
): Promise<number> {
  using held = await lock(plan.files.proxyLock(args.attempt));
  if (held === undefined) {
    log.warn("another proxy serves this attempt");
    return PROXY_EXIT.alreadyServed;
  }
  return await serve(args, plan, held, log);
}

async function lock(path: string): Promise<Deno.FsFile | undefined> {
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    const held = lockFile(path);
    if (held !== undefined) return held;
    await sleep(LOCK_AGAIN_MS);
  }
  return undefined;
}

async function serve(
  args: ProxyArguments,
  plan: StartPlan,
  held: Deno.FsFile,
  log: Logger,
): Promise<number> {
  const { files, start } = plan;
  const { attempt } = args;
  // Reports invalid arguments before anything is started.
  dialOptions(args, plan, args.target);
  const takeOver = args.attach || wasStarted(files, attempt);
  log.info({ version: VERSION, take_over: takeOver }, "proxy started");
  if (Deno.pid === 1) {
    log.warn("this process has pid 1 and does not reap orphans; use an init (docker --init)");
  }
  const mirrors = args.mirror
    ? [
      new Mirror(files.stdout(attempt), Deno.stdout),
      new Mirror(files.stderr(attempt), Deno.stderr),
    ]
    : [];
  if (takeOver) mirrors.forEach((one) => one.skip());

  const queue = new EventQueue<Event>();
  const journalFile = JournalFile.of(files, attempt, () => journalOrigin(files, attempt), log);
  const journal = new Journal(journalFile);
  const { journal: fate = "packed" } = start;
  const packer = fate === "kept"
    ? undefined
    : new JournalPacker(files.stdout(attempt), journalFile, log);
  // Before the worker starts: it would inherit ignored signals, and as process 1 this process would
  // miss a request to stop.
  using _signals = listenToSignals(queue, start.placed !== undefined);
  const times = new GrowthTimes();
  const order = new LogTimes(files, attempt, log);
  const noteGrowth = () => {
    const now = Date.now();
    if (times.isDue(now)) times.add(journal.size(), now);
    order.look(now);
  };
  const growth = new GrowthWatch(files.logs, () => {
    noteGrowth();
    mirrors.forEach((one) => one.copy());
    queue.put({ tag: "journal_grew", source: "stdout" });
  });
  // What an earlier proxy has not delivered was written before this one started.
  const writtenAt = takeOver ? infoIfThere(files.stdout(attempt))?.mtime?.getTime() : undefined;
  if (writtenAt !== undefined) times.add(journal.size(), writtenAt);
  const pressure = new Pressure(files.logs, journal, args.maxBacklogBytes ?? start.maxBacklogBytes);
  const sources = await sourcesOf(args, plan, log);
  const uploads = async () => {
    const { FileUploads } = await import("../uploads/uploads.ts");
    return new FileUploads(files, attempt, log);
  };
  const ring = start.fastlane === true
    ? new (await import("../frames/frame_ring.ts")).FrameRing(args.runId, log)
    : undefined;
  const delivery = new Delivery(
    { ...deliveryPlan(args, plan, times, log), show: (framed) => ring?.show(framed) },
    { journal, files: sources, uploads },
    queue,
    log,
  );
  // A proxy that attaches runs on the daemon's host, and delivers the rest.
  const placed = args.attach ? undefined : start.placed;
  const worker = new WorkerHandle(
    {
      ...{ files, attempt, start: takeOver ? undefined : workerStart(args, plan) },
      ...{ prepare: preparation(args, plan, log), clear: ringRemoval(args.runId, start, log) },
      started: () => {
        if (!plan.standAlone && placed === undefined) lowerOwnPrecedence(log);
        if (!takeOver && start.code === true) recordAttemptsCode(args, plan, log);
      },
    },
    journal,
    queue,
    log,
  );
  const placeWatch = setInterval(() => {
    if (!isUnmountedForGood(held, files.proxyLock(attempt))) return;
    worker.giveUp();
    queue.fail(
      new Error(
        "the file system of the run's directory has failed and was unmounted; its worker was killed",
      ),
    );
  }, PLACE_CHECK_MS);
  const edges: Edges = {
    worker,
    delivery,
    growth: {
      arm: (source) => {
        const grew = () => queue.put({ tag: "journal_grew", source });
        if (source === "stdout") growth.arm();
        else if (source === "uploads") delivery.armUploads(grew);
        else sources?.arm(grew);
      },
      disarm: (source) => {
        if (source !== "stdout") return;
        growth.disarm();
        mirrors.forEach((one) => one.copy());
      },
    },
    written: () => journal.size(),
    measure: (acknowledged, holds) => {
      times.forget(acknowledged);
      packer?.stored(Math.min(acknowledged, mirrors[0]?.position ?? Infinity));
      return pressure.measure(acknowledged, holds);
    },
    log,
  };
  const settings: Settings = {
    takesMessages: start.supportsPause,
    observes: sources !== undefined,
    heartbeatMs: (args.heartbeatIntervalS ?? start.heartbeatIntervalS) * 1000,
    answerTimeoutMs: ANSWER_TIMEOUT_MS,
    refusedTokenTries: REFUSED_TOKEN_TRIES,
    helloFirst: (start.placed !== undefined || plan.standAlone) && !takeOver,
    welcomeWaitMs: plan.standAlone ? args.daemonWaitS * 1000 : Infinity,
    lingerMs: millisecondsOf(placed?.lingerSeconds),
    leaseMs: millisecondsOf(placed?.leaseSeconds),
    graceS: start.graceS ?? GRACE_S,
  };
  const ownDisk = placed?.ownDisk !== undefined;
  let isUploaded = false;
  try {
    const { code, result } = await new ProxyLoop(settings, queue, edges).run();
    await Promise.all(mirrors.map((one) => one.finish()));
    order.look(Date.now(), true);
    if (fate === "packed" && result.type !== "given_up" && !ownDisk) {
      await packer?.finish();
      await packEndedLog(files.stderr(attempt), log);
    }
    if (ownDisk && result.type === "done") {
      isUploaded = delivery.allUploaded;
      if (!isUploaded) {
        log.warn(
          { directory: files.directory },
          "the run's directory is kept, because the daemon does not have all of its files",
        );
      }
    }
    log.info({ result: result.type, code }, "proxy exits");
    return code;
  } finally {
    clearInterval(placeWatch);
    await ring?.close(takeOver);
    growth.close();
    await packer?.settled();
    journal.close();
    if (isUploaded) removeTreeNow(files.directory);
  }
}

/** Beside the start, which it neither delays nor fails. */
function recordAttemptsCode(args: ProxyArguments, plan: StartPlan, log: Logger): void {
  const { runId, attempt, command } = args;
  const { start } = plan;
  const env = workerStart(args, plan).env;
  import("./start/attempts_code.ts").then(({ recordCode }) =>
    recordCode({
      ...{
        runId,
        attempt,
        command,
        env,
        cwd: start.cwd,
        user: start.user ?? undefined,
        sandbox: start.sandbox ?? [],
      },
      ...{ dialOptions: () => dialOptions(args, plan, args.target), log },
    })
  ).catch((error) => log.warn({ error: messageOf(error) }, "the run's code is not recorded"));
}

/**
 * After the worker was started: the worker would inherit the lower precedence, and only root could
 * raise it again.
 */
function lowerOwnPrecedence(log: Logger): void {
  lowerPrecedence(log).catch((error) =>
    log.warn({ error: messageOf(error) }, "cannot give the daemon priority over this proxy")
  );
}

function millisecondsOf(seconds: number | null | undefined): number {
  return (seconds ?? Infinity) * 1000;
}

function workerStart({ command }: ProxyArguments, { start }: StartPlan): WorkerStart {
  return {
    argv: command,
    env: start.placed === undefined ? start.env : nodeEnvironment(start.env, hostEnvironment()),
    cwd: start.cwd,
    user: start.user ?? undefined,
    sandbox: start.sandbox ?? [],
    controlled: start.supportsPause,
    cgroup: start.cgroup?.path,
    umask: start.umask,
  };
}

/**
 * Work on the host before the worker starts: preflight on an engine's host, and fetching the
 * checkpoint that the attempt resumes from.
 */
function preparation(args: ProxyArguments, plan: StartPlan, log: Logger) {
  const { start: { placed, cwd, env }, files } = plan;
  const fetch = async (directory: string, signal: AbortSignal) => {
    const { runId, attempt } = args;
    const patienceMs = millisecondsOf(placed?.lingerSeconds);
    const { fetchCheckpoint } = await import("./start/fetch_checkpoint.ts");
    const current = () => dialOptions(args, plan, args.target);
    await fetchCheckpoint({
      runId,
      attempt,
      directory,
      dialOptions: current,
      patienceMs,
      signal,
      log,
    });
  };
  return async (
    signal: AbortSignal,
    settings?: WorkerSettings,
  ): Promise<Record<string, string>> => {
    if (placed?.preflight !== undefined) {
      await checkNode(
        placed.preflight,
        { cwd, env: nodeEnvironment(env, hostEnvironment()) },
        files.directory,
      );
    }
    const directory = placed?.ownDisk?.resume;
    if (directory != null) await fetch(directory, signal);
    if (!plan.standAlone || settings === undefined) return {};
    if (!settings.fetch) return addedEnvironment(env, settings);
    const place = `${files.control}/resume`;
    await fetch(place, signal);
    return addedEnvironment(env, { ...settings, resumeFrom: `${place}/${settings.resumeFrom}` });
  };
}

/** @throws Error with the failed checks, for the run's reason */
async function checkNode(
  checks: PreflightChecks,
  { cwd, env }: { cwd: string; env: Record<string, string> },
  directory: string,
): Promise<void> {
  const { preflight, PREFLIGHT } = await import("./start/preflight.ts");
  const { host, gpus } = placeOf((name) => env[name]);
  const noGpu = gpus.length > 0
    ? undefined
    : `a GPU is asked for by metadata.preflight.gpu, and the job has none on ${host}; set resources.gpus.requested`;
  const interpreter = { python: checks.python, env, cwd, sandbox: [] };
  const failures = await retryOnShortage(() =>
    preflight(checks, { interpreter, directory, noGpu })
  );
  if (failures.length > 0) throw new Error(`${PREFLIGHT}${failures.join("; ")}`);
}

/** undefined: the worker was not asked for frames in shared memory. */
function ringRemoval(
  runId: string,
  { fastlane, env }: ProxyStartFile,
  log: Logger,
): (() => Promise<void>) | undefined {
  const parts = env.RAY_FASTLANE_ENABLED === "1";
  if (!parts && fastlane !== true) return undefined;
  return async () => {
    const { removeWorkersRings } = await import("../frames/frame_ring.ts");
    // The worker's exit is reported after this.
    await Promise.race([removeWorkersRings(runId, parts, log), sleep(CLEARANCE_MS)]);
  };
}

/** undefined: only the journal is read. */
async function sourcesOf(
  args: ProxyArguments,
  { files, start }: StartPlan,
  log: Logger,
): Promise<FileSources | undefined> {
  const { observe } = start;
  if (observe === undefined || observe === null) return undefined;
  // Includes the readers of all formats, so it is not loaded for --help, nor by a proxy that
  // observes no files.
  const { FileSources } = await import("../readers/files/file_sources.ts");
  const { attempt, agentId, workerId } = args;
  const excluded = start.stateDir === "" ? [] : [start.stateDir];
  // A config that switches off some dialects wants no guesses; standard error has no switches of
  // its own.
  const stderr = (start.textOff ?? []).length === 0;
  const context = { agentId, workerId };
  return new FileSources({ files, attempt, observation: observe, excluded, context, stderr, log });
}

function deliveryPlan(
  args: ProxyArguments,
  plan: StartPlan,
  times: GrowthTimes,
  log: Logger,
): DeliveryPlan {
  const { runId, attempt, workerId, agentId } = args;
  return {
    address: new DaemonAddress(args.target, plan.start.daemonJson),
    hello: {
      runId,
      attempt,
      proxyPid: BigInt(Deno.pid),
      proxyIdentity: identityOf(Deno.pid) ?? "",
      ...(plan.start.placed === undefined || args.attach
        ? {}
        : placeOf((name) => Deno.env.get(name))),
    },
    load: async (): Promise<DeliveryParts> => {
      const [{ buildBatch }, { openIngest }, { hasPattern, telemetryValidator }, { RunProgress }] =
        await Promise.all([
          import("./delivery/batches.ts"),
          import("./delivery/ingest_stream.ts"),
          import("../readers/schemas/validator.ts"),
          import("../readers/text/run_progress.ts"),
        ]);
      const { schema } = plan.start;
      const patterns = hasPattern(schema)
        ? (await import("../readers/schemas/patterns.ts")).linearPattern
        : undefined;
      const validator = telemetryValidator(schema, patterns);
      for (const note of validator?.notes ?? []) log.warn(note);
      const { textOff = [] } = plan.start;
      const [seen, progress] = [new Set<TextDialect>(), new RunProgress()];
      const timeAt = (position: number) => times.timeAt(position, Date.now());
      const reading = {
        context: { agentId, workerId },
        check: validator?.check,
        textOff,
        seen,
        progress,
        timeAt,
      };
      return {
        open: (target) => openIngest(dialOptions(args, plan, target)),
        buildBatch: (chunk, sealedForm, more) =>
          buildBatch(chunk, { ...reading, sealedForm }, more),
      };
    },
  };
}

/** SIGHUP is ignored: closing a terminal does not end the run. */
function listenToSignals(queue: EventQueue<Event>, placed: boolean): Disposable {
  const stop = () => queue.put({ tag: "signal" });
  const listeners: [Deno.Signal, () => void][] = [
    ["SIGTERM", stop],
    ["SIGINT", stop],
    ["SIGQUIT", stop],
    ["SIGHUP", () => {}],
    // Sent by the engine before its time limit (src/dispatch/launch/slurm/batch.ts).
    ...(placed
      ? [["SIGUSR1", () => queue.put({ tag: "limit_near" })] satisfies [Deno.Signal, () => void]]
      : []),
  ];
  for (const [signal, listener] of listeners) Deno.addSignalListener(signal, listener);
  return {
    [Symbol.dispose]() {
      for (const [signal, listener] of listeners) Deno.removeSignalListener(signal, listener);
    },
  };
}
