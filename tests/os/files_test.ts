/** Files that are whole or not there, and locks. */
import assert from "node:assert/strict";
import {
  readTextIfThere,
  removeIfThere,
  tryLock,
  writeFileAtomic,
} from "../../src/os/files/files.ts";

Deno.test("writeFileAtomic: the new text replaces the old whole, with the mode asked for, and leaves nothing beside it", () => {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/state.json`;
  writeFileAtomic(path, "one");
  writeFileAtomic(path, "two", { mode: 0o640, durable: true });
  assert.equal(readTextIfThere(path), "two");
  assert.equal(Deno.statSync(path).mode! & 0o777, 0o640);
  assert.deepEqual([...Deno.readDirSync(directory)].map((e) => e.name), ["state.json"]);
  Deno.removeSync(directory, { recursive: true });
});

Deno.test("writeFileAtomic: what cannot be written leaves the old file and no temporary one", () => {
  const directory = Deno.makeTempDirSync();
  Deno.mkdirSync(`${directory}/taken/inner`, { recursive: true });
  assert.throws(() => writeFileAtomic(`${directory}/taken`, "text"));
  assert.deepEqual([...Deno.readDirSync(directory)].map((e) => e.name), ["taken"]);
  Deno.removeSync(directory, { recursive: true });
});

Deno.test("tryLock: one holder at a time, and another process is a different one", () => {
  const path = `${Deno.makeTempDirSync()}/lock`;
  const held = tryLock(path)!;
  assert.ok(held);
  assert.equal(tryLock(path), undefined);
  held.close();
  const again = tryLock(path);
  assert.ok(again);
  again.close();
  removeIfThere(path);
  removeIfThere(path);
  assert.equal(readTextIfThere(path), undefined);
});
