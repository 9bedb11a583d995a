import assert from "node:assert/strict";
import { type FreeSpace, FreeSpacePoll } from "../../src/os/host/free_space.ts";
import { disk, diskAtStart } from "../../src/os/host/host_resources.ts";
import { placeFrom, spaceFrom } from "../../src/os/host/btrfs_space.ts";

const NEEDED = 64;

function looks(...free: number[]): boolean[] {
  const left = [...free];
  const look = (): FreeSpace => ({
    free: left[0]!,
    needed: NEEDED,
    enough: left.shift()! >= NEEDED,
  });
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

Deno.test("btrfs: a subvolume is known by what statfs says of it", () => {
  const names =
    "features\n00000000-0000-0000-0000-000000000001\n729b568c-edc6-4c6e-acb9-75b79a90220b";
  const id = "729b568c-edc6-4c6e-acb9-75b79a90220b";
  assert.deepEqual(placeFrom(`de22233b77566f65\n${names}`), { id, subvolume: "256" });
  assert.deepEqual(placeFrom(`de22233b77566e60\n${names}`), { id, subvolume: "5" });
  for (const none of ["", `0\nfeatures`, `de22233c77566e60\n${names}`, `stat: x\n${names}`]) {
    assert.equal(placeFrom(none), undefined, none);
  }
});

Deno.test("btrfs: what a disk or a quota gives counts what is written and not on the disk yet", () => {
  const MIB = 2 ** 20;
  const line = (name: string, ...mib: number[]) => [name, ...mib.map((n) => n * MIB)].join(" ");
  const disks = [
    line("devices", 500),
    line("allocation/data/", 8, 8, 1, 0, 3, 0),
    line("allocation/metadata/", 32, 64, 1, 0, 10, 0),
    line("allocation/system/", 8, 16, 1, 0, 0, 0),
  ];
  const group = (name: string, flags: number, ...mib: number[]) =>
    line(`qgroups/${name}/`, 0, ...mib).replace(" 0 ", ` ${flags} `);
  const space = (subvolume: string, ...groups: string[]) =>
    spaceFrom([...disks, ...groups].join("\n"), subvolume);
  const free = { total: 500 * MIB, available: 416 * MIB, quota: false };
  assert.deepEqual(space("5"), free);
  // 60 MiB, of which 40 are stored, 5 written and 1 is for metadata.
  const limited = group("0_256", 1, 60, 0, 40, 30, 5, 1, 0);
  assert.deepEqual(space("5", limited), free, "another subvolume's");
  assert.deepEqual(space("256", limited), { total: 60 * MIB, available: 14 * MIB, quota: true });
  assert.deepEqual(space("256", group("0_256", 2, 0, 50, 40, 30, 5, 1, 0))!.available, 14 * MIB);
  assert.deepEqual(space("256", group("0_256", 3, 60, 40, 40, 38, 0, 0, 0))!.available, 2 * MIB);
  assert.deepEqual(
    space("256", group("0_256", 1, 900, 0, 40, 30, 5, 1, 0)),
    free,
    "the disk has less",
  );
  assert.equal(
    space("256", group("1_100", 1, 60, 0, 40, 30, 5, 1, 0)),
    undefined,
    "whose it is, is not said",
  );
  const mirrored = disks.map((text) =>
    text.replace("data/ 8388608 8388608", "data/ 8388608 16777216")
  );
  assert.equal(spaceFrom(mirrored.join("\n"), "5")!.available, 206 * MIB);
  for (
    const damaged of [
      "",
      "devices",
      disks.slice(0, 1).join("\n"),
      `${disks[0]}\nallocation/data/ x`,
    ]
  ) {
    assert.equal(spaceFrom(damaged, "5"), undefined, damaged);
  }
});
