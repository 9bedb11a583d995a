import assert from "node:assert/strict";
import { Layout } from "../../../src/base/layout.ts";
import { createLogger } from "../../../src/base/log.ts";
import { infoIfThere } from "../../../src/os/files/files.ts";
import { filesUsage } from "../../../src/registry/retention/disk_usage.ts";
import {
  droppedDirectories,
  removeDropped,
  removeRunFiles,
} from "../../../src/registry/retention/removal.ts";
import { emptyForSpace, sweep } from "../../../src/registry/retention/retention_sweep.ts";
import { newRun, runId, withRegistry } from "../fixture.ts";

async function withState(
  work: (layout: Layout, write: (path: string, text: string) => void) => Promise<void>,
) {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-retention-" });
  const layout = new Layout(stateDir);
  const write = (path: string, text: string) => {
    Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    Deno.writeTextFileSync(path, text);
  };
  try {
    await work(layout, write);
  } finally {
    await removeRunFiles(layout, runId(1)).catch(() => undefined);
    Deno.removeSync(stateDir, { recursive: true });
  }
}

const exists = (path: string) => infoIfThere(path) !== undefined;

Deno.test("run files: all three base directories and all configs go, those of other runs stay", async () => {
  await withState(async (layout, write) => {
    const [one, two] = [runId(1), runId(2)];
    for (const base of ["runs", "evals", "custom_scripts"] as const) {
      write(`${layout.runDir(base, one)}/logs/a`, "12345");
    }
    const configs = [
      layout.configFile(one),
      layout.workerConfigFile(one, ""),
      layout.workerConfigFile(one, "w1"),
    ];
    for (const path of configs) write(path, "{}");
    const others = [
      `${layout.runDir("runs", two)}/a`,
      layout.configFile(two),
      layout.workerConfigFile(two, "w1"),
    ];
    for (const path of others) write(path, "{}");

    assert.equal((await filesUsage(layout)).byRun.get(one), 21);
    assert.deepEqual(await removeRunFiles(layout, one), { freedBytes: 21 });
    assert.ok(!exists(layout.runDir("runs", one)) && !exists(layout.runDir("evals", one)));
    assert.ok(!configs.some(exists));
    assert.ok(others.every(exists));
    assert.deepEqual(await removeRunFiles(layout, one), { freedBytes: 0 });
  });
});

Deno.test("run files: a link is removed, what it points to is neither counted nor touched", async () => {
  await withState(async (layout, write) => {
    const outside = `${layout.stateDir}/outside/file`;
    write(outside, "x".repeat(1000));
    write(`${layout.runDir("runs", runId(1))}/a`, "12345");
    Deno.symlinkSync(`${layout.stateDir}/outside`, `${layout.runDir("runs", runId(1))}/link`);
    assert.ok((await filesUsage(layout)).byRun.get(runId(1))! < 500);
    await removeRunFiles(layout, runId(1));
    assert.ok(exists(outside));
  });
});

Deno.test("run files: directories that a worker made read-only go as well", async () => {
  await withState(async (layout, write) => {
    const directory = layout.runDir("runs", runId(1));
    write(`${directory}/deep/er/file`, "12345");
    Deno.chmodSync(`${directory}/deep/er`, 0o500);
    Deno.chmodSync(`${directory}/deep`, 0o500);
    assert.deepEqual(await removeRunFiles(layout, runId(1)), { freedBytes: 5 });
    assert.ok(!exists(directory));
  });
});

Deno.test("run files: what is no run id never becomes a path", async () => {
  await withState(async (layout) => {
    for (const id of ["", ".", "..", "../configs", "a/b", "a\0"]) {
      await assert.rejects(() => removeRunFiles(layout, id), { code: "invalid_argument" }, id);
    }
  });
});

Deno.test("run files: checkpoints and logs that the config does not want kept are dropped, the rest stays", async () => {
  await withState(async (layout, write) => {
    const directory = layout.runDir("runs", runId(1));
    for (const name of ["checkpoints/a", "logs/a", "videos/a"]) {
      write(`${directory}/${name}`, "12345");
    }
    await removeDropped(
      directory,
      droppedDirectories({ dropCheckpoints: false, persistLogs: true }),
    );
    assert.ok(exists(`${directory}/checkpoints/a`) && exists(`${directory}/logs/a`));
    assert.deepEqual(
      await removeDropped(
        directory,
        droppedDirectories({ dropCheckpoints: true, persistLogs: true }),
      ),
      {
        freedBytes: 5,
      },
    );
    assert.ok(!exists(`${directory}/checkpoints`) && exists(`${directory}/logs/a`));
    await removeDropped(
      directory,
      droppedDirectories({ dropCheckpoints: true, persistLogs: false }),
    );
    assert.ok(!exists(`${directory}/logs`) && exists(`${directory}/videos/a`));
  });
});

