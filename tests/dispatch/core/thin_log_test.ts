/** What a daemon makes of the logs of an attempt that has ended and whose proxy is gone. */
import assert from "node:assert/strict";
import { RunFiles } from "../../../src/base/layout.ts";
import { createLogger } from "../../../src/base/log.ts";
import { thinLog } from "../../../src/dispatch/core/thin_log.ts";
import { openLog, packedPath } from "../../../src/journal/packed_log.ts";
import { JournalFile } from "../../../src/journal/journal_file.ts";
import { TelemetryStore } from "../../../src/telemetry/store.ts";

const TEXT = Array.from({ length: 40_000 }, (_, i) => `line ${i}, ${Math.sin(i)}\n`).join("");

async function endedAttempt(
  work: (files: RunFiles, thin: (isStopped?: () => boolean) => Promise<void>) => Promise<void>,
): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-thin-" });
  const telemetry = TelemetryStore.open(`${directory}/telemetry.sqlite`, {
    checkpoints: { mode: "inline" },
  });
  try {
    const files = new RunFiles(`${directory}/run`, "w");
    for (const path of [files.stdout(1), files.journalShift(1)]) {
      Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    }
    Deno.writeTextFileSync(files.stdout(1), TEXT, { mode: 0o400 });
    const options = { telemetry, log: createLogger({ sinks: [] }), runId: "R", attempt: 1, files };
    await work(files, (isStopped = () => false) => thinLog({ ...options, isStopped }));
  } finally {
    telemetry.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

function isPacked(files: RunFiles): boolean {
  try {
    return Deno.statSync(packedPath(files.stdout(1))).size > 0;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function textOf(files: RunFiles): string {
  using file = openLog(files.stdout(1))!;
  const bytes = new Uint8Array(file.size);
  file.readSync(0, bytes);
  return new TextDecoder().decode(bytes);
}

Deno.test("logs of an ended attempt: a journal that is whole is packed and given back", async () => {
  await endedAttempt(async (files, thin) => {
    await thin();
    assert.ok(isPacked(files));
    assert.ok(Deno.statSync(files.stdout(1)).blocks! * 512 < 256 << 10);
    assert.ok(textOf(files) === TEXT);
  });
});

Deno.test("logs of an ended attempt: a journal that its worker has emptied stays as it is, for whoever fills telemetry from it", async () => {
  await endedAttempt(async (files, thin) => {
    const shift = {
      base: 5000,
      skip: 0,
      why: "emptied",
      gone: false,
      unseen: false,
      head: btoa(TEXT.slice(0, 256)),
    };
    Deno.writeTextFileSync(files.journalShift(1), JSON.stringify(shift));
    await thin();
    assert.ok(!isPacked(files));
    const journal = JournalFile.left(files, 1);
    const bytes = new Uint8Array(TEXT.length);
    assert.equal(journal.read(5000, bytes), TEXT.length);
    assert.ok(new TextDecoder().decode(bytes) === TEXT);
    journal.close();
  });
});

Deno.test("logs of an ended attempt: a journal that was emptied while no proxy was there stays as it is, too", async () => {
  await endedAttempt(async (files, thin) => {
    const before = {
      base: 0,
      skip: 0,
      why: "",
      gone: false,
      unseen: false,
      head: btoa("what it began with\n"),
    };
    Deno.writeTextFileSync(files.journalShift(1), JSON.stringify(before));
    await thin();
    assert.ok(!isPacked(files));
    assert.ok(textOf(files) === TEXT);
  });
});

Deno.test("logs of an ended attempt: what a worker puts in the place of one packed log does not keep the other from being packed", async () => {
  await endedAttempt(async (files, thin) => {
    Deno.writeTextFileSync(files.stderr(1), TEXT);
    Deno.mkdirSync(packedPath(files.stdout(1)));
    await thin();
    assert.ok(Deno.statSync(packedPath(files.stderr(1))).isFile);
  });
});

Deno.test("logs of an ended attempt: a deletion that waits stops the packing", async () => {
  await endedAttempt(async (files, thin) => {
    await thin(() => true);
    assert.ok(!isPacked(files));
    assert.ok(textOf(files) === TEXT);
  });
});
