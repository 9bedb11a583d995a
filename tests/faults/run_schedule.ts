/** Carries out one schedule with real processes and tells everything that was wrong afterwards. */
import type {
  DescMessage,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import { connect, type MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic, type Run } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { messageOf, MosaicError } from "../../src/base/errors.ts";
import { BASE_DIRS, RunFiles } from "../../src/base/layout.ts";
import { packedPath } from "../../src/journal/packed_log.ts";
import { infoIfThere, readTextIfThere, removeIfThere } from "../../src/os/files/files.ts";
import { processRef } from "../../src/os/processes/identity.ts";
import { signalGroup, signalProcess } from "../../src/os/processes/signals.ts";
import { repair } from "../../src/state/doctor/doctor.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { processesOf } from "../harness/processes.ts";
import { until } from "../harness/wait.ts";
import { type SmallDisk, Stage } from "../system/machine/small_disk.ts";
import { check, checkLog, checkSeen, type StoredRecord } from "./check.ts";
import { Relay } from "./relay.ts";
import { type Fault, type RunPlan, type Schedule, scheduleOf } from "./schedule.ts";

const WORKER = new URL("worker.ts", import.meta.url).pathname;
const ENDED = new Set(["FAULTED", "TERMINATED", "CANCELLED"]);
/** A log that is packed, and so thinned, has 256 KiB or more. */
const LEAST_THINNED = 300 << 10;
/** Long, because a busy machine is no defect. */
const STUCK_MS = 180_000;

export interface Verdict {
  seed: number;
  findings: string[];
  /** What the daemon and the proxies logged, when something was found. */
  evidence: string;
}

interface RunUnderTest {
  plan: RunPlan;
  seed: number;
  runId: string;
  ledger: string;
  killed: boolean;
  cancelled: boolean;
  emptied: boolean;
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Errors of a daemon that is away, stopped or cut off. */
function passing(error: unknown): boolean {
  return error instanceof MosaicError &&
    ["unavailable", "deadline_exceeded", "aborted"].includes(error.code);
}

async function patiently<I extends DescMessage, O extends DescMessage>(
  client: MosaicClient,
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
): Promise<MessageShape<O>> {
  const deadline = performance.now() + STUCK_MS;
  for (;;) {
    try {
      return await client.unary(method, request);
    } catch (error) {
      if (!passing(error) || performance.now() > deadline) throw error;
      await pause(50);
    }
  }
}

/** Follows a stream over any number of connections; `seen` gets the seqs. */
async function subscribe<I extends DescMessage, O extends DescMessage>(
  client: MosaicClient,
  method: DescMethodServerStreaming<I, O>,
  requestSince: (seq: bigint) => MessageInitShape<I>,
  seqsOf: (message: MessageShape<O>) => number[],
  seen: number[],
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      for await (
        const message of client.stream(method, requestSince(BigInt(seen.at(-1) ?? 0)), signal)
      ) {
        seen.push(...seqsOf(message));
      }
      return;
    } catch (error) {
      if (!passing(error)) throw error;
      await pause(50);
    }
  }
}

