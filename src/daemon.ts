/**
 * Starts the parts of a daemon (state directory, databases, engine, servers) and stops them in
 * reverse order.
 */
import { processRef } from "./os/processes/identity.ts";
import { dialable } from "./wire/address/dialable.ts";
import { DAEMON_EXIT, StartFailure } from "./daemon/start/exit_codes.ts";
import { configDefaults } from "./daemon/start/config_defaults.ts";
import { notifyFile } from "./daemon/start/notify_file.ts";
import type { Receivers } from "./observability/messages/receivers.ts";
import { LogFile } from "./daemon/start/log_file.ts";
import { startIdleHeap } from "./daemon/idle_heap.ts";
import { startSuccessor, watchMemory } from "./daemon/start/memory_limit.ts";
import type { DaemonOptions } from "./daemon/start/options.ts";
import { startRetention } from "./daemon/retention_sweeps.ts";
import { isOpenToOwnUser, type Servers, startServers } from "./daemon/servers.ts";
import { startSideServices } from "./daemon/side_services.ts";
import { startUsageSamples } from "./daemon/usage_samples.ts";
import { socketPath } from "./daemon/start/socket_directory.ts";
import { fileSystemOf, remoteText } from "./os/host/file_system.ts";
import { freeSpaceOf } from "./os/host/free_space.ts";
import { openStores } from "./daemon/stores.ts";
import { watchOriginalsDeletions } from "./daemon/originals_deletions.ts";
import { guardPlace } from "./daemon/place_guard.ts";
import {
  createStateDirectory,
  type Held,
  takeStateDirectory,
} from "./daemon/start/state_directory.ts";
import { Engine } from "./dispatch/core/engine.ts";
import { Slurm } from "./dispatch/launch/slurm/slurm.ts";
import { messageOf } from "./base/errors.ts";
import { RunCgroups } from "./os/processes/cgroups.ts";
import { GpuPool } from "./dispatch/gpus/gpu_pool.ts";
import { GpuLocks } from "./os/gpus/gpu_locks.ts";
import { visibleOf } from "./os/gpus/gpu_option.ts";
import { GpuTools } from "./os/gpus/gpu_tools.ts";
import { Layout } from "./base/layout.ts";
import { createLogger, type Logger } from "./base/log.ts";
import { stderrSink } from "./base/log_line.ts";
import { OwnListeners } from "./observability/webhooks/own_listeners.ts";
import { readinessOf } from "./observability/readiness.ts";
import { daemonNeeds, notifyFrom } from "./permissions/daemon_plan.ts";
import { giveUp } from "./permissions/give_up.ts";
import { EXTRA_VARIABLE, extraPermissions, flagsOf, together } from "./permissions/permissions.ts";
import { realWorld } from "./permissions/world.ts";
import { hostEnvironment, ownEnvironment } from "./os/processes/environment.ts";
import { DescriptorReserve } from "./os/processes/descriptors.ts";
import { infoIfThere, writeFileAtomic } from "./os/files/files.ts";
import { isShortage } from "./os/processes/shortage.ts";
import { findUser, OWNER, type WorkerUserOption } from "./os/rights/worker_user.ts";
import { serviceManager } from "./os/files/service_manager.ts";
import { VERSION } from "./base/version.ts";

/** Longest duration of a stop: what is not done by then, the next daemon does, as after a kill. */
const STOP_MS = 10_000;
const ANNOUNCE_AGAIN_MS = 2000;
const TOO_MUCH_MEMORY = "the daemon uses more memory than --max-memory";

/** Runs a daemon until it is asked to stop. @returns its exit code @throws StartFailure */
export async function serveUntilStopped(
  options: DaemonOptions,
  args: readonly string[],
): Promise<number> {
  const defaults = configDefaults(options);
  const messages = await notifyFile(options.notify);
  checkWorkerUser(options.workerUser);
  Deno.umask(0o077);
  const layout = new Layout(options.stateDir);
  createStateDirectory(layout);
  const held = await takeStateDirectory(layout, options.replace);
  const file = new LogFile(layout.daemonLog);
  const sinks = options.detached ? [file.write] : [stderrSink, file.write];
  const log = createLogger({ level: options.logLevel, format: options.logFormat, sinks });
  try {
    return await serve({ ...options, ...defaults, messages }, layout, held, log, args);
  } finally {
    held.release();
    file.close();
  }
}

