import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { RunFiles } from "../../src/base/layout.ts";
import { storedPath, withinRun } from "../../src/uploads/uploaded.ts";
import { checkpointFiles } from "../../src/registry/artifacts/checkpoint_files.ts";
import {
  Allowance,
  type Chunk,
  unfinishedUploads,
  Uploads,
} from "../../src/uploads/take_uploads.ts";
import { crc32c } from "../../src/base/crc32c.ts";

const AT = 1_700_000_000_123;
const text = (bytes: string) => new TextEncoder().encode(bytes);

function chunk(
  path: string,
  whole: string,
  offset = 0,
  length = whole.length,
  changedAt = AT,
): Chunk {
  const data = text(whole).subarray(offset, offset + length);
  const isLast = offset + data.length === whole.length;
  const sha256 = isLast ? createHash("sha256").update(whole).digest("hex") : "";
  return { path, size: whole.length, changedAt, offset, data, crc: crc32c(data), sha256 };
}

async function inRun(
  test: (
    files: RunFiles,
    take: (chunk: Chunk, attempt?: number) => ReturnType<Uploads["take"]>,
  ) => Promise<void>,
) {
  const directory = await Deno.makeTempDir();
  const files = new RunFiles(`${directory}/run`, "w");
  Deno.mkdirSync(files.directory);
  // Each chunk over a connection of its own: nothing depends on what one remembers.
  const allowances = [1, 2].map(() => new Allowance(1 << 20));
  const take = async (one: Chunk, attempt = 1) => {
    using uploads = new Uploads({ files, attempt, allowance: allowances[attempt - 1]! });
    return await uploads.take(one);
  };
  await test(files, take).finally(() => Deno.remove(directory, { recursive: true }));
}

Deno.test("uploads: a file comes in chunks over any number of connections, and is in its place when it is whole", () =>
  inRun(async (files, take) => {
    const whole = "0123456789".repeat(10);
    const place = `${files.directory}/checkpoints/m.pt`;
    assert.deepEqual(await take(chunk("checkpoints/m.pt", whole, 0, 0)), { offset: 0 });
    assert.deepEqual(await take(chunk("checkpoints/m.pt", whole, 0, 40)), { offset: 40 });
    // Sent again, or too far: what is there is said, and nothing is written.
    assert.deepEqual(await take(chunk("checkpoints/m.pt", whole, 0, 40)), { offset: 40 });
    assert.deepEqual(await take(chunk("checkpoints/m.pt", whole, 60, 10)), { offset: 40 });
    assert.throws(() => Deno.statSync(place), Deno.errors.NotFound);
    assert.deepEqual(await take(chunk("checkpoints/m.pt", whole, 40)), { offset: 100, done: true });
    assert.equal(Deno.readTextFileSync(place), whole);
    assert.equal(Deno.statSync(place).mtime?.getTime(), AT);
    assert.deepEqual(await take(chunk("checkpoints/m.pt", whole, 0, 0)), {
      offset: 100,
      done: true,
    });
    // Another version takes its place when that is whole, and not before.
    assert.deepEqual(await take(chunk("checkpoints/m.pt", "new".repeat(9), 0, 5, AT + 1)), {
      offset: 5,
    });
    assert.equal(Deno.readTextFileSync(place), whole);
    assert.deepEqual(unfinishedUploads(files, 1), [{ path: "checkpoints/m.pt", bytes: 5 }]);
    assert.deepEqual(unfinishedUploads(files, 1), []);
  }));

Deno.test("uploads: damage on the way or on the disk is never taken for the file", () =>
  inRun(async (files, take) => {
    const whole = "abcdefgh";
    await assert.rejects(take({ ...chunk("a", whole), crc: 1 }), /damaged on its way/);
    assert.deepEqual(await take(chunk("a", whole, 0, 4)), { offset: 4 });
    const part = `${files.control}/upload-1/a.8-${AT}.part`;
    Deno.writeTextFileSync(part, "abXd");
    assert.deepEqual(await take(chunk("a", whole, 4)), { offset: 0 });
    assert.deepEqual(await take(chunk("a", whole)), { offset: 8, done: true });
    assert.equal(Deno.readTextFileSync(`${files.directory}/a`), whole);
  }));

Deno.test("uploads: a log grows in its place; one that was emptied there comes anew", () =>
  inRun(async (files, take) => {
    const log = (whole: string, offset: number, final = false): Chunk => {
      const one = chunk("logs/w.stdout.log", whole, offset, whole.length, 0);
      return final ? one : { ...one, sha256: "" };
    };
    const read = () => Deno.readTextFileSync(files.stdout(1));
    assert.deepEqual(await take(log("one\n", 0)), { offset: 4 });
    assert.equal(read(), "one\n");
    assert.deepEqual(await take(log("one\ntwo\n", 4)), { offset: 8 });
    assert.deepEqual(await take(log("one\ntwo\n", 8, true)), { offset: 8, done: true });
    assert.deepEqual(await take(log("new\n", 4, true)), { offset: 0 });
    assert.deepEqual(await take(log("new\n", 0, true)), { offset: 4, done: true });
    assert.equal(read(), "new\n");
  }));

