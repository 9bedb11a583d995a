import assert from "node:assert/strict";
import {
  INVALIDATION,
  pictureOfPayload,
  ringFrame,
  type RingPart,
  RingReader,
  ringShape,
  ringsOf,
  ringStart,
} from "../../src/frames/fastlane.ts";

const WIDTH = 4;
const HEIGHT = 3;
const CAPACITY = 4;

function rangesOf(file: Uint8Array, ranges: [at: number, length: number][]) {
  const parts = ranges.map(([at, length]) => [...file.slice(at, at + length)]);
  return { size: file.length, bytes: new Uint8Array(parts.flat()) };
}

/** A ring in memory, written as the original's code does. */
class Ring {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly view: DataView;
  readonly slotSize: number;

  constructor(readonly channels = 3) {
    const payload = WIDTH * HEIGHT * channels;
    this.slotSize = 16 + payload;
    this.bytes = new Uint8Array(80 + CAPACITY * this.slotSize);
    this.view = new DataView(this.bytes.buffer);
    this.bytes.set(new TextEncoder().encode("FLAN"));
    [1, 0, CAPACITY, this.slotSize, payload, WIDTH, HEIGHT, channels].forEach((n, i) =>
      this.view.setUint32(4 + i * 4, n, true)
    );
  }

  slot(n: number): number {
    return 80 + ((n - 1) % CAPACITY) * this.slotSize;
  }

  /** @param torn it is still being written, though head tells of it */
  write(n: number, torn = false): void {
    this.view.setFloat64(56, n / 2, true);
    this.view.setBigUint64(this.slot(n), BigInt(2 * n + (torn ? 1 : 2)), true);
    this.view.setUint32(this.slot(n) + 8, WIDTH * HEIGHT * this.channels, true);
    this.bytes.fill(n, this.slot(n) + 16, this.slot(n) + this.slotSize);
    this.view.setBigUint64(40, BigInt(n), true);
  }

  read(...ranges: [at: number, length: number][]) {
    return Promise.resolve(rangesOf(this.bytes, ranges));
  }
}

Deno.test("ring: the newest whole frame once; a torn one is left out; one made anew is begun again", async () => {
  const ring = new Ring();
  const reader = new RingReader(ring);
  const next = async () => {
    const frame = await reader.next();
    return frame && [frame.n, frame.pixels[0], frame.reward];
  };
  assert.equal(await next(), undefined);
  for (let n = 1; n <= 6; n++) ring.write(n);
  assert.deepEqual(await next(), [6, 6, 3]);
  assert.equal(await next(), undefined);
  ring.write(7);
  ring.write(8, true);
  assert.deepEqual(await next(), [7, 7, 4]);
  ring.write(1);
  assert.deepEqual(await next(), [1, 1, 0.5]);
  ring.view.setUint32(8, 1, true);
  ring.write(2);
  assert.equal(await next(), undefined, "it is invalidated");
});

Deno.test("ring: frames one after the other are one read each, also in a ring that was made anew in another shape", async () => {
  let ring = new Ring();
  let reads = 0;
  const reader = new RingReader({ read: (...ranges) => (reads++, ring.read(...ranges)) });
  const next = async (n: number) => {
    ring.write(n);
    const { n: read, pixels } = (await reader.next())!;
    return [read, pixels.length, pixels.every((value) => value === n), reads];
  };
  assert.deepEqual(await next(1), [1, WIDTH * HEIGHT * 3, true, 2]);
  for (let n = 2; n <= 6; n++) {
    assert.deepEqual(await next(n), [n, WIDTH * HEIGHT * 3, true, n + 1]);
  }
  ring = new Ring(4);
  assert.deepEqual(await next(7), [7, WIDTH * HEIGHT * 4, true, 9]);
});

Deno.test("ring: a frame that changes while it is read is torn; grey becomes RGB", async () => {
  const ring = new Ring(1);
  ring.write(1);
  let reads = 0;
  const changing = {
    read: async (...ranges: [at: number, length: number][]) => {
      const read = await ring.read(...ranges);
      // Behind the slot its seq is read again.
      if (++reads === 2) read.bytes[read.bytes.length - 8]! += 2;
      return read;
    },
  };
  const reader = new RingReader(changing);
  assert.equal(await reader.next(), undefined);
  ring.write(1);
  const { channels, pixels } = (await reader.next())!;
  assert.deepEqual([channels, pixels.length], [3, WIDTH * HEIGHT * 3]);
});