async function serve(
  options:
    & Omit<DaemonOptions, "alerts" | "slurm">
    & ReturnType<typeof configDefaults>
    & { messages: Receivers | undefined },
  layout: Layout,
  held: Held,
  log: Logger,
  args: readonly string[],
): Promise<number> {
  const stop = stopRequests(log);
  const env = hostEnvironment();
  const gpus = new GpuPool({
    option: options.gpus,
    visible: visibleOf(env),
    tools: new GpuTools(),
    free: options.gpuFree,
    locks: options.gpuLocks === undefined ? undefined : new GpuLocks(options.gpuLocks),
    log,
  });
  const [{ registry, telemetry }] = await Promise.all([
    Promise.resolve().then(() => openStores(layout, options.durability, options.bounds, log)),
    gpus.begin(),
  ]).catch((error) => {
    requirePlace(held, layout);
    throw error;
  });
  if (Deno.uid() === 0 && options.workerUser === undefined) {
    log.warn(
      "root runs this daemon, so workers without worker.user in their config run as root; see --worker-user",
    );
  }
  const { kind, name } = fileSystemOf(layout.stateDir);
  if (kind === "remote") {
    log.warn({ state_dir: layout.stateDir }, `the state directory ${remoteText(name)}`);
  }
  const descriptors = new DescriptorReserve(log);
  try {
    // The databases may be another daemon's.
    requirePlace(held, layout);
    const cgroups = openCgroups(options, log);
    const engine = new Engine({
      ...options,
      launchers: [new Slurm(hostEnvironment())],
      cgroups,
      openToOwnUser: isOpenToOwnUser(options),
      isRoot: Deno.uid() === 0,
      gpus,
      layout,
      log,
      registry,
      telemetry,
      version: VERSION,
      descriptors,
      onShutdown: stop.request,
      holdsPlace: held.isHere,
    });
    engine.recover();
    const env = (name: string) => ownEnvironment()[name];
    const manager = serviceManager(env, log, notifyFrom(layout.stateDir, env));
    const servers = await startServers(engine, {
      ...options,
      socket: socketPath(layout, env),
      tokensFile: layout.tokensFile,
      auditFile: layout.auditFile,
      log,
      descriptors,
      readiness: (listeners) =>
        readinessOf(engine, {
          ...listeners,
          accepting: () => !stop.requested(),
          shortOfDescriptors: () => descriptors.short,
        }),
    });
    const { listen, local, http, socket } = servers;
    if (options.tls !== undefined) stop.hangUp(() => renewCertificates(servers, log));
    const own = new OwnListeners([listen, local, http]);
    const side = await startSideServices({ core: engine, log, layout, own, ...options });
    const tls = options.tls !== undefined;
    engine.begin({ listen: dialable(local), http, tls, socket, own }, tls ? "" : dialable(http));
    const samples = startUsageSamples({
      working: () => registry.working(),
      gpus,
      telemetry,
      log,
      sampled: engine.sampled.bind(engine),
      count: (runId, time) => registry.gpus.count(runId, time),
      sharesOf: (runId) => registry.gpus.sharesOf(runId),
      peak: (runId, mb) => void registry.update(runId, { gpuPeakMb: mb }),
    });
    gpus.watch();
    const sweeps = startRetention({
      registry,
      log,
      policy: { ...options.retention, keepDeletedMs: options.keepDeletedMs },
      // Before workers are held.
      hasSpace: () =>
        [layout.trainer, layout.baseDir("runs")].every((path) => freeSpaceOf(path, true).enough),
      diskUsage: () => engine.diskUsageNow(),
      telemetryBytes: () => telemetry.usedBytes(),
      deleteRun: (runId) => engine.delete(runId, true),
    });
    const deletions = watchOriginalsDeletions({
      ...{ layout, registry, log },
      deleteRun: (runId) => engine.delete(runId, true),
    });
    const givenUp = giveUpStart(args);
    const announcing = announce(layout, {
      listen,
      ...(local === listen ? {} : { local }),
      http,
      socket,
      ...(options.advertise.target === undefined ? {} : { advertise: options.advertise.target }),
      ...(options.workerUser === undefined ? {} : { worker_user: options.workerUser }),
    }, log);
    log.debug({ given_up: givenUp }, "dropped the permissions that only the start needed");
    log.info(
      {
        listen,
        http,
        socket,
        group_socket: options.groupSocket?.path,
        pid: Deno.pid,
        version: VERSION,
        state_dir: layout.stateDir,
        gpus: gpus.size,
      },
      "ready",
    );
    const endGuard = guardPlace({
      held,
      renewSockets: servers.renewSockets,
      announceAgain: announcing.again,
      lost: stop.request,
      log,
    });
    await manager.ready(`listening on ${listen}`);
    manager.keepAlive(() => !stop.requested());

    const endMemory = options.maxMemoryBytes === undefined ? () => {} : watchMemory({
      limitBytes: options.maxMemoryBytes,
      log,
      busy: () => engine.busy(),
      // The service manager would treat a successor that this process starts as an orphan, so it
      // must start one itself.
      go: () => manager.present ? stop.request(TOO_MUCH_MEMORY) : startSuccessor(args),
    });

    const endIdleHeap = startIdleHeap();

    const reason = await stop.wait;
    log.info({ reason }, "stopping; runs and their proxies continue");
    endGuard();
    announcing.end();
    endMemory();
    endIdleHeap();
    await manager.stopping();
    await Promise.all([deletions.close(), sweeps?.close()]);
    const gpusClosed = gpus.close();
    await samples.close();
    await engine.close();
    await servers.stop();
    await side.close();
    await gpusClosed;
    manager.close();
    return codeOf(reason);
  } finally {
    void gpus.close();
    telemetry.close();
    registry.close();
    descriptors.close();
    stop.release();
  }
}

