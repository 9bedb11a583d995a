import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";
import { OriginalsDeletions } from "../../src/daemon/originals_deletions.ts";
import { configOf } from "../harness/configs.ts";
import { EngineFixture } from "../harness/engine.ts";

function directoryOf(f: EngineFixture, runId: string): string {
  return f.layout.runDir(f.registry.require(runId).baseDir, runId);
}

/** As the original's run manager does it: the directory, then the configs. */
function deletedByOriginal(f: EngineFixture, runId: string): void {
  Deno.removeSync(directoryOf(f, runId), { recursive: true });
  Deno.removeSync(f.layout.configFile(runId));
}

async function withRuns(
  work: (f: EngineFixture, look: () => Promise<void>, logged: string[]) => Promise<void>,
): Promise<void> {
  await using f = EngineFixture.start();
  const logged: string[] = [];
  const log = createLogger({ level: "info", sinks: [(line) => logged.push(line)] });
  const { layout, registry } = f;
  const deletions = new OriginalsDeletions({
    layout,
    registry,
    log,
    deleteRun: (runId) => f.engine.delete(runId, true),
  });
  await work(f, () => deletions.look(), logged);
}

async function ended(f: EngineFixture): Promise<string> {
  const { runId } = f.engine.submit(configOf({ command: ["/bin/true"] }));
  (await f.connect(runId)).exit({ code: 0 });
  await f.state(runId, "TERMINATED");
  // Its proxy would have made it.
  Deno.mkdirSync(directoryOf(f, runId), { recursive: true });
  return runId;
}

const audit = (f: EngineFixture) => {
  try {
    return Deno.readTextFileSync(f.layout.auditFile).trim().split("\n").map((line) =>
      JSON.parse(line)
    );
  } catch {
    return [];
  }
};

Deno.test("a run that the original's run manager deleted is deleted here, too, and the log and the audit say so", async () => {
  await withRuns(async (f, look, logged) => {
    Deno.writeTextFileSync(f.layout.olderTelemetryDb, "the original's");
    const [gone, kept] = [await ended(f), await ended(f)];
    await look();
    deletedByOriginal(f, gone);
    await look();
    assert.equal(f.registry.get(gone), undefined);
    assert.equal(f.registry.get(kept)?.state, "TERMINATED");
    assert.match(logged.join(""), new RegExp(`${gone}.*original's run manager`));
    assert.deepEqual(audit(f).map(({ action, run, outcome }) => [action, run, outcome]), [[
      "original/delete",
      gone,
      "ok",
    ]]);
  });
});

Deno.test("a live run whose files are removed lives on, and is deleted when it has ended", async () => {
  await withRuns(async (f, look) => {
    Deno.writeTextFileSync(f.layout.olderTelemetryDb, "the original's");
    const { runId } = f.engine.submit(configOf({ command: ["/bin/true"] }));
    const proxy = await f.connect(runId);
    Deno.mkdirSync(directoryOf(f, runId), { recursive: true });
    await look();
    deletedByOriginal(f, runId);
    await look();
    assert.notEqual(f.registry.get(runId), undefined);
    proxy.exit({ code: 0 });
    await f.state(runId, "TERMINATED");
    await look();
    assert.equal(f.registry.get(runId), undefined);
  });
});

Deno.test("files that are away for another reason delete nothing", async (t) => {
  await t.step("the original was never here", () =>
    withRuns(async (f, look) => {
      const runId = await ended(f);
      await look();
      deletedByOriginal(f, runId);
      await look();
      assert.notEqual(f.registry.get(runId), undefined);
    }));
  await t.step(
    "they were away before this daemon started, or only one of them is",
    () =>
      withRuns(async (f, look, logged) => {
        Deno.writeTextFileSync(f.layout.olderTelemetryDb, "the original's");
        const [before, half] = [await ended(f), await ended(f)];
        deletedByOriginal(f, before);
        await look();
        Deno.removeSync(f.layout.configFile(half));
        for (let i = 0; i < 4; i++) await look();
        assert.deepEqual([before, half].map((id) => f.registry.get(id)?.state), [
          "TERMINATED",
          "TERMINATED",
        ]);
        const said = logged.filter((line) => line.includes(half));
        assert.equal(said.length, 1);
        assert.match(said[0]!, /config file is gone.*mosaic delete/);
      }),
  );
  await t.step("the whole directory of configs is away", () =>
    withRuns(async (f, look) => {
      Deno.writeTextFileSync(f.layout.olderTelemetryDb, "the original's");
      const runId = await ended(f);
      await look();
      Deno.removeSync(directoryOf(f, runId), { recursive: true });
      Deno.renameSync(f.layout.configs, `${f.layout.configs}.away`);
      await look();
      assert.notEqual(f.registry.get(runId), undefined);
      Deno.renameSync(`${f.layout.configs}.away`, f.layout.configs);
      await look();
      assert.notEqual(f.registry.get(runId), undefined);
    }));
});