export async function runSchedule(seed: number): Promise<Verdict> {
  const schedule = scheduleOf(seed);
  using stage = new Stage();
  const disk = stage.diskIfAllowed(`${stage.stateDir}/telemetry`, "64m");
  const daemon = await TestDaemon.start({
    gpus: "2",
    args: ["--grace", "2"],
    stateDir: stage.stateDir,
  });
  const client = connect({ target: daemon.target });
  const relay = new Relay(daemon.address);
  const stopSubscribers = new AbortController();
  const findings: string[] = [];
  let evidence = "";
  try {
    const runs = await submitAll(client, daemon, relay, schedule);
    const seen = runs.map(() => [] as number[]);
    const seenOriginal: number[] = [];
    const subscribers = runs.map((run, i) =>
      subscribe(
        client,
        Mosaic.method.streamTelemetry,
        (sinceSeq) => ({ run: run.runId, kind: "steps", sinceSeq, follow: true }),
        (batch) => jsonLines(batch.jsonl).map((record) => record.seq),
        seen[i]!,
        stopSubscribers.signal,
      )
    );
    const original = subscribe(
      client,
      TrainerService.method.streamRunSteps,
      (sinceSeq) => ({ runId: runs[0]!.runId, sinceSeq }),
      (step) => [Number(step.seqId)],
      seenOriginal,
      stopSubscribers.signal,
    );
    original.catch(() => {});
    for (const { afterMs, fault } of schedule.faults) {
      await pause(afterMs);
      await inflict(fault, runs, client, daemon, relay, disk);
    }
    for (const [i, run] of runs.entries()) {
      const ended = await until(async () => {
        const now = await patiently(client, Mosaic.method.getRun, { run: run.runId });
        return ENDED.has(now.state) ? now : undefined;
      }, {
        what: `run ${i} to end`,
        timeoutMs: STUCK_MS,
        state: () => lastState(client, run.runId),
      });
      const complete = natural(ended, run.plan);
      if (!complete && !run.killed && !run.cancelled) {
        findings.push(
          `run ${i}: ended ${ended.state} (${ended.reason}), its worker with code ${run.plan.exitCode}`,
        );
      }
      const stored = {
        steps: await readAll(client, run.runId, "steps"),
        episodes: await readAll(client, run.runId, "episodes"),
        losses: (await readAll(client, run.runId, "events")).filter(({ event }) =>
          event === "journal_lost"
        ).length,
      };
      const atLeast = Number(readTextIfThere(run.ledger) ?? 0);
      const { lines, form } = run.plan;
      // What the child of an outlived worker prints ends somewhere.
      const isWhole = complete && run.plan.outlived !== true;
      const printed = {
        seed: run.seed,
        lines,
        atLeast,
        complete: isWhole,
        emptied: run.emptied,
        form,
      };
      findings.push(
        ...check(printed, stored).map((finding) =>
          `run ${i}: ${finding}`
        ),
      );
      await withinReason(
        subscribers[i]!,
        `run ${i}: the subscriber's stream did not end`,
        findings,
      );
      findings.push(...checkSeen(`run ${i}: subscriber`, seen[i]!, stored.steps.length));
      if (i === 0) {
        await until(() => seenOriginal.length >= stored.steps.length, {
          what: "the original's subscriber",
        })
          .catch((error) => findings.push(messageOf(error)));
        findings.push(...checkSeen("original's subscriber", seenOriginal, stored.steps.length));
      }
    }
    await until(() => processesOf(daemon.stateDir).every((p) => p.pid === daemon.pid), {
      what: "processes to be gone",
    })
      .catch(() =>
        findings.push(
          `left running: ${
            processesOf(daemon.stateDir).filter((p) => p.pid !== daemon.pid).map((p) =>
              p.command.slice(0, 200)
            )
              .join("; ")
          }`,
        )
      );
    if (schedule.thinCutAfterMs !== undefined) {
      findings.push(...await cutWhileThinning(runs[0]!, schedule.thinCutAfterMs, client, daemon));
    }
    if (schedule.deleteKilledAfterMs !== undefined) {
      await deleteKilled(runs.at(-1)!.runId, schedule.deleteKilledAfterMs, client, daemon);
    }
    const host = await patiently(client, Mosaic.method.getHost, {});
    for (const gpu of host.gpus) {
      if (gpu.runId !== "") findings.push(`GPU ${gpu.slot} is still held by ${gpu.runId}`);
    }
  } catch (error) {
    findings.push(error instanceof Error ? error.stack ?? error.message : String(error));
  } finally {
    stopSubscribers.abort();
    client.close();
    await relay[Symbol.asyncDispose]();
    if (findings.length > 0) evidence = gather(daemon);
    await daemon[Symbol.asyncDispose]();
  }
  return { seed, findings, evidence };
}

async function submitAll(
  client: MosaicClient,
  daemon: TestDaemon,
  relay: Relay,
  schedule: Schedule,
): Promise<RunUnderTest[]> {
  Deno.mkdirSync(`${daemon.stateDir}/ledgers`);
  const runs: RunUnderTest[] = [];
  for (const [i, plan] of schedule.runs.entries()) {
    const seed = schedule.seed * 10 + i;
    const ledger = `${daemon.stateDir}/ledgers/${i}`;
    const args = [
      "run",
      "-A",
      "--no-check",
      WORKER,
      seed,
      plan.lines,
      ledger,
      plan.exitCode,
      plan.pauseMs,
      plan.form,
      1,
      plan.outlived ? Math.ceil(plan.lines / 2) : 0,
    ]
      .map(String);
    const configJson = configOf({
      command: [],
      gpus: { requested: i === 0 ? 1 : 0, mandatory: true },
      metadata: {
        worker: {
          script: Deno.execPath(),
          arguments: args,
          use_grpc: false,
          grpc_target: relay.address,
        },
      },
    });
    const { runId } = await client.unary(TrainerService.method.submitRun, { configJson });
    runs.push({ plan, seed, runId, ledger, killed: false, cancelled: false, emptied: false });
  }
  return runs;
}

