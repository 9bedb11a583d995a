/**
 * One attempt of one run, from its start (or takeover) to the acknowledged exit: wires worker, journal, control and
 * delivery together.
 *
 * Who owns what: the wrapper shell is the worker's parent and writes the exit record; the run's files hold everything
 * that must outlive this process; this process holds the attempt's lock and nothing else that matters. It may be killed
 * at any moment and replaced by another with `--attach`.
 */
import { credentialsOf, type Entrance, environmentVariable, safeEntrance } from "../client/dial_options.ts";
import { messageOf } from "../base/errors.ts";
import { roomText, RoomWatch } from "../os/free_space.ts";
import { removeIfThere, tryLock } from "../os/files.ts";
import { identityOf } from "../os/identity.ts";
import { isShortage } from "../os/shortage.ts";
import { makeWay, readRecordInProxy, writeRecord } from "../os/untrusted.ts";
import { VERSION } from "../base/version.ts";
import type { ProxyArguments } from "./arguments.ts";
import { backlogLimit, isOverBacklog, LEAST_BACKLOG_BYTES } from "./backlog.ts";
import { type Kept, type Wish, WorkerControl } from "./control.ts";
import { DaemonAddress } from "./daemon_address.ts";
import type { Delivery, DeliveryOptions } from "./delivery.ts";
import { PROXY_EXIT } from "./exit_codes.ts";
import { statusOf } from "./exit_record.ts";
import { patiently } from "./retry_on_shortage.ts";
import { GrowthWatch } from "./growth.ts";
import { Journal } from "./journal.ts";
import { JournalFile } from "./journal_file.ts";
import { Mirror } from "./mirror.ts";
import type { ProxyLog } from "./proxy_log.ts";
import type { StartPlan } from "./start_plan.ts";
import { GroupEnd } from "./end_group.ts";
import { lastLines } from "./tail.ts";
import { Wake } from "./wake.ts";
import { attachWorker, type Ending, journalOrigin, startWorker, wasStarted, type Worker } from "./worker.ts";
import { sleep } from "../base/sleep.ts";

const STDERR_LINES = 20;
const LOOK_MS = 1000;
const ROOM_LOOK_MS = 3000;
const ROOM_LOOK_BYTES = 1 << 20;
/** A daemon that only asks whether the lock is held has it for a moment. */
const LOCK_TRIES = 20;
const GRACE_S = 5;
/** After SIGTERM the proxy leaves what it cannot deliver in this time to another. */
const LEAVE_MS = 10_000;
const DEADMAN_MS = 15_000;

async function lock(path: string): Promise<Deno.FsFile | undefined> {
  makeWay(path);
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    const held = tryLock(path);
    if (held !== undefined) return held;
    await sleep(50);
  }
  return undefined;
}

/** @returns The proxy's exit status. @throws what leaves the worker and its journal to another proxy. */
export async function runSidecar(args: ProxyArguments, plan: StartPlan, log: ProxyLog): Promise<number> {
  const held = await lock(plan.files.proxyLock(args.attempt));
  if (held === undefined) {
    log.warn("another proxy serves this attempt");
    return PROXY_EXIT.alreadyServed;
  }
  try {
    return await new Sidecar(args, plan, log).run();
  } finally {
    held.close();
  }
}

class Sidecar {
  readonly #args: ProxyArguments;
  readonly #plan: StartPlan;
  readonly #log: ProxyLog;
  readonly #wake = new Wake();
  readonly #journal: Journal;
  #worker!: Worker;
  #control!: WorkerControl;
  #delivery!: Delivery;
  #ending: Ending | undefined;
  #groupEnd: GroupEnd | undefined;
  /** Settles when the group has ended, or could not be ended: never rejected. */
  #groupLeft: Promise<void> | undefined;
  #groupEnded = false;
  #stderrTail: string[] = [];
  #acknowledged = 0;
  #backlogHeld = false;
  #diskHeld = false;
  #backlogLimit: number | undefined;
  #leaving = false;
  readonly #room = new RoomWatch();
  readonly #firstRoomLook = performance.now() + ROOM_LOOK_MS;
  /** Worker, control and delivery are there. */
  #serving = false;
  #signalled = false;

