/**
 * The worker of one attempt: started, or attached to after another proxy's end; and how it ended.
 * Three files show the state, in this order: the exit record (it has ended), the worker file (it
 * was started; it is alive if its wrapper is), neither (nothing was started).
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { RunFiles } from "../../base/layout.ts";
import { isAlive, type ProcessRef } from "../../os/processes/identity.ts";
import { groupAlive } from "../../os/processes/signals.ts";
import type { Confinement } from "../../os/rights/crossing.ts";
import { kindOf } from "../../os/files/file_kinds.ts";
import { readRecordInProxy } from "../../os/files/untrusted.ts";
import { makeFifo, openForAppending, quarantineFile } from "../../os/files/untrusted_changes.ts";
import { createJournal, type JournalOrigin } from "../../journal/journal_file.ts";
import { readExit, readUnfinishedExit, type WorkerExit, writeExit } from "../state/exit_record.ts";
import { findProgram } from "./program.ts";
import { retryOnShortage } from "../state/retry_on_shortage.ts";
import type { Logger } from "../../base/log.ts";
import { ALREADY_STARTED, NO_SPACE, spawnWrapper } from "./wrapper.ts";
import { sleep } from "../../base/time/sleep.ts";
import { type WorkerRecord, workerRecordIn } from "../../journal/worker_record.ts";

/** How an attempt's worker ended; `exit` is undefined when it is lost (gone without a record). */
export interface Ending {
  exit: WorkerExit | undefined;
}

export interface Worker {
  /** The wrapper, which leads the worker's group; undefined if no process is left to signal. */
  leader: ProcessRef | undefined;
  ended: Promise<Ending>;
}

export interface WorkerStart extends Confinement {
  argv: string[];
  env: Record<string, string>;
  cwd: string;
  /** Give the worker a FIFO for control messages. */
  controlled: boolean;
  /** The worker's cgroup. */
  cgroup: string | undefined;
  /** Octal; "": unchanged. */
  umask: string;
}

const POLL_MS = 100;
const WRAPPER_END_MS = 1000;
/** Time for a killed group to end. */
const GROUP_END_MS = 5000;
/** A worker file is written in one go; if it stays unreadable this long, it was torn by a crash. */
const TORN_MS = 5000;

function workerRef(files: RunFiles, attempt: number): ProcessRef | undefined {
  return startOf(files, attempt)?.leader;
}

/** The worker's output file; undefined while none was started. */
export function journalOrigin(files: RunFiles, attempt: number): JournalOrigin | undefined {
  const start = startOf(files, attempt);
  return start && { inode: start.journal, group: start.leader.pid, startedAt: start.startedAt };
}

/**
 * What the wrapper has recorded; undefined while there is no complete record. @throws if it cannot
 * be read.
 */
function startOf(files: RunFiles, attempt: number): WorkerRecord | undefined {
  return workerRecordIn(readRecordInProxy(files.workerFile(attempt)));
}

/** Whether a worker was ever started for the attempt, or failed to start. */
export function wasStarted(files: RunFiles, attempt: number): boolean {
  return readRecordInProxy(files.workerFile(attempt)) !== undefined ||
    readExit(files, attempt) !== undefined;
}

/** Attaches to what an earlier proxy has started. */
export async function attachWorker(files: RunFiles, attempt: number): Promise<Worker> {
  const before = readExit(files, attempt);
  if (before !== undefined) {
    const leader = workerRef(files, attempt);
    return {
      leader,
      ended: leader === undefined ? Promise.resolve({ exit: before }) : ending(leader, before),
    };
  }
  const torn = performance.now() + TORN_MS;
  let leader = workerRef(files, attempt);
  while (leader === undefined && wasStarted(files, attempt) && performance.now() < torn) {
    await sleep(POLL_MS);
    leader = workerRef(files, attempt);
  }
  if (leader === undefined) {
    return { leader, ended: Promise.resolve({ exit: readExit(files, attempt) }) };
  }
  return { leader, ended: watch(files, attempt, leader) };
}

/**
 * The wrapper ends a moment after it has written the record; until then it would count as left by
 * the worker.
 */
async function ending(wrapper: ProcessRef, exit: WorkerExit): Promise<Ending> {
  const deadline = performance.now() + WRAPPER_END_MS;
  while (await retryOnShortage(() => isAlive(wrapper)) && performance.now() < deadline) {
    await sleep(POLL_MS / 10);
  }
  return { exit };
}