async function stopFor(ms: number, signal: (signal: "SIGSTOP" | "SIGCONT") => void): Promise<void> {
  signal("SIGSTOP");
  await pause(ms);
  signal("SIGCONT");
}

async function inflict(
  fault: Fault,
  runs: RunUnderTest[],
  client: MosaicClient,
  daemon: TestDaemon,
  relay: Relay,
  disk: SmallDisk | undefined,
): Promise<void> {
  const detail = (run: number) =>
    patiently(client, Mosaic.method.getRun, { run: runs[run]!.runId });
  const started = (run: number) =>
    until(async () => {
      const now = await detail(run);
      return now.workerPid > 0 || ENDED.has(now.state) ? now : undefined;
    }, { what: `run ${run} to start`, timeoutMs: STUCK_MS });
  const killProxy = async (run: number) => {
    const process = processRef(Number((await detail(run)).proxyPid));
    if (process !== undefined) signalProcess(process, "SIGKILL");
  };
  switch (fault.type) {
    case "kill-daemon":
      await daemon.kill9();
      await pause(fault.downMs);
      return await daemon.restart();
    case "restart-daemon":
      await daemon.stop();
      await pause(fault.downMs);
      return await daemon.restart();
    case "stop-daemon": {
      const process = processRef(daemon.pid)!;
      return await stopFor(fault.forMs, (signal) => signalProcess(process, signal));
    }
    case "kill-proxy":
    case "stop-proxy": {
      const process = processRef(Number((await detail(fault.run)).proxyPid));
      if (process === undefined) return;
      if (fault.type === "kill-proxy") return void signalProcess(process, "SIGKILL");
      return await stopFor(fault.forMs, (signal) => signalProcess(process, signal));
    }
    case "kill-worker":
    case "stop-worker": {
      const leader = processRef(Number((await detail(fault.run)).workerPid));
      if (leader === undefined) return;
      if (fault.type === "kill-worker") {
        runs[fault.run]!.killed = true;
        return void signalGroup(leader, "SIGKILL");
      }
      return await stopFor(fault.forMs, (signal) => signalGroup(leader, signal));
    }
    case "empty-journal": {
      const run = runs[fault.run]!;
      const now = await started(fault.run);
      await pause(fault.afterStartMs);
      if (processRef(Number(now.workerPid)) === undefined) return;
      const { logs, journal } = journalOf(daemon, run.runId);
      try {
        Deno.truncateSync(`${logs}/${journal}`);
        run.emptied = true;
      } catch (error) {
        if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
      }
      return;
    }
    case "rename-journal": {
      const now = await started(fault.run);
      await pause(fault.afterStartMs);
      if (processRef(Number(now.workerPid)) === undefined) return;
      const { logs, journal } = journalOf(daemon, runs[fault.run]!.runId);
      Deno.renameSync(`${logs}/${journal}`, `${logs}/${journal}.1`);
      return await killProxy(fault.run);
    }
    case "remove-place": {
      const { lockFile, daemonJson } = daemon.layout;
      for (const path of [lockFile, daemonJson, daemon.target.replace(/^unix:/, "")]) {
        removeIfThere(path);
      }
      return await killProxy(fault.run);
    }
    case "fill-disk":
      disk?.fill();
      await pause(fault.forMs);
      disk?.free();
      return;
    case "squat": {
      await daemon.kill9();
      const told = await squat([daemon.address, daemon.http], fault.forMs);
      await daemon.restart();
      if (/authorization|bearer/i.test(told)) {
        throw new Error(`a squatter was told a token: ${told.slice(0, 500)}`);
      }
      return;
    }
    case "damage-page": {
      await daemon.stop();
      damagePage(daemon.layout.telemetryDb, fault.share);
      repairAll(daemon.stateDir);
      return await daemon.restart();
    }
    case "flip-bit": {
      await daemon.stop();
      flipBit(daemon.layout.telemetryDb, fault.share, fault.bit);
      repairAll(daemon.stateDir);
      return await daemon.restart();
    }
    case "cut-power":
      return await cutPower(daemon, fault.downMs);
    case "cut-connections":
      return relay.cut();
    case "cancel":
      runs[fault.run]!.cancelled = true;
      await patiently(client, Mosaic.method.cancelRun, { run: runs[fault.run]!.runId });
  }
}