  constructor(args: ProxyArguments, plan: StartPlan, log: ProxyLog) {
    this.#args = args;
    this.#plan = plan;
    this.#log = log;
    const { files } = plan;
    this.#journal = new Journal(
      JournalFile.of(files, args.attempt, () => journalOrigin(files, args.attempt), log),
    );
  }

  async run(): Promise<number> {
    const { files } = this.#plan;
    const { attempt, attach, mirror } = this.#args;
    // What is wrong with the arguments is to be seen before anything is started.
    this.#entrance(this.#args.target);
    const takeOver = attach || wasStarted(files, attempt);
    const mirrors = mirror
      ? [new Mirror(files.stdout(attempt), Deno.stdout), new Mirror(files.stderr(attempt), Deno.stderr)]
      : [];
    if (takeOver) mirrors.forEach((one) => one.skip());
    this.#log.info({ version: VERSION, take_over: takeOver }, "proxy started");
    if (Deno.pid === 1) {
      this.#log.warn("this is process 1, and orphans are not waited for: use an init (docker --init)");
    }
    // Before the worker starts: it would inherit what is ignored, and a request to stop would be lost on a first process.
    const signals = this.#listenToSignals();
    try {
      return await this.#serve(takeOver, mirrors);
    } finally {
      signals();
      this.#journal.close();
    }
  }

  async #serve(takeOver: boolean, mirrors: Mirror[]): Promise<number> {
    const { files, start } = this.#plan;
    const { attempt } = this.#args;
    this.#worker = takeOver ? await attachWorker(files, attempt) : await startWorker(files, attempt, {
      argv: this.#args.command,
      env: start.env,
      cwd: start.cwd,
      controlled: start.supportsPause,
      cgroup: start.cgroup?.path,
      umask: start.umask,
    }, this.#log);

    this.#control = new WorkerControl({
      leader: this.#worker.leader,
      fifo: start.supportsPause && this.#worker.leader !== undefined ? files.stdinFifo(attempt) : undefined,
      log: this.#log,
      changed: (applied) => this.#delivery?.report(applied),
      keep: (kept) => this.#keep(kept),
      written: () => this.#journal.size(),
    });
    if (takeOver) this.#control.takeOver(this.#kept());
    this.#worker.ended.then((ending) => patiently(() => this.#hasEnded(ending)));

    const watch = new GrowthWatch(files.logs, () => this.#changed(mirrors));
    let looks: ReturnType<typeof setInterval> | undefined;
    try {
      this.#delivery = await this.#newDelivery({
        ask: () => watch.ask(),
        rest: () => {
          watch.rest();
          mirrors.forEach((one) => one.copy());
        },
      });
      looks = setInterval(() => this.#lookAround(), LOOK_MS);
      this.#serving = true;
      if (this.#signalled) this.#endBySignal();
      const result = await this.#delivery.run();
      const code = result.type === "refused" ? await this.#refused(result.reason) : this.#status();
      await Promise.all(mirrors.map((one) => one.finish()));
      this.#log.info({ result: result.type, code }, "proxy leaves");
      return code;
    } finally {
      clearInterval(looks);
      watch.close();
    }
  }

  #changed(mirrors: Mirror[]): void {
    mirrors.forEach((one) => one.copy());
    this.#wake.notify();
  }

  /** Its modules are loaded only now: the worker is started by then, and starts up meanwhile. */
  async #newDelivery(growth: DeliveryOptions["growth"]): Promise<Delivery> {
    const [{ Delivery }, { openIngest }, { telemetryValidator }] = await Promise.all([
      import("./delivery.ts"),
      import("./ingest_stream.ts"),
      import("../telemetry/schemas/validator.ts"),
    ]);
    const { start } = this.#plan;
    const args = this.#args;
    const validator = telemetryValidator(start.schema);
    for (const note of validator?.notes ?? []) this.#log.warn(note);
    const address = new DaemonAddress(args.target, start.daemonJson);
    return new Delivery({
      journal: this.#journal,
      address,
      open: (target) => openIngest(this.#entrance(target)),
      hello: () => ({
        runId: args.runId,
        attempt: args.attempt,
        workerId: args.workerId,
        agentId: args.agentId,
        proxyPid: BigInt(Deno.pid),
        proxyIdentity: identityOf(Deno.pid) ?? "",
        workerPid: BigInt(this.#worker.leader?.pid ?? 0),
        workerIdentity: this.#worker.leader?.identity ?? "",
        version: VERSION,
      }),
      context: { agentId: args.agentId, workerId: args.workerId },
      check: validator?.check,
      log: this.#log,
      wake: this.#wake,
      growth,
      applied: () => this.#control.applied,
      onWish: (wish) => this.#want(wish),
      onStop: (graceSeconds) => this.#stop(graceSeconds, "the daemon"),
      onSteps: (steps, bytes) => this.#control.stepsSeen(steps, bytes),
      onEvent: (kind) => this.#control.heard(kind),
      onAcknowledged: (position) => this.#acknowledged = position,
      exit: () => this.#exit(),
      heartbeatMs: (args.heartbeatIntervalS ?? start.heartbeatIntervalS) * 1000,
      deadmanMs: DEADMAN_MS,
    });
  }

  /** @throws when a token or certificate cannot be read, or the token would travel unencrypted. */
  #entrance(target: string): Entrance {
    const { tokenFile, tlsCaFile, tlsServerName } = this.#args;
    const { start, standAlone } = this.#plan;
    const given = {
      // Read each time: tokens are rotated.
      token: tokenFile === undefined ? start.sessionToken : Deno.readTextFileSync(tokenFile).trim(),
      tls: tlsCaFile === undefined ? undefined : { ca: tlsCaFile },
      serverName: tlsServerName,
    };
    // What a daemon was given for its own clients is not for its proxies.
    return safeEntrance({ target, ...credentialsOf(given, standAlone ? environmentVariable : () => undefined) });
  }

  // ------------------------------------------------------------------------------------------------- control

  get #wishFile(): string {
    return `${this.#plan.files.control}/wish-${this.#args.attempt}.json`;
  }

  /** What was wanted of the worker when the last proxy heard of it, which holds while the daemon is away. */
  #kept(): Kept {
    let kept: Partial<Kept> = {};
    try {
      kept = JSON.parse(readRecordInProxy(this.#wishFile) ?? "{}");
    } catch {
      // Nothing that can be read was kept.
    }
    const { paused, maxRateHz, pausedBy } = kept;
    return {
      paused: paused === true,
      maxRateHz: typeof maxRateHz === "number" ? maxRateHz : 0,
      pausedBy: pausedBy === "message" || pausedBy === "signal" ? pausedBy : "",
    };
  }

  #keep(kept: Kept): void {
    try {
      if (!kept.paused && kept.maxRateHz === 0 && kept.pausedBy === "") removeIfThere(this.#wishFile);
      else writeRecord(this.#wishFile, JSON.stringify(kept));
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, "what is wanted of the worker cannot be kept for another proxy");
    }
  }

  #want(wish: Wish): void {
    const before = this.#control.wish;
    if (before.paused === wish.paused && before.maxRateHz === wish.maxRateHz) return;
    this.#log.info({ paused: wish.paused, max_rate_hz: wish.maxRateHz }, "control");
    this.#control.want(wish);
  }

  /** Whether the worker is to be held: too much undelivered, or the last of the disk. */
  #lookAround(): void {
    if (this.#ending !== undefined || this.#groupEnd !== undefined) return;
    try {
      this.#lookAtBacklog();
      this.#lookAtRoom();
    } catch (error) {
      if (!isShortage(error)) throw error;
      // No descriptor to look with: the next look.
    }
  }

  /**
   * The daemon has looked just before the start; and asking loads a module of Node's, which takes as long as all the rest of
   * the start. So a worker that writes little is first looked after when others that start with it have started.
   */
  #lookAtRoom(): void {
    if (performance.now() < this.#firstRoomLook && this.#journal.size() < ROOM_LOOK_BYTES) return;
    const { logs } = this.#plan.files;
    const room = this.#room.look(logs, this.#diskHeld);
    if (room.enough !== this.#diskHeld) return;
    this.#diskHeld = !room.enough;
    this.#log.warn(
      this.#diskHeld ? `worker held: it waits for ${roomText(logs, room)}` : "worker goes on: there is room",
    );
    this.#control.hold("disk", this.#diskHeld);
  }

  #lookAtBacklog(): void {
    const { start, files } = this.#plan;
    const backlog = this.#journal.size() - this.#acknowledged;
    const asked = this.#args.maxBacklogBytes ?? start.maxBacklogBytes;
    if (!asked && !this.#backlogHeld && backlog < LEAST_BACKLOG_BYTES) return;
    this.#backlogLimit ??= backlogLimit(asked, files.logs);
    const over = isOverBacklog(this.#backlogHeld, backlog, this.#backlogLimit);
    if (over === this.#backlogHeld) return;
    this.#backlogHeld = over;
    this.#log.warn(
      { backlog, limit: this.#backlogLimit },
      over ? "worker held: too much undelivered" : "worker goes on",
    );
    this.#control.hold("backlog", over);
  }

  /** Ends the worker's group. A second request may only shorten the grace period. */
  #stop(graceSeconds: number, who: string): void {
    this.#control.end();
    if (this.#groupEnd !== undefined) return this.#groupEnd.shorten(graceSeconds);
    if (this.#worker.leader === undefined) return;
    this.#log.info({ grace_s: graceSeconds, by: who }, "worker is stopped");
    this.#groupEnd = new GroupEnd(this.#worker.leader, graceSeconds);
    this.#groupLeft = this.#groupEnd.done.catch((error) => {
      this.#log.error({ error: messageOf(error) }, "the worker's group cannot be ended, and is not waited for");
    }).then(() => {
      this.#groupEnded = true;
      this.#wake.notify();
    });
  }

  #listenToSignals(): () => void {
    const stop = () => {
      this.#signalled = true;
      if (this.#serving) this.#endBySignal();
    };
    // The terminal that went away is not the run's.
    const handlers = { SIGTERM: stop, SIGINT: stop, SIGQUIT: stop, SIGHUP: () => {} };
    const each = Object.entries(handlers) as [Deno.Signal, () => void][];
    for (const [signal, handler] of each) Deno.addSignalListener(signal, handler);
    return () => {
      for (const [signal, handler] of each) Deno.removeSignalListener(signal, handler);
    };
  }

  #endBySignal(): void {
    this.#stop(GRACE_S, "a signal");
    this.#leave();
  }

  /** Goes when the worker has, with what could be delivered by then. */
  async #leave(): Promise<void> {
    if (this.#leaving) return;
    this.#leaving = true;
    await this.#worker.ended;
    await this.#groupLeft;
    await sleep(LEAVE_MS);
    this.#delivery.giveUp();
  }

  // ------------------------------------------------------------------------------------------------- the end

  #hasEnded(ending: Ending): void {
    // What grandchildren still write is not the worker's.
    this.#journal.endAt(this.#journal.size());
    this.#stderrTail = lastLines(this.#plan.files.stderr(this.#args.attempt), STDERR_LINES);
    this.#ending = ending;
    this.#control.end();
    const { exit } = ending;
    this.#log.info({ code: exit?.code, signal: exit?.signal, lost: exit === undefined }, "worker has ended");
    this.#wake.notify();
  }

  /** The exit to report; undefined while the worker lives, or the rest of a group that is being stopped. */
  #exit() {
    if (this.#ending === undefined || (this.#groupEnd !== undefined && !this.#groupEnded)) return undefined;
    const { exit } = this.#ending;
    return {
      ...(exit === undefined || exit.code === null ? {} : { code: exit.code }),
      signal: exit?.signal ?? "",
      lost: exit === undefined,
      stderrTail: this.#stderrTail,
      spawnError: exit?.spawnError ?? "",
    };
  }

  #status(): number {
    const exit = this.#ending?.exit;
    return exit === undefined ? PROXY_EXIT.lost : statusOf(exit);
  }

  /** The daemon takes nothing more. If the worker has ended, its exit is simply known already. */
  async #refused(reason: string): Promise<number> {
    if (this.#ending !== undefined) {
      this.#log.info({ reason }, "the daemon has settled the attempt already");
      return this.#status();
    }
    this.#log.error({ reason }, "the run is over; its worker is stopped");
    this.#stop(GRACE_S, "the run's end");
    await Promise.race([this.#groupLeft, this.#worker.ended.then(() => this.#groupLeft)]);
    return PROXY_EXIT.refused;
  }
}