function codeOf(reason: string): number {
  return reason === TOO_MUCH_MEMORY ? DAEMON_EXIT.tooMuchMemory : DAEMON_EXIT.ok;
}

function renewCertificates(servers: Servers, log: Logger): void {
  servers.renew().then(
    () => log.info("the certificates were read again; new connections get them"),
    (error) =>
      log.error(
        { error: messageOf(error) },
        "the new certificates cannot be used; the old ones stay in use",
      ),
  );
}

/** Drops the permissions that only the start needs. Does nothing under `-A`. */
function giveUpStart(args: readonly string[]): string[] {
  const world = realWorld();
  const { start, always } = daemonNeeds(args, world);
  const kept = together(always, extraPermissions(world.env(EXTRA_VARIABLE)));
  return flagsOf(giveUp(start, kept)).filter((flag) => flag.startsWith("--allow-"));
}

/**
 * Writes daemon.json, which tells clients and proxies the daemon's addresses; on a full disk,
 * retries until it succeeds.
 *
 * @returns `again` writes it if it is missing; `end` stops the retries
 */
function announce(
  layout: Layout,
  addresses: {
    listen: string;
    local?: string;
    http: string;
    socket: string;
    advertise?: string;
    worker_user?: WorkerUserOption;
  },
  log: Logger,
): { again(): boolean; end(): void } {
  const started = new Date().toISOString();
  const write = () => {
    try {
      // A process 1 has no identity: nobody outside its container knows it by that number.
      const content = {
        pid: Deno.pid,
        ...processRef(Deno.pid),
        version: VERSION,
        ...addresses,
        started_at: started,
      };
      writeFileAtomic(layout.daemonJson, `${JSON.stringify(content)}\n`, { mode: 0o600 });
      return true;
    } catch (error) {
      if (!isShortage(error)) throw error;
      return false;
    }
  };
  const again = () => infoIfThere(layout.daemonJson) === undefined && write();
  if (write()) return { again, end: () => {} };
  log.error(
    { file: layout.daemonJson, listen: addresses.listen },
    "cannot write daemon.json, the disk is full: no run starts until there is free space; clients need --target",
  );
  const timer = setInterval(() => write() && clearInterval(timer), ANNOUNCE_AGAIN_MS);
  return { again, end: () => clearInterval(timer) };
}

