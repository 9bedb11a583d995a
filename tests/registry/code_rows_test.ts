/** Texts of what ran, which runs share. */
import { strict as assert } from "node:assert";
import { DatabaseSync } from "node:sqlite";
import { extractRun } from "../../src/registry/moved_run.ts";
import { newRun, runId, withRegistry } from "./fixture.ts";

const nothing = () => ({ text: "", files: [] });
const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("code: the submission's record is stored once, texts are shared, and go with the last run that has them", async () => {
  await withRegistry(({ registry }) => {
    const record = {
      attempt: 0,
      codeJson: "{}",
      environment: bytes("packages"),
      diff: bytes("patch"),
    };
    for (const n of [1, 2]) {
      registry.insert(newRun(n));
      registry.recordCode(runId(n), record, nothing);
    }
    registry.recordCode(
      runId(1),
      { ...record, codeJson: '{"later":1}', diff: bytes("other") },
      nothing,
    );
    assert.equal(registry.code(runId(1))[0]!.codeJson, "{}");
    registry.recordCode(
      runId(1),
      { ...record, attempt: 1, diff: bytes("") },
      () => ({ text: "a.py", files: ["a.py"] }),
    );
    registry.recordCode(
      runId(1),
      { ...record, attempt: 1 },
      () => ({ text: "a.py", files: ["a.py"] }),
    );
    assert.equal(registry.require(runId(1)).codeChanged, "a.py");
    assert.equal(
      registry.eventsSince(0, { kinds: ["code_changed"], limit: 9 }).length,
      1,
      "said once",
    );
    const rows = registry.code(runId(1));
    assert.deepEqual(rows.map(({ attempt }) => attempt), [0, 1]);
    assert.equal(rows[0]!.diff, rows[1]!.diff);
    const { environment, diff } = rows[0]!;
    for (const n of [1, 2]) {
      assert.ok(
        registry.codeText(environment) !== undefined && registry.codeText(diff) !== undefined,
      );
      registry.apply(runId(n), { type: "cancelled", reason: "user_cancel" });
      registry.delete(runId(n));
    }
    assert.equal(registry.codeText(environment), undefined);
    assert.equal(registry.codeText(diff), undefined);
  });
});

Deno.test("code: moves with its run; a text that is not what its hash says is not taken", async () => {
  await withRegistry(({ registry, path }) => {
    registry.insert(newRun(1));
    registry.recordCode(runId(1), {
      attempt: 0,
      codeJson: "{}",
      environment: bytes("e"),
      diff: bytes("d"),
    }, nothing);
    const { environment, diff } = registry.code(runId(1))[0]!;
    using from = new DatabaseSync(path);
    using to = new DatabaseSync(":memory:");
    from.prepare("UPDATE code_texts SET body = ? WHERE hash = ?").run(bytes("forged"), diff);
    extractRun(from, runId(1), to, "moved");
    assert.deepEqual(to.prepare("SELECT hash FROM code_texts").all().map(({ hash }) => hash), [
      environment,
    ]);
    assert.equal(to.prepare("SELECT count(*) AS n FROM run_code").get()!.n, 1);
  });
});
