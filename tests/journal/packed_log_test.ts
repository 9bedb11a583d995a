import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import {
  LogFile,
  openLog,
  packChunk,
  PackedLog,
  packedPath,
} from "../../src/journal/packed_log.ts";

/** What no part of is like another. */
const TEXT = new TextEncoder().encode(
  Array.from({ length: 5000 }, (_, i) => `line ${i} of the log ${Math.sin(i)}\n`).join(""),
);
const encoder = new TextEncoder();
const CUTS = [0, 7, 40_000, 40_001, 70_000];

/** A log of which the first 70 000 bytes are packed in four chunks, and given back. */
async function packedLog(work: (path: string) => Promise<void> | void): Promise<void> {
  const directory = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${directory}/logs`);
    const path = `${directory}/logs/w.stdout.log`;
    Deno.writeFileSync(path, TEXT.map((byte, i) => i < CUTS.at(-1)! ? 0 : byte));
    for (let i = 1; i < CUTS.length; i++) {
      const chunk = await packChunk(CUTS[i - 1]!, TEXT.subarray(CUTS[i - 1], CUTS[i]));
      Deno.writeFileSync(packedPath(path), chunk, { append: true });
    }
    await work(path);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

async function assertReads(file: LogFile, expected: Uint8Array): Promise<void> {
  assert.equal(file.size, expected.length);
  for (
    const [at, length] of [
      [0, expected.length + 5],
      [0, 3],
      [5, 40_000],
      [69_990, 20],
      [70_000, 9],
      [TEXT.length, 4],
    ]
  ) {
    const wanted = expected.subarray(at, at! + length!);
    for (const asynchronously of [false, true]) {
      const into = new Uint8Array(length!);
      const read = asynchronously ? await file.read(at!, into) : file.readSync(at!, into);
      assert.deepEqual(into.subarray(0, read), wanted, `${length} bytes at ${at}`);
    }
  }
}

Deno.test("packed log: it reads as if nothing was packed, also when more is packed under an open reader", async () => {
  await packedLog(async (path) => {
    using file = openLog(path)!;
    await assertReads(file, TEXT);
    Deno.writeFileSync(packedPath(path), await packChunk(70_000, TEXT.subarray(70_000, 80_000)), {
      append: true,
    });
    Deno.writeFileSync(path, TEXT.map((byte, i) => i < 80_000 ? 0 : byte));
    await assertReads(file, TEXT);
  });
});

Deno.test("packed log: the packed part alone is the log when the file is gone", async () => {
  await packedLog(async (path) => {
    Deno.removeSync(path);
    using file = openLog(path)!;
    await assertReads(file, TEXT.subarray(0, 70_000));
    Deno.removeSync(packedPath(path));
    assert.equal(openLog(path), undefined);
  });
});

Deno.test("packed log: thinned chunks read as before; what cannot be rendered costs its chunk only", async () => {
  await packedLog(async (path) => {
    // Stands for a chunk: where it is in TEXT.
    const thin = (bytes: Uint8Array) => {
      const at = CUTS.find((cut, i) => bytes.length === CUTS[i + 1]! - cut)!;
      return Promise.resolve(at === 7 ? undefined : encoder.encode(`${at} ${bytes.length}`));
    };
    let damaged = -1;
    const render = (bytes: Uint8Array) => {
      const [at, length] = new TextDecoder().decode(bytes).split(" ").map(Number) as [
        number,
        number,
      ];
      if (at === damaged) throw new Error("damaged");
      return TEXT.slice(at, at + length);
    };
    const before = Deno.statSync(packedPath(path)).size;
    using packed = new PackedLog(path, render);
    assert.equal(await packed.thin(thin, () => Promise.resolve(false)), 0);
    assert.equal(Deno.statSync(packedPath(path)).size, before);
    const saved = await packed.thin(thin, () => Promise.resolve(true));
    assert.equal(Deno.statSync(packedPath(path)).size, before - saved);
    assert.ok(saved > 1000);
    using file = openLog(path, render)!;
    await assertReads(file, TEXT);
    using again = new PackedLog(path, render);
    assert.equal(await again.thin(thin, () => Promise.resolve(true)), 0);
    damaged = 40_001;
    using torn = openLog(path, render)!;
    const into = new Uint8Array(TEXT.length);
    assert.equal(torn.readSync(0, into), TEXT.length);
    assert.deepEqual(into.subarray(0, 40_001), TEXT.subarray(0, 40_001));
    assert.deepEqual(into.subarray(70_000), TEXT.subarray(70_000));
    assert.match(
      new TextDecoder().decode(into.subarray(40_001, 40_200)),
      /29999 bytes of the log need steps/,
    );
  });
});

Deno.test("packed log: a log that somebody has emptied is what it is now", async () => {
  await packedLog((path) => {
    Deno.writeTextFileSync(path, "new");
    using file = openLog(path)!;
    const into = new Uint8Array(9);
    assert.equal(new TextDecoder().decode(into.subarray(0, file.readSync(0, into))), "new");
  });
});

Deno.test("packed log: a copy that was made while more was packed reads up to what is packed", async () => {
  await packedLog(async (path) => {
    const bytes = TEXT.slice(0, 60_000).map((byte, i) => i < 4096 ? byte : 0);
    Deno.writeFileSync(path, bytes);
    Deno.writeFileSync(packedPath(path), await packChunk(0, TEXT.subarray(0, 40_000)));
    Deno.writeFileSync(packedPath(path), await packChunk(40_000, TEXT.subarray(40_000, 70_000)), {
      append: true,
    });
    using file = openLog(path)!;
    await assertReads(file, TEXT.subarray(0, 70_000));
  });
});

/** Where the n-th chunk's header begins. */
function nthIndexOf(bytes: Uint8Array, n: number): number {
  let at = 0;
  for (let i = 0; i < n; i++) {
    at += 32 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(at + 28, true);
  }
  return at;
}

Deno.test("packed log: any flipped bit costs the chunk that it is in, and is told of", async () => {
  await packedLog((path) => {
    const whole = Deno.readFileSync(packedPath(path));
    const headers = CUTS.slice(0, -1).map((_, i) => nthIndexOf(whole, i));
    const inHeaders = headers.flatMap((at) =>
      Array.from({ length: 32 * 8 }, (_, bit) => at * 8 + bit)
    );
    const elsewhere = Array.from(
      { length: Math.floor(whole.length / 97) },
      (_, i) => i * 97 * 8 + (i % 8),
    );
    for (const bit of [...inHeaders, ...elsewhere]) {
      const damaged = whole.slice();
      const at = bit >> 3;
      damaged[at]! ^= 1 << (bit % 8);
      // Another file, as a reader that comes later finds it: not one that gets the number of the
      // one before.
      Deno.writeFileSync(`${path}.new`, damaged);
      Deno.renameSync(`${path}.new`, packedPath(path));
      using file = openLog(path)!;
      const found = new Uint8Array(TEXT.length);
      assert.equal(file.size, TEXT.length, `bit ${bit}`);
      assert.equal(file.readSync(0, found), TEXT.length);
      const wrong = CUTS.slice(1).filter((to, i) =>
        !found.subarray(CUTS[i], to).every((byte, k) => byte === TEXT[CUTS[i]! + k])
      );
      assert.ok(wrong.length <= 1, `byte ${at}: chunks that end at ${wrong}`);
      assert.deepEqual(found.subarray(70_000), TEXT.subarray(70_000));
      const chunk = CUTS.indexOf(wrong[0]!);
      // One of seven bytes has no room for it.
      if (chunk < 0 || CUTS[chunk]! - CUTS[chunk - 1]! < 100) continue;
      const told = new TextDecoder().decode(
        found.subarray(CUTS[chunk - 1], CUTS[chunk - 1]! + 300),
      );
      assert.match(told, /^\n\[mosaic: \d+ bytes of the log are damaged/, `bit ${bit}`);
    }
  });
});

Deno.test("packed log: NULs that a worker prints behind what is packed are no damage", async () => {
  await packedLog(async (path) => {
    const text = TEXT.slice();
    text.fill(0, 70_000, 90_000);
    Deno.writeFileSync(path, text.map((byte, i) => i >= 4096 && i < 61_440 ? 0 : byte));
    using packed = new PackedLog(path);
    assert.equal(packed.end(), 70_000);
    using file = openLog(path)!;
    await assertReads(file, text);
  });
});

Deno.test("packed log: a chunk that was cut short is not there yet", async () => {
  await packedLog((path) => {
    const whole = Deno.readFileSync(packedPath(path));
    // Nothing is given back before it is packed and synced.
    Deno.writeFileSync(path, TEXT);
    Deno.truncateSync(packedPath(path), whole.length - 1);
    using packed = new PackedLog(path);
    assert.equal(packed.end(), 40_001);
    Deno.writeFileSync(packedPath(path), whole.subarray(packed.wholeBytes()).slice(0, 20), {
      append: false,
    });
    Deno.writeFileSync(packedPath(path), whole);
    assert.equal(packed.end(), 70_000);
  });
});

/** A header that is whole and says anything. */
function header(from: bigint, length: number, packed: number): Uint8Array {
  const bytes = new Uint8Array(32);
  bytes.set([0x5c, 0x2a, 0x4d, 0x18, 24, 0, 0, 0, ...new TextEncoder().encode("mlog")]);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(16, from, true);
  view.setUint32(24, length, true);
  view.setUint32(28, packed, true);
  view.setUint32(12, crc32(bytes.subarray(16)), true);
  return bytes;
}

Deno.test("packed log: what a worker puts in its place costs a reader neither time nor memory", async () => {
  const HUGE = 2 ** 42;
  const chunk = await packChunk(0, TEXT.subarray(0, 100));
  const files: [what: string, begin: Uint8Array, size: number][] = [
    ["nothing but a hole", new Uint8Array(0), HUGE],
    ["a hole behind a chunk", chunk, HUGE],
    ["a chunk that is packed in 3 GiB", header(0n, 100, 3 * 2 ** 30), 2 ** 32],
    [
      "a chunk that begins far away",
      Uint8Array.of(...header(2n ** 50n, 100, 8), ...new Uint8Array(8)),
      40,
    ],
  ];
  await packedLog((path) => {
    Deno.writeFileSync(path, TEXT);
    for (const [what, begin, size] of files) {
      Deno.removeSync(packedPath(path));
      Deno.writeFileSync(packedPath(path), begin);
      Deno.truncateSync(packedPath(path), size);
      using file = openLog(path)!;
      const found = new Uint8Array(TEXT.length);
      assert.equal(file.size, TEXT.length, what);
      for (let times = 0; times < 100; times++) assert.equal(file.readSync(0, found), TEXT.length);
      assert.deepEqual(found, TEXT, what);
    }
  });
});
