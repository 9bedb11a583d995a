import assert from "node:assert/strict";
import { type FreeSpace, FreeSpacePoll } from "../../src/os/host/free_space.ts";
import { disk, diskAtStart } from "../../src/os/host/host_resources.ts";

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

Deno.test("disk: the program that a start asks and the runtime name the same size; an unknown path has none", () => {
  const path = Deno.makeTempDirSync({ prefix: "-o 'a b' $x" });
  try {
    const { total, available } = diskAtStart(path);
    assert.equal(total, disk(path).total);
    assert.ok(available > 0 && available <= total);
    assert.deepEqual(diskAtStart(`${path}/none`), { total: 0, available: 0 });
  } finally {
    Deno.removeSync(path);
  }
});
