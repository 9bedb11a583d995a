/**
 * Pictures sent as changed rows: what the page completes is the picture that the environment drew.
 */
import assert from "node:assert/strict";
import { ChangedRows, completed, KeptPictures } from "../../src/frames/changed_rows.ts";

function shown() {
  const changed = new ChangedRows(new KeptPictures(Infinity));
  let before: Uint8Array | undefined;
  return (
    size: { width: number; height: number; channels: number },
    pixels: Uint8Array<ArrayBuffer>,
  ) => {
    const sent = changed.next({ ...size, pixels });
    before = completed(before, size, sent.rows, sent.pixels.slice());
    return { rows: sent.rows, bytes: sent.pixels.length, whole: before };
  };
}

Deno.test("changed rows: only these are sent, close ones together; a picture of another size is sent whole", () => {
  const size = { width: 4, height: 20, channels: 3 };
  const show = shown();
  const pixels = new Uint8Array(4 * 20 * 3).fill(7);
  assert.deepEqual(show(size, pixels), { rows: null, bytes: 240, whole: pixels });
  assert.deepEqual(show(size, pixels), { rows: [], bytes: 0, whole: pixels });
  for (const row of [2, 4, 5, 12, 19]) pixels[row * 12 + 11] = row;
  assert.deepEqual(show(size, pixels), {
    rows: [[2, 4], [12, 1], [19, 1]],
    bytes: 72,
    whole: pixels,
  });
  const tall = new Uint8Array(8 * 10 * 3).fill(7);
  assert.deepEqual(show({ width: 8, height: 10, channels: 3 }, tall), {
    rows: null,
    bytes: 240,
    whole: tall,
  });
});

Deno.test("changed rows: random changes of random pictures, of rows of any number of bytes, from any place of a buffer", () => {
  // A small linear congruential generator: the same pictures each time.
  let seed = 1;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 60; round++) {
    const size = { width: 1 + random(9), height: 1 + random(30), channels: [3, 4][random(2)]! };
    const length = size.width * size.height * size.channels;
    const pixels = new Uint8Array(length + 8).subarray(random(8)).subarray(0, length);
    const show = shown();
    for (let frame = 0; frame < 12; frame++) {
      for (let n = random(6); n > 0; n--) pixels[random(length)] = random(256);
      assert.deepEqual(show(size, pixels).whole, pixels.slice());
    }
  }
});

Deno.test("changed rows: rows of a picture that the reader does not have are not drawn", () => {
  const size = { width: 2, height: 2, channels: 3 };
  assert.equal(completed(undefined, size, [[0, 1]], new Uint8Array(6)), undefined);
  assert.equal(completed(new Uint8Array(6), size, [[0, 1]], new Uint8Array(6)), undefined);
});

Deno.test("changed rows: a picture that has changed in very many places is sent whole, and the next from it", () => {
  const size = { width: 1, height: 40_000, channels: 3 };
  const show = shown();
  const pixels = new Uint8Array(size.height * 3);
  show(size, pixels);
  for (let row = 0; row < size.height; row += 4) pixels[row * 3] = 1;
  const { rows, whole } = show(size, pixels);
  // Not compared as lists: their difference would take minutes to print.
  assert.ok(rows === null, `${rows?.length} ranges`);
  assert.ok(whole!.every((value, i) => value === pixels[i]));
  pixels[3 * 7] = 1;
  assert.deepEqual(show(size, pixels), { rows: [[7, 1]], bytes: 3, whole: pixels });
});

Deno.test("changed rows: where no more may be kept, pictures are sent whole; what was kept of others makes space", () => {
  const kept = new KeptPictures(100);
  const picture = (height: number) => ({
    width: 4,
    height,
    channels: 3,
    pixels: new Uint8Array(12 * height),
  });
  const [first, second] = [new ChangedRows(kept), new ChangedRows(kept)];
  first.next(picture(5));
  assert.deepEqual(first.next(picture(5)).rows, []);
  for (let frame = 0; frame < 3; frame++) {
    const sent = second.next(picture(4));
    assert.deepEqual([sent.rows, sent.pixels.length], [null, 48]);
  }
  assert.equal(kept.free, 40);
  // A smaller one takes the place of its own, and no more.
  first.next(picture(3));
  assert.equal(kept.free, 64);
  second.next(picture(4));
  assert.deepEqual(second.next(picture(4)).rows, []);
  for (const one of [first, second]) one[Symbol.dispose]();
  assert.equal(kept.free, 100);
  // Nor does what they were compared in stay.
  assert.equal(kept.aligned(new Uint8Array(4)).buffer.byteLength, 4);
});