Deno.test("ring: a header that lies about sizes is refused before anything is read by it", async () => {
  const lies: [offset: number, value: number][] = [
    ...[[0, 7], [4, 2], [12, 0x7fffffff], [12, CAPACITY + 1], [16, 17]] as [number, number][],
    ...[[24, 0], [24, 0xffffffff], [28, 0xffffffff], [32, 2], [32, 255]] as [number, number][],
  ];
  for (const [offset, value] of lies) {
    const ring = new Ring();
    ring.write(1);
    ring.view.setUint32(offset, value, true);
    await assert.rejects(new RingReader(ring).next(), RangeError, `${offset}: ${value}`);
  }
  const ring = new Ring();
  ring.write(1);
  ring.view.setBigUint64(40, 0xffffffffffffffffn, true);
  assert.equal(await new RingReader(ring).next(), undefined);
});

Deno.test("ring: what is written is read, in any state a reader may find it; the file is bounded", async () => {
  const shape = ringShape(2, 1, 4);
  const bytes = new Uint8Array(shape.bytes);
  const put = ({ at, bytes: part }: RingPart) => bytes.set(part, at);
  const reader = new RingReader({ read: (...ranges) => Promise.resolve(rangesOf(bytes, ranges)) });
  const [first, ...rest] = ringStart(shape);
  put(first!);
  assert.equal(await reader.next(), undefined, "without capacity and slot size it is not ready");
  rest.forEach(put);
  for (let n = 1; n <= shape.capacity + 2; n++) {
    const values = { reward: n, rollingReturn: NaN, stepsPerSecond: 30 };
    const parts = ringFrame(shape, n, new Uint8Array(8).fill(n), values);
    for (const part of parts.slice(0, -1)) {
      put(part);
      assert.equal(await reader.next(), undefined, "head is written last");
    }
    put(parts.at(-1)!);
    const { pixels, ...frame } = (await reader.next())!;
    assert.deepEqual(frame, { n, width: 2, height: 1, channels: 4, ...values });
    assert.deepEqual([...pixels], Array(8).fill(n));
  }
  put(INVALIDATION);
  put(
    ringFrame(shape, 1, new Uint8Array(8), { reward: 0, rollingReturn: 0, stepsPerSecond: 0 }).at(
      -1,
    )!,
  );
  assert.equal(await reader.next(), undefined);
  assert.equal(ringShape(1, 1, 3).capacity, 128);
  assert.ok(ringShape(640, 480, 3).bytes <= 17 << 20);
});

Deno.test("ring: a run's are its own and its parts', by name", () => {
  const names = [
    "mosaic.fastlane.A",
    "mosaic.fastlane.A-w1",
    "mosaic.fastlane.AB",
    "mosaic.fastlane.A-..%2f/x",
    "other",
  ];
  assert.deepEqual(ringsOf("A", names), ["", "-w1"]);
});

Deno.test("payload: rgb numbers of 1, 3 and 4 channels; what is no picture is none", () => {
  const of = (payload: unknown) => {
    const picture = pictureOfPayload(
      typeof payload === "string" ? payload : JSON.stringify(payload),
    );
    return picture && [picture.width, picture.height, picture.channels, ...picture.pixels];
  };
  assert.deepEqual(of({ mode: "rgb", rgb: [[[1, 2, 3], [4, 5, 300]]] }), [
    2,
    1,
    3,
    1,
    2,
    3,
    4,
    5,
    255,
  ]);
  assert.deepEqual(of({ RGB: [[[9, 8, 7, 6]]], width: 1 }), [1, 1, 4, 9, 8, 7, 6]);
  assert.deepEqual(of({ rgb: [[7], [8]] }), [1, 2, 3, 7, 7, 7, 8, 8, 8]);
  assert.deepEqual(of('{"rgb": [[[1.9, -4, 2e2]]]}'), [1, 1, 3, 1, 0, 2]);
  for (
    const none of [
      { grid: [[1]] },
      { rgb: [] },
      { rgb: [[[1, 2]]] },
      { rgb: "x" },
      '{"rgb":[[[1,2,3]',
      {
        rgb: [[["a"]]],
      },
    ]
  ) {
    assert.equal(of(none), undefined, JSON.stringify(none));
  }
  assert.equal(of({ text: '"rgb":[[[1,2,3]]]' }), undefined);
});
