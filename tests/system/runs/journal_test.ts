/** A run's journal is given back while it lives, and nothing of it is missing anywhere. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, records, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { RunFiles } from "../../../src/base/layout.ts";
import { proxyLockHeld } from "../../../src/dispatch/launch/local/attempt_files.ts";
import { examine, repair } from "../../../src/state/doctor/doctor.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { openLog, PackedLog, packedPath } from "../../../src/journal/packed_log.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";

const MIB = 1 << 20;
/** Steps of half a run, of some 900 bytes each: more than a round of packing, which is 8 MiB. */
const HALF = 12_000;
/** Enough for a journal of several chunks that is packed when its run has ended. */
const SMALL_HALF = 2000;

/** Two halves of steps, the second when it is told to, and text among them. */
const WORKER = `half() {
  awk -v from="$1" -v n="$2" -v more="$(printf '%0700d' 0)" 'BEGIN { for (i = from; i < from + n; i++) {
    printf "{\\"event_type\\":\\"step\\",\\"episode\\":%d,\\"step_index\\":%d,\\"reward\\":%.6f,\\"observation\\":[%.6f,%.6f,%.6f,%.6f],\\"note\\":\\"some more bytes, so that a round of packing is worth it: %d%s\\"}\\n", i / 500, i, i / 7, i / 3, i / 11, i / 13, i / 17, i, more
    if (i % 100 == 0) print "text at " i
  } }'
}
half 0 "$1"
while [ ! -e "$0" ]; do sleep 0.05; done
half "$1" "$1"`;

const decoder = new TextDecoder();

async function logOf(daemon: TestDaemon, run: string, stream = "stdout"): Promise<string> {
  let text = "";
  for await (const chunk of daemon.client.stream(Mosaic.method.streamLogs, { run, stream })) {
    text += decoder.decode(chunk.text);
  }
  return text;
}

interface Started {
  run: string;
  /** Steps of each half. */
  half: number;
  files: RunFiles;
  finish: () => void;
}

async function start(
  daemon: TestDaemon,
  half: number,
  metadata?: Record<string, unknown>,
): Promise<Started> {
  const told = `${daemon.stateDir}/finish-${crypto.randomUUID()}`;
  const command = ["/bin/sh", "-c", WORKER, told, String(half)];
  const run = await submit(
    daemon,
    configOf({
      command,
      ...(metadata === undefined ? {} : {
        metadata: {
          worker: { script: command[0], arguments: command.slice(1), use_grpc: false },
          ...metadata,
        },
      }),
    }),
  );
  return {
    run,
    half,
    files: new RunFiles(daemon.layout.runDir("custom_scripts", run), ""),
    finish: () => Deno.writeTextFileSync(told, ""),
  };
}

function journalBytes(files: RunFiles): number {
  return Deno.statSync(files.stdout(1)).blocks! * 512;
}

function packedLength(path: string): number {
  using packed = new PackedLog(path);
  return packed.end();
}

async function untilPacked({ files }: Started): Promise<void> {
  const path = files.stdout(1);
  await until(() => journalBytes(files) < Deno.statSync(path).size - 7 * MIB, {
    what: "a hole in the journal",
  });
}

async function assertWhole(daemon: TestDaemon, { run, half }: Started, log: string): Promise<void> {
  const lines = log.split("\n");
  assert.equal(lines.length, 2 * half * 1.01 + 1);
  const numbers = lines.filter((line) => line.startsWith("{")).map((line) =>
    JSON.parse(line).step_index
  );
  assert.deepEqual(numbers, numbers.map((_, i) => i));
  const stored = (await records(daemon, run, "steps")).map(({ step_index }) => step_index);
  assert.equal(stored.length, 2 * half);
  assert.ok(stored.every((step, i) => step === i), "each step is stored once and in order");
}

Deno.test("a journal is given back while its run lives; proxy and daemon are killed meanwhile, and nothing is lost", async () => {
  await using daemon = await TestDaemon.start();
  const started = await start(daemon, HALF);
  const { run, files, finish } = started;
  await untilSteps(daemon, run, HALF);
  await untilPacked(started);
  const log = await logOf(daemon, run);
  signalProcess(processRef(Number((await getRun(daemon, run)).proxyPid))!, "SIGKILL");
  await daemon.kill9();
  // The power went, too: the database has nothing that no checkpoint had moved into it.
  for (const end of ["-wal", "-shm"]) Deno.removeSync(`${daemon.layout.telemetryDb}${end}`);
  await daemon.restart();
  finish();
  await untilState(daemon, run, "TERMINATED");
  const whole = await logOf(daemon, run);
  assert.ok(whole.startsWith(log), "the log is as it was before");
  await assertWhole(daemon, started, whole);
  await until(() => journalBytes(files) <= 128 << 10, {
    what: "nothing but its ends is left in the journal",
  });
  assert.ok(
    Deno.statSync(packedPath(files.stdout(1))).size < Deno.statSync(files.stdout(1)).size / 3,
  );
  assert.equal(await logOf(daemon, run), whole);
});