/** @throws StartFailure (stateUnusable) */
function requirePlace(held: Held, { stateDir }: Layout): void {
  if (held.isHere()) return;
  throw new StartFailure(
    DAEMON_EXIT.stateUnusable,
    `the state directory ${stateDir} was removed or replaced while the daemon started`,
    "Start it again if no other daemon uses the directory that is there now.",
  );
}

/** @throws StartFailure (usage) */
function checkWorkerUser(option: WorkerUserOption | undefined): void {
  if (option === undefined) return;
  if (Deno.uid() !== 0) {
    throw new StartFailure(
      DAEMON_EXIT.usage,
      "--worker-user: only a daemon of root can start workers as other users",
      "Leave it out: workers run as the daemon's user.",
    );
  }
  try {
    if (typeof option === "string" && option !== OWNER) findUser(option);
  } catch (error) {
    throw new StartFailure(DAEMON_EXIT.usage, `--worker-user: ${messageOf(error)}`);
  }
}

function openCgroups(
  { cgroupParent }: Pick<DaemonOptions, "cgroupParent">,
  log: Logger,
): RunCgroups | undefined {
  if (cgroupParent === undefined) {
    log.info("cpus and memory_mb of configs are not enforced: no --cgroup-parent");
    return undefined;
  }
  const cgroups = RunCgroups.open(cgroupParent);
  const { parent, advisory } = cgroups;
  if (advisory.length === 0) log.info({ parent }, "cpus and memory_mb of configs are enforced");
  else {log.warn(
      { parent, advisory },
      "the cgroup lacks controllers: some limits of configs are not enforced",
    );}
  return cgroups;
}

/**
 * Collects requests to stop: signals, and calls of `request`. Also logs uncaught errors, so that
 * they do not end the daemon.
 */
function stopRequests(log: Logger) {
  let resolve!: (reason: string) => void;
  let requested = false;
  const wait = new Promise<string>((done) => resolve = done);
  const request = (reason: string) => {
    if (!requested) {
      // Whatever a part of the daemon waits for, at its start or at its end.
      Deno.unrefTimer(setTimeout(() => {
        log.error(
          { reason, seconds: STOP_MS / 1000 },
          "the stop takes too long; this daemon ends now, runs continue",
        );
        Deno.exit(codeOf(reason));
      }, STOP_MS));
    }
    requested = true;
    resolve(reason);
  };
  // A terminal that is closed does not end the queue of the night.
  let onHangUp = () => log.info("SIGHUP: the daemon goes on; SIGTERM stops it");
  const handlers = (["SIGTERM", "SIGINT", "SIGHUP"] as const).map((signal) => {
    const handler = () => signal === "SIGHUP" ? onHangUp() : request(signal);
    Deno.addSignalListener(signal, handler);
    return { signal, handler };
  });
  const onRejection = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    log.error({ error: messageOf(event.reason), stack: event.reason?.stack }, "uncaught error");
  };
  const onError = (event: ErrorEvent) => {
    event.preventDefault();
    log.error({ error: event.message, stack: event.error?.stack }, "uncaught error");
  };
  globalThis.addEventListener("unhandledrejection", onRejection);
  globalThis.addEventListener("error", onError);
  return {
    wait,
    request,
    requested: () => requested,
    /** SIGHUP does this instead. */
    hangUp: (act: () => void) => onHangUp = act,
    release() {
      for (const { signal, handler } of handlers) Deno.removeSignalListener(signal, handler);
      globalThis.removeEventListener("unhandledrejection", onRejection);
      globalThis.removeEventListener("error", onError);
    },
  };
}