Deno.test("uploads: an attempt writes its own files only, inside the run's directory, and so many bytes", () =>
  inRun(async (files, take) => {
    for (
      const path of [
        ...[
          "/etc/passwd",
          "../x",
          "a/../../x",
          "a//b",
          ".mosaic/proxy-1.json",
          ".mosaic/worker-1.json",
          "logs/x.log",
        ],
        ...[
          "logs/w.2.stdout.log",
          "checkpoints/attempt-2/m.pt",
          "a/.hidden",
          "a.tmp",
          "a\0b",
          "x".repeat(300),
          "",
        ],
      ]
    ) {
      assert.equal(
        (await take(chunk(path, "x"))).refused,
        "an attempt must not write this path",
        path,
      );
    }
    assert.match(
      (await take({ ...chunk("big", "x"), size: 2 << 20 })).refused!,
      /more than 1048576 bytes \(--max-upload\)/,
    );
    // Nor in parts, nor as a log, nor under the name of a smaller one.
    assert.deepEqual([...Deno.readDirSync(files.directory)], []);
    assert.deepEqual(await take(chunk("grown", "x".repeat(700_000), 0, 0)), { offset: 0 });
    for (const path of ["grown", "logs/w.stdout.log", "another"]) {
      const [size, changedAt] = [900_000 + path.length, path.startsWith("logs") ? 0 : AT + 1];
      const { refused = "" } = await take({
        ...chunk(path, "x".repeat(100), 0, 100, changedAt),
        size,
        sha256: "",
      });
      assert.match(refused, path === "grown" ? /^$/ : /--max-upload/, path);
    }
    const beyond = {
      ...chunk("logs/w.stderr.log", "x".repeat(100), 0, 100, 0),
      size: 10,
      sha256: "",
    };
    assert.match((await take(beyond)).refused!, /chunks do not fit/);
    // A time that many tools give what they pack, and one before it.
    for (const changedAt of [0, -86_400_500]) {
      const old = chunk(`old${changedAt}`, "x", 0, 1, changedAt);
      assert.deepEqual(await take(old), { offset: 1, done: true });
      assert.equal(Deno.statSync(`${files.directory}/${old.path}`).mtime?.getTime(), changedAt);
      assert.deepEqual(await take(old), { offset: 1, done: true });
    }
    // A later attempt's are beside, whatever their names.
    assert.deepEqual(await take(chunk("videos/a.mp4", "first")), { offset: 5, done: true });
    assert.deepEqual(await take(chunk("videos/a.mp4", "later"), 2), { offset: 5, done: true });
    assert.equal(Deno.readTextFileSync(`${files.directory}/videos/a.mp4`), "first");
    assert.equal(Deno.readTextFileSync(`${files.directory}/videos/attempt-2/a.mp4`), "later");
    // What lies in the way is put aside, and no link is followed.
    Deno.symlinkSync("/tmp", `${files.directory}/tables`);
    assert.deepEqual(await take(chunk("tables/t.csv", "1")), { offset: 1, done: true });
    assert.ok(Deno.lstatSync(`${files.directory}/tables`).isDirectory);
  }));

Deno.test("uploads: names on both hosts", () => {
  assert.equal(storedPath("w", 3, "checkpoints/attempt-3/m.pt"), "checkpoints/attempt-3/m.pt");
  assert.equal(storedPath("w", 3, "checkpoints/m.pt"), "checkpoints/attempt-3/m.pt");
  assert.equal(storedPath("w", 3, "m.pt"), "attempt-3/m.pt");
  assert.equal(storedPath("w", 3, "checkpoints/attempt-2/m.pt"), undefined);
  assert.equal(storedPath("w", 2, ".mosaic/journal-2.json"), ".mosaic/journal-2.json");
  assert.equal(storedPath("w", 2, ".mosaic/journal-1.json"), undefined);
  assert.equal(withinRun("01RUN", 2, "/scratch/01RUN.2/checkpoints/m.pt"), "checkpoints/m.pt");
  assert.equal(withinRun("01RUN", 2, "./checkpoints/m.pt"), "checkpoints/m.pt");
  assert.equal(withinRun("01RUN", 2, "/data/m.pt"), undefined);
});

Deno.test("checkpoints: fetched in chunks, the rest behind what is there; one without its ending is found", async () => {
  const directory = await Deno.makeTempDir();
  const bytes = crypto.getRandomValues(new Uint8Array(65_536));
  const whole = new Uint8Array(600_000).map((_, i) => bytes[i % 65_536]!);
  Deno.mkdirSync(`${directory}/checkpoints`);
  Deno.writeFileSync(`${directory}/checkpoints/model.zip`, whole);
  const fetched = async (checkpoint: string, has: number) => {
    const offsets: number[] = [];
    let sha256 = "";
    for await (const one of checkpointFiles(directory, checkpoint, () => has)) {
      assert.deepEqual(one.data, whole.subarray(one.offset, one.offset + one.data.length));
      offsets.push(one.offset);
      sha256 = one.sha256;
    }
    return { offsets, sha256 };
  };
  const sha256 = createHash("sha256").update(whole).digest("hex");
  for (const name of ["checkpoints/model.zip", "checkpoints/model", `${directory}/checkpoints`]) {
    assert.deepEqual(await fetched(name, 0), { offsets: [0, 262_144, 524_288], sha256 });
  }
  assert.deepEqual(await fetched("checkpoints/model.zip", 262_144), {
    offsets: [262_144, 524_288],
    sha256,
  });
  assert.deepEqual((await fetched("checkpoints/model.zip", whole.length)).offsets, []);
  await assert.rejects(fetched("/etc/passwd", 0), /there is no checkpoint/);
  await Deno.remove(directory, { recursive: true });
});
