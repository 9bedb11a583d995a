/**
 * A terminal and a daemon for tests of the verbs: what is written is kept, what is asked is
 * answered from a table.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { DaemonApi } from "../../src/wire/client/daemon_api.ts";
import type { Context } from "../../src/cli/link/context.ts";
import { fileOutput, moveSequence, type Output } from "../../src/cli/link/output.ts";
import { type Run, RunSchema } from "../../src/gen/mosaic/v1/mosaic_pb.ts";

export const NOW = Date.parse("2025-11-22T14:00:00Z");
export const ID_A = "01K9ABCDEFGHJKMNPQRSTVWXYZ";
export const ID_B = "01K9ZZZZZZGHJKMNPQRSTVWXYZ";

/**
 * Handlers by method name: a message's fields (or a promise of them), or for streams an iterable of
 * messages.
 */
// deno-lint-ignore no-explicit-any -- each handler knows its own method's messages
export type Answers = Record<string, (request: any, signal?: AbortSignal) => unknown>;

export interface FakeWorld extends Context {
  stdout(): string;
  stderr(): string;
  /** As Ctrl-C does. */
  interrupt(): void;
  connections: number;
}

export function fakeApi(answers: Answers): DaemonApi {
  const handler = (name: string) => {
    const found = answers[name];
    if (found === undefined) throw new Error(`the test's daemon does not know ${name}`);
    return found;
  };
  return {
    async unary(method, request, options) {
      return create(method.output, await handler(method.name)(request, options?.signal) as never);
    },
    async *stream(method, request, signal) {
      const items = handler(method.name)(request, signal) as AsyncIterable<never> | Iterable<never>;
      for await (const item of items) yield create(method.output, item);
    },
    close() {},
  };
}

function outputTo(take: (text: string) => void): Output {
  const decoder = new TextDecoder();
  return {
    write: take,
    writeBytes: (b) => take(decoder.decode(b)),
    move: (to) => take(moveSequence(to)),
  };
}

/** An output on a terminal, and what has reached that. */
export function fakeTerminalOutput(): { output: Output; shown(): string } {
  const bytes: number[] = [];
  const file = {
    writeSync: (p: Uint8Array) => bytes.push(...p) && p.length,
    isTerminal: () => true,
  };
  return { output: fileOutput(file), shown: () => new TextDecoder().decode(new Uint8Array(bytes)) };
}

export function fakeWorld(answers: Answers = {}, overrides: Partial<Context> = {}): FakeWorld {
  let [stdout, stderr] = ["", ""];
  const handlers = new Set<() => void>();
  const world: FakeWorld = {
    out: outputTo((text) => stdout += text),
    err: outputTo((text) => stderr += text),
    terminal: { isTty: false, width: 80, height: 24, color: false },
    errIsTty: false,
    takeTerminal: () => Promise.reject(new Error("the test has no terminal to take")),
    connect: () => {
      world.connections++;
      return Promise.resolve(fakeApi(answers));
    },
    canAsk: false,
    inputLines: () => {
      throw new Error("the test has no lines of standard input");
    },
    ask: () => Promise.reject(new Error("the test answers no question")),
    runSelf: () => Promise.reject(new Error("the test starts no program")),
    runHere: () => Promise.reject(new Error("the test starts no program")),
    runScript: () => Promise.resolve({ code: 0, signal: null, stdout: "", stderr: "" }),
    readInput: () => Promise.resolve(""),
    onInterrupt(handler) {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
    env: () => undefined,
    variables: () => ({}),
    now: () => NOW,
    stdout: () => stdout,
    stderr: () => stderr,
    interrupt: () => handlers.forEach((h) => h()),
    connections: 0,
    ...overrides,
  };
  return world;
}

/** A run that trains; `fields` change it. */
export function fakeRun(fields: MessageInitShape<typeof RunSchema> = {}): Run {
  return create(RunSchema, {
    runId: ID_A,
    name: "cart-1",
    state: "EXECUTING",
    attempt: 1,
    maxAttempts: 1,
    gpusRequested: 2,
    gpuSlots: [0, 1],
    tags: ["sweep"],
    digest: "ab".repeat(32),
    submittedAt: timestampFromMs(NOW - 200_000),
    updatedAt: timestampFromMs(NOW - 100_000),
    baseDir: "runs",
    startedAt: timestampFromMs(NOW - 187_000),
    lastHeartbeat: timestampFromMs(NOW - 4000),
    directory: "/state/trainer/runs/R",
    workerId: "worker",
    workerPid: 4242n,
    proxyPid: 4241n,
    maxSteps: 10_000n,
    telemetry: {
      steps: 6200n,
      episodes: 80n,
      events: 3n,
      otherLines: 2n,
      malformedLines: 1n,
      violations: { "step: reward": 4n },
      journalPosition: 900n,
      journalSize: 1000n,
      meanReward100: 77.5,
      stepsPerSecond: 20,
      lastRecordAt: timestampFromMs(NOW - 1000),
    },
    capabilities: {
      workerKind: "telemetry_proxy",
      protoVersion: "MOSAIC/1.0",
      schemaId: "jsonl.telemetry",
      schemaVersion: 1,
      supportsPause: true,
      supportsCheckpoint: false,
    },
    ...fields,
  } as MessageInitShape<typeof RunSchema>);
}