function journalOf(daemon: TestDaemon, runId: string): { logs: string; journal: string } {
  const directory = BASE_DIRS.map((base) => daemon.layout.runDir(base, runId)).find(isDirectory);
  const logs = `${directory}/logs`;
  return {
    logs,
    journal: [...Deno.readDirSync(logs)].find(({ name }) => name.endsWith(".stdout.log"))!.name,
  };
}

function repairAll(stateDir: string): void {
  const { repaired, remaining } = repair(stateDir);
  const left = remaining.filter(({ severity }) => severity === "error");
  if (left.length > 0) {
    throw new Error(`doctor --repair left: ${JSON.stringify({ repaired, left })}`);
  }
}

/** Listens where the daemon did. @returns all that was sent there */
async function squat(addresses: string[], forMs: number): Promise<string> {
  let told = "";
  const listeners = addresses.flatMap((address) => {
    const [hostname, port] = address.split(":");
    try {
      return [Deno.listen({ hostname, port: Number(port) })];
    } catch (error) {
      // Another process of the host has taken the port meanwhile, and so squats it already.
      if (error instanceof Deno.errors.AddrInUse) return [];
      throw error;
    }
  });
  const ends = listeners.map(async (listener) => {
    for await (const connection of listener) {
      const read = async () => {
        for await (const bytes of connection.readable) {
          told += new TextDecoder("latin1").decode(bytes);
        }
      };
      read().catch(() => {});
    }
  });
  await pause(forMs);
  for (const listener of listeners) listener.close();
  await Promise.all(ends);
  return told;
}

function damagePage(path: string, share: number): void {
  const PAGE_BYTES = 4096;
  using file = Deno.openSync(path, { read: true, write: true });
  const pages = Math.floor(file.statSync().size / PAGE_BYTES);
  if (pages === 0) return;
  file.seekSync(Math.floor(share * pages) * PAGE_BYTES, Deno.SeekMode.Start);
  file.writeSync(new Uint8Array(PAGE_BYTES).fill(0x5a));
}

function flipBit(path: string, share: number, bit: number): void {
  using file = Deno.openSync(path, { read: true, write: true });
  const at = Math.floor(share * file.statSync().size);
  const byte = new Uint8Array(1);
  file.seekSync(at, Deno.SeekMode.Start);
  if (file.readSync(byte) !== 1) return;
  byte[0]! ^= 1 << bit;
  file.seekSync(at, Deno.SeekMode.Start);
  file.writeSync(byte);
}

async function cutPower(daemon: TestDaemon, downMs: number): Promise<void> {
  await daemon.kill9();
  for (const end of ["-wal", "-shm"]) removeIfThere(`${daemon.layout.telemetryDb}${end}`);
  repairAll(daemon.stateDir);
  await pause(downMs);
  await daemon.restart();
}

/**
 * Power failures while a log is thinned and after it, which cost neither a step nor a line.
 * @returns what was wrong
 */
async function cutWhileThinning(
  { runId, plan, seed, ledger }: RunUnderTest,
  afterMs: number,
  client: MosaicClient,
  daemon: TestDaemon,
): Promise<string[]> {
  const ended = await patiently(client, Mosaic.method.getRun, { run: runId });
  const { lines, form } = plan;
  const atLeast = Number(readTextIfThere(ledger) ?? 0);
  const printed = { seed, lines, atLeast, complete: natural(ended, plan), form };
  const findings: string[] = [];
  const look = async (when: string) => {
    const stored = {
      steps: await readAll(client, runId, "steps"),
      episodes: await readAll(client, runId, "episodes"),
    };
    const wrong = [...check(printed, stored), ...checkLog(printed, await readLog(client, runId))];
    findings.push(...wrong.map((finding) => `thinned run, ${when}: ${finding}`));
  };
  await pause(afterMs);
  await cutPower(daemon, 0);
  await look("after a power failure");
  const directory = BASE_DIRS.map((base) => daemon.layout.runDir(base, runId)).find(isDirectory);
  const packed = packedPath(new RunFiles(directory!, "").stdout(1));
  const text = (await readLog(client, runId)).length;
  // A worker that was ended early may have left too little.
  if (text < LEAST_THINNED) return findings;
  await until(() => (infoIfThere(packed)?.size ?? Infinity) < text / 10, {
    what: `${packed} to be thin`,
    timeoutMs: STUCK_MS,
  });
  await cutPower(daemon, 0);
  await look("after a power failure behind it");
  return findings;
}