async function watch(files: RunFiles, attempt: number, leader: ProcessRef): Promise<Ending> {
  while (await retryOnShortage(() => isAlive(leader))) {
    const exit = await retryOnShortage(() => readExit(files, attempt));
    if (exit !== undefined) return await ending(leader, exit);
    await sleep(POLL_MS);
  }
  // The record may have been written between the two reads.
  const exit = await retryOnShortage(() =>
    readExit(files, attempt) ?? readUnfinishedExit(files, attempt)
  );
  if (exit !== undefined) return { exit };
  // Only the wrapper was killed: the worker continues, and its exit will be unknown.
  while (await retryOnShortage(() => groupAlive(leader))) await sleep(POLL_MS);
  return { exit: undefined };
}

/**
 * Starts the attempt's worker, or attaches to one that was started before. A program that cannot be
 * executed gives an exit with a spawn error, recorded like any other.
 * @throws when no process can be created now.
 */
export async function startWorker(
  files: RunFiles,
  attempt: number,
  start: WorkerStart,
  log: Logger,
): Promise<Worker> {
  if (wasStarted(files, attempt)) return await attachWorker(files, attempt);
  const [name = "", ...words] = start.argv;
  // The sandbox has files of its own in some places.
  const program = start.sandbox.length > 0
    ? { path: name }
    : findProgram(name, start.cwd, start.env.PATH, start.user);
  const cannot = (code: number, spawnError: string, searched?: string): Worker => {
    const exit: WorkerExit = { code, signal: "", endedAt: new Date().toISOString(), spawnError };
    writeExit(files, attempt, exit);
    log.error(
      { error: spawnError, ...(searched === undefined ? {} : { path: searched }) },
      "worker cannot be started",
    );
    return { leader: undefined, ended: Promise.resolve({ exit }) };
  };
  if (kindOf(start.cwd, start.user) !== "directory") {
    return cannot(126, `the working directory ${start.cwd} is no directory`);
  }
  if ("error" in program) return cannot(program.code, program.error, program.searched);

  const stdin = start.controlled ? files.stdinFifo(attempt) : undefined;
  if (stdin !== undefined) makeFifo(stdin);
  createJournal(files.stdout(attempt), files.journalShift(attempt));
  openForAppending(files.stderr(attempt)).close();
  // Otherwise the wrapper would wait for the other end of a FIFO that a worker of an earlier
  // attempt has put there.
  const exit = files.exitFile(attempt);
  for (const path of [files.workerFile(attempt), exit, `${exit}.tmp`, `${exit}.said.tmp`]) {
    quarantineFile(path);
  }
  const child = await retryOnShortage(() =>
    spawnWrapper(files, attempt, {
      ...start,
      argv: [program.path, ...words],
      stdin,
    })
  );
  let left: Deno.CommandStatus | undefined;
  const status = child.status.then((s) => left = s);
  let leader: ProcessRef | undefined;
  while (
    (leader = await retryOnShortage(() => workerRef(files, attempt))) === undefined &&
    left === undefined
  ) {
    await sleep(5);
  }
  leader ??= await retryOnShortage(() => workerRef(files, attempt));
  if (left?.code === NO_SPACE && leader === undefined) {
    throw new MosaicError(
      "unavailable",
      `no space to start a worker: the files in ${files.control} cannot be written`,
    );
  }
  if (left?.code === ALREADY_STARTED && leader?.pid !== child.pid) {
    return await attachWorker(files, attempt);
  }
  log.info({ pid: child.pid, program: program.path }, "worker started");
  return { leader, ended: status.then((s) => endOf(files, attempt, leader, s, log)) };
}

/** The wrapper has ended and this process is its parent: it writes what the wrapper could not. */
async function endOf(
  files: RunFiles,
  attempt: number,
  leader: ProcessRef | undefined,
  status: Deno.CommandStatus,
  log: Logger,
): Promise<Ending> {
  const exit = await retryOnShortage(() => readExit(files, attempt));
  if (exit !== undefined) return { exit };
  if (leader !== undefined) {
    const alive = () => retryOnShortage(() => groupAlive(leader));
    const deadline = performance.now() + GROUP_END_MS;
    while (await alive() && performance.now() < deadline) await sleep(POLL_MS / 4);
    if (await alive()) {
      log.warn(
        { status },
        "the worker's wrapper has ended while the worker runs; its exit status will be unknown",
      );
      while (await alive()) await sleep(POLL_MS);
      return { exit: undefined };
    }
  }
  const unfinished = await retryOnShortage(() => readUnfinishedExit(files, attempt));
  const record: WorkerExit = unfinished ?? {
    code: status.signal === null ? status.code : null,
    signal: status.signal ?? "",
    endedAt: new Date().toISOString(),
    spawnError: "",
  };
  try {
    writeExit(files, attempt, record);
  } catch (error) {
    log.error({ error: messageOf(error) }, "the exit record cannot be written");
  }
  return { exit: record };
}