Deno.test("an ended run whose journal was given back is filled again, and is no loss to doctor", async () => {
  await using daemon = await TestDaemon.start();
  const started = await start(daemon, SMALL_HALF);
  started.finish();
  await untilState(daemon, started.run, "TERMINATED");
  await until(() => journalBytes(started.files) <= 128 << 10, { what: "a packed journal" });
  const log = await logOf(daemon, started.run);
  await daemon.stop();
  assert.deepEqual(examine(daemon.stateDir).filter(({ check }) => check === "telemetry"), []);
  for (const end of ["", "-wal", "-shm"]) {
    await Deno.remove(`${daemon.layout.telemetryDb}${end}`).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
  repair(daemon.stateDir);
  await daemon.restart();
  await assertWhole(daemon, started, log);
});

Deno.test("a log that its steps give back is thinned when its run has ended, and reads as it was", async () => {
  await using daemon = await TestDaemon.start();
  const file = `${daemon.stateDir}/lines`;
  const lines = Array.from({ length: 6000 }, (_, i) => {
    const numbers = [Math.sin(i), Math.cos(i), Math.sqrt(i), Math.tan(i)];
    const step = `{"event_type": "step", "episode": ${i >> 8}, "step_index": ${
      i & 255
    }, "observation": [${numbers.join(", ")}], "reward": 1.0, "at": ${i / 7}}\n`;
    return i % 100 === 0 ? `größe ${i}\n${step}` : step;
  });
  Deno.writeTextFileSync(file, lines.join(""));
  const run = await submit(daemon, configOf({ command: ["/bin/cat", file] }));
  await untilState(daemon, run, "TERMINATED");
  const path = new RunFiles(daemon.layout.runDir("custom_scripts", run), "").stdout(1);
  const { length } = lines.join("");
  const isWhole = () => packedLength(path) === Deno.statSync(path).size;
  await until(() => isWhole() && Deno.statSync(packedPath(path)).size < length / 10, {
    what: "a thinned log",
  });
  assert.ok(await logOf(daemon, run) === lines.join(""));
  await daemon.restart();
  assert.ok(await logOf(daemon, run) === lines.join(""));
  await daemon.stop();
  assert.deepEqual(examine(daemon.stateDir).filter(({ check }) => check === "telemetry"), []);
  // What it refers to cannot be filled from it.
  const db = new DatabaseSync(daemon.layout.telemetryDb);
  db.exec("UPDATE step_blocks SET crc = crc + 1 WHERE first_seq = 1");
  db.close();
  const outcomes = repair(daemon.stateDir).repaired.map(({ done, outcome }) => ({ done, outcome }));
  assert.equal(outcomes.length, 1);
  assert.equal(outcomes[0]!.done, false, outcomes[0]!.outcome);
  assert.match(
    outcomes[0]!.outcome,
    /cannot be filled from its log: it is thinned, .* \(step \d+ is damaged or removed\)/,
  );
});

Deno.test("logs that a killed proxy has left unpacked are packed at the daemon's next start, and read as they were", async () => {
  await using daemon = await TestDaemon.start();
  const { run, files, finish } = await start(daemon, SMALL_HALF);
  finish();
  await untilState(daemon, run, "TERMINATED");
  const path = files.stdout(1);
  await until(() => packedLength(path) === Deno.statSync(path).size, {
    what: "the log to be packed",
  });
  await until(() => !proxyLockHeld(files, 1), { what: "the proxy to leave" });
  const before = await logOf(daemon, run);
  await daemon.kill9();
  // As if its proxy had been killed when the run had ended.
  using whole = openLog(path)!;
  const bytes = new Uint8Array(whole.size);
  assert.equal(whole.readSync(0, bytes), bytes.length);
  Deno.removeSync(path);
  Deno.writeFileSync(path, bytes, { mode: 0o400 });
  Deno.removeSync(packedPath(path));
  await daemon.restart();
  await until(
    () => packedLength(path) === bytes.length && Deno.statSync(path).blocks! * 512 < MIB,
    {
      what: "the log to be packed by the daemon",
    },
  );
  assert.equal(await logOf(daemon, run), before);
});

Deno.test("the log of standard error is packed when its run has ended, and reads as it was", async () => {
  await using daemon = await TestDaemon.start();
  const command = ["/bin/sh", "-c", "seq 200000 >&2; exit 3"];
  const run = await submit(daemon, configOf({ command }));
  await untilState(daemon, run, "FAULTED");
  const path = new RunFiles(daemon.layout.runDir("custom_scripts", run), "").stderr(1);
  await until(() => Deno.statSync(path).blocks! * 512 <= 128 << 10, { what: "a packed log" });
  const text = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
  assert.ok(Deno.statSync(packedPath(path)).size < text.length / 2);
  assert.ok(await logOf(daemon, run, "stderr") === text);
  assert.deepEqual((await getRun(daemon, run)).stderrTail.at(-1), "200000");
});

Deno.test("keep_journal: the journal stays one whole file", async () => {
  await using daemon = await TestDaemon.start();
  const started = await start(daemon, HALF, { artifacts: { keep_journal: true } });
  started.finish();
  await untilState(daemon, started.run, "TERMINATED");
  const path = started.files.stdout(1);
  assert.ok(
    (await logOf(daemon, started.run)) ===
      await Deno.readTextFile(path).then((text) => text.replace(/^[\t ]*\n/, "")),
  );
  assert.throws(() => Deno.statSync(packedPath(path)), Deno.errors.NotFound);
});