Deno.test("sweep: what the policy chooses is deleted; one that resists does not keep the others", async () => {
  await withState(async (layout, write) => {
    await withRegistry(async ({ registry, clock }) => {
      for (let n = 1; n <= 4; n++) {
        registry.insert(newRun(n));
        write(`${layout.runDir("runs", runId(n))}/a`, "x".repeat(100));
        clock.now += 1;
        if (n < 4) registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
      }
      const logged: string[] = [];
      const asked: string[] = [];
      const result = await sweep({
        registry,
        diskUsage: async () => ({
          byRun: (await filesUsage(layout)).byRun,
          telemetryByRun: new Map([[runId(3), 30], [runId(4), 40]]),
        }),
        policy: { maxBytes: 150 },
        telemetryBytes: () => 0,
        log: createLogger({ sinks: [(line) => logged.push(line)] }),
        now: () => clock.now,
        deleteRun: async (id) => {
          asked.push(id);
          if (id === runId(1)) throw new Error("it resists");
          registry.delete(id);
          return await removeRunFiles(layout, id);
        },
      });
      assert.deepEqual(asked, [1, 2, 3].map(runId));
      assert.deepEqual(result, { deleted: [2, 3].map(runId), freedBytes: 200 });
      assert.ok(logged.some((line) => line.includes("it resists")));
      assert.ok(exists(layout.runDir("runs", runId(4))));
    });
  });
});

Deno.test("sweep: telemetry is measured after each deletion, and the newest runs to keep are kept whatever it is", async () => {
  for (
    const [policy, gone] of [[{}, [1, 2]], [{ keepLast: 3 }, [1]], [{ olderThanMs: 1e9 }, [
      1,
      2,
    ]]] as const
  ) {
    await withRegistry(async ({ registry, clock }) => {
      for (let n = 1; n <= 4; n++) {
        registry.insert(newRun(n));
        clock.now += 1;
        registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
      }
      let bytes = 100;
      const { deleted } = await sweep({
        registry,
        diskUsage: () => Promise.reject(new Error("not asked")),
        policy: { ...policy, maxTelemetryBytes: 60 },
        telemetryBytes: () => bytes,
        log: createLogger({ sinks: [] }),
        now: () => clock.now,
        deleteRun: (id) => {
          registry.delete(id);
          bytes -= 25;
          return Promise.resolve({ freedBytes: 25 });
        },
      });
      assert.deepEqual(deleted, gone.map(runId));
    });
  }
});

Deno.test("sweep: the trash is emptied by its time, and for space before any other run, longest there first", async () => {
  await withRegistry(async ({ registry, clock }) => {
    for (let n = 1; n <= 4; n++) {
      registry.insert(newRun(n));
      clock.now += 1;
      registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
    }
    for (const n of [3, 1, 2]) {
      clock.now += 100;
      registry.trash(runId(n));
    }
    const gone: string[] = [];
    const deleteRun = (id: string) => {
      gone.push(id);
      registry.delete(id);
      return Promise.resolve({ freedBytes: 1 });
    };
    const log = createLogger({ sinks: [] });
    await sweep({
      ...{
        registry,
        log,
        deleteRun,
        now: () => clock.now,
        policy: { keepDeletedMs: 200 },
        telemetryBytes: () => 0,
      },
      diskUsage: () => Promise.reject(new Error("not asked")),
    });
    assert.deepEqual(gone, [runId(3)]);
    await emptyForSpace({ registry, log, deleteRun, hasSpace: () => true });
    assert.equal(gone.length, 1);
    await emptyForSpace({ registry, log, deleteRun, hasSpace: () => gone.length >= 2 });
    assert.deepEqual(gone, [runId(3), runId(1)]);
    await emptyForSpace({ registry, log, deleteRun, hasSpace: () => false });
    assert.deepEqual(gone, [3, 1, 2].map(runId), "no other run goes for space");
  });
});

Deno.test("sweep: a run whose row is damaged may live, and is left alone", async () => {
  await withRegistry(async ({ registry, clock }) => {
    for (let n = 1; n <= 2; n++) {
      registry.insert(newRun(n));
      clock.now += 1;
      registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
    }
    const asked: string[] = [];
    await sweep({
      registry: {
        list: (filter, page) => {
          const { runs, nextToken } = registry.list(filter, page);
          const damaged = (id: string) => id === runId(1) ? ["state"] : [];
          return { runs: runs.map((row) => ({ ...row, damaged: damaged(row.runId) })), nextToken };
        },
      },
      diskUsage: () =>
        Promise.resolve({
          byRun: new Map(),
          telemetryByRun: new Map([1, 2].map((n) => [runId(n), 9])),
        }),
      policy: { maxBytes: 0 },
      telemetryBytes: () => 0,
      log: createLogger({ sinks: [] }),
      deleteRun: (id) => {
        asked.push(id);
        return Promise.resolve({ freedBytes: 9 });
      },
    });
    assert.deepEqual(asked, [runId(2)]);
  });
});

Deno.test("run files: what another attempt writes while its forerunner's are dropped stays", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-drop-" });
  try {
    Deno.mkdirSync(`${directory}/logs`);
    for (let i = 0; i < 500; i++) Deno.writeTextFileSync(`${directory}/logs/old-${i}`, "x");
    Deno.mkdirSync(`${directory}/.dropped-by-a-daemon-that-died`);
    const dropping = removeDropped(directory, ["checkpoints", "logs"]);
    Deno.mkdirSync(`${directory}/logs`, { recursive: true });
    Deno.writeTextFileSync(`${directory}/logs/new`, "y");
    const { freedBytes } = await dropping;
    assert.equal(freedBytes, 500);
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["logs"]);
    assert.deepEqual([...Deno.readDirSync(`${directory}/logs`)].map(({ name }) => name), ["new"]);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
