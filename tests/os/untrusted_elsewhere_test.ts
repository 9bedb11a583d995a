/**
 * A worker's files where the runtime's permissions end: opened by a program, by the rules of
 * untrusted.ts.
 */
import assert from "node:assert/strict";
import { openElsewhere } from "../../src/os/files/untrusted_elsewhere.ts";

Deno.test("files elsewhere: parts of plain files; no link, no FIFO, no way up, and the reason", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    Deno.mkdirSync(`${directory}/work/a b/c`, { recursive: true });
    const bytes = Uint8Array.from({ length: 200_000 }, (_, i) => i % 251);
    Deno.writeFileSync(`${directory}/work/a b/c/big 'x'.bin`, bytes);
    Deno.writeTextFileSync(`${directory}/work/empty`, "");
    Deno.writeTextFileSync(`${directory}/secret`, "secret");
    Deno.symlinkSync(`${directory}/secret`, `${directory}/work/link`);
    Deno.symlinkSync(directory, `${directory}/work/up`);
    new Deno.Command("mkfifo", { args: [`${directory}/work/pipe`] }).outputSync();
    const path = "a b/c/big 'x'.bin";
    const part = async (begin: number, end: number) => {
      const file = (await openElsewhere(`${directory}/work`, path))!;
      assert.deepEqual([file.size, file.uid, [...file.beginning]], [200_000, Deno.uid(), [
        ...bytes.subarray(0, 16),
      ]]);
      return await new Response(file.readable(begin, end)).bytes();
    };
    assert.deepEqual(await part(0, 200_000), bytes);
    assert.deepEqual(await part(70_000, 70_003), bytes.slice(70_000, 70_003));
    const empty = (await openElsewhere(`${directory}/work`, "empty"))!;
    assert.deepEqual([empty.size, empty.beginning.length], [0, 0]);
    assert.equal(await new Response(empty.readable(0, 0)).text(), "");
    for (const other of ["link", "up/secret", "../secret", "pipe", "a b"]) {
      await assert.rejects(
        openElsewhere(`${directory}/work`, other),
        { code: "permission_denied" },
        other,
      );
    }
    for (const gone of ["none", "a b/none"]) {
      assert.equal(await openElsewhere(`${directory}/work`, gone), undefined, gone);
    }
    // Whoever closes early leaves no process: more than may be open at once are opened one after
    // the other.
    for (let i = 0; i < 40; i++) {
      const file = (await openElsewhere(`${directory}/work`, path))!;
      const { body } = new Response(file.readable(0, 200_000));
      await body!.cancel();
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