async function readLog(client: MosaicClient, run: string): Promise<string> {
  for (;;) {
    const decoder = new TextDecoder();
    let text = "";
    try {
      for await (const chunk of client.stream(Mosaic.method.streamLogs, { run })) {
        text += decoder.decode(chunk.text, { stream: true });
      }
      return text;
    } catch (error) {
      if (!passing(error)) throw error;
      await pause(50);
    }
  }
}

/**
 * The daemon is killed in the middle of it; the deletion is finished all the same, and asking again
 * is no error before.
 */
async function deleteKilled(
  run: string,
  afterMs: number,
  client: MosaicClient,
  daemon: TestDaemon,
): Promise<void> {
  const asked = client.unary(Mosaic.method.deleteRun, { run, forever: true }).catch(() => {});
  await pause(afterMs);
  await daemon.kill9();
  await asked;
  const hasFiles = () => BASE_DIRS.some((base) => isDirectory(daemon.layout.runDir(base, run)));
  const hadBegun = !hasFiles();
  await daemon.restart();
  await until(async () => {
    try {
      await patiently(client, Mosaic.method.getRun, { run });
    } catch (error) {
      if (error instanceof MosaicError && error.code === "not_found") return true;
      throw error;
    }
    // Nothing had begun: then it is asked for again.
    if (!hadBegun) {
      await client.unary(Mosaic.method.deleteRun, { run, forever: true }).catch(() => {});
    }
    return false;
  }, { what: "the deletion to be finished" });
  if (hasFiles()) throw new Error("a deleted run has left its files");
}

function isDirectory(path: string): boolean {
  return infoIfThere(path)?.isDirectory === true;
}

/** Whether the run ended as its worker was to end by itself. */
function natural(run: Run, plan: RunPlan): boolean {
  return plan.exitCode === 0
    ? run.state === "TERMINATED"
    : run.state === "FAULTED" && run.reason === `exit_code_${plan.exitCode}`;
}

async function readAll(client: MosaicClient, run: string, kind: string): Promise<StoredRecord[]> {
  for (;;) {
    const records: StoredRecord[] = [];
    try {
      for await (const batch of client.stream(Mosaic.method.streamTelemetry, { run, kind })) {
        records.push(...jsonLines(batch.jsonl));
      }
      return records;
    } catch (error) {
      if (!passing(error)) throw error;
      await pause(50);
    }
  }
}

function jsonLines(bytes: Uint8Array): StoredRecord[] {
  return new TextDecoder().decode(bytes).split("\n").filter((line) => line !== "").map((line) =>
    JSON.parse(line)
  );
}

async function withinReason(
  work: Promise<void>,
  finding: string,
  findings: string[],
): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) => timer = setTimeout(() => resolve("late"), 60_000));
  const result = await Promise.race([work.then(() => "done", (error) => messageOf(error)), late]);
  clearTimeout(timer);
  if (result !== "done") findings.push(`${finding} (${result})`);
}

async function lastState(client: MosaicClient, run: string): Promise<string> {
  const now = await client.unary(Mosaic.method.getRun, { run }).catch(() => undefined);
  return now === undefined
    ? "unknown: the daemon does not answer"
    : `${now.state} ${now.reason} ${now.waitingFor}`;
}

function gather(daemon: TestDaemon): string {
  const parts = [`daemon:\n${daemon.output().slice(-6000)}`];
  for (const entry of Deno.readDirSync(`${daemon.layout.trainer}/runs`)) {
    const log = readTextIfThere(`${daemon.layout.trainer}/runs/${entry.name}/logs/proxy.log`);
    if (log !== undefined) parts.push(`proxy of ${entry.name}:\n${log.slice(-3000)}`);
  }
  return parts.join("\n");
}
