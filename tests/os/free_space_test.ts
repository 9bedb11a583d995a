import assert from "node:assert/strict";
import { type FreeSpace, FreeSpacePoll } from "../../src/os/free_space.ts";

const NEEDED = 64;

function looks(...free: number[]): boolean[] {
  const left = [...free];
  const look = (): FreeSpace => ({ free: left[0]!, needed: NEEDED, enough: left.shift()! >= NEEDED });
  const watch = new FreeSpacePoll(look);
  return free.map(() => watch.poll("/", false).enough);
}

Deno.test("room: a disk that somebody fills is full two looks before it is; one that is used slowly is not", () => {
  assert.deepEqual(looks(1000, 700, 400, 100), [true, true, false, false]);
  assert.deepEqual(looks(1000, 990, 980, 200, 195), [true, true, true, false, true]);
  assert.deepEqual(looks(70, 70, 63), [true, true, false]);
});
