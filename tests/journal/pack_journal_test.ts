/**
 * What is stored of a journal is given back while its worker appends, and is still all there for
 * whoever reads.
 */
import assert from "node:assert/strict";
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";
import { createLogger } from "../../src/base/log.ts";
import { openLog, packChunk, PackedLog, packedPath } from "../../src/journal/packed_log.ts";
import { createJournal, inodeOf, JournalFile } from "../../src/journal/journal_file.ts";
import { JournalPacker, packEndedLog } from "../../src/journal/pack_journal.ts";
import { until } from "../harness/wait.ts";

const MIB = 1 << 20;
const log = createLogger({ sinks: [] });

interface Journals {
  path: string;
  written: () => number;
  /** As a proxy has it. */
  journal: () => JournalFile;
  /** The writer is told to go on to so many bytes; resolves when they are there. */
  writeTo: (bytes: number) => Promise<void>;
}

/** A journal that a process of its own appends to, through the one descriptor that it has. */
async function withWriter(work: (journals: Journals) => Promise<void>): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-pack-" });
  const path = `${directory}/logs/w.stdout.log`;
  Deno.mkdirSync(`${directory}/logs`);
  createJournal(path, `${directory}/journal-1.json`);
  const opened: JournalFile[] = [];
  const writer = new Deno.Command("/bin/sh", {
    args: [
      "-c",
      'exec >>"$0"; chmod 400 "$0"; while read -r n; do seq "$n" "$((n + 149999))"; done',
      path,
    ],
    stdin: "piped",
  }).spawn();
  const input = writer.stdin.getWriter();
  let next = 1_000_000;
  const written = () => Deno.statSync(path).size;
  try {
    await work({
      path,
      written,
      journal: () => {
        const file = new JournalFile(path, {
          shiftPath: `${directory}/journal-1.json`,
          origin: () => ({ inode: inodeOf(path), group: undefined }),
        });
        opened.push(file);
        return file;
      },
      writeTo: async (bytes) => {
        while (written() < bytes) {
          const enough = written() + 150_000 * 8;
          await input.write(new TextEncoder().encode(`${next}\n`));
          next += 150_000;
          await until(() => written() >= enough, { what: `${enough} bytes` });
        }
      },
    });
  } finally {
    await input.close();
    await writer.status;
    for (const file of opened) file.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

/** The journal from a position on, as a proxy reads it. */
function textFrom(journal: JournalFile, position: number): string {
  const parts: Uint8Array[] = [];
  for (let at = position, read = -1; read !== 0; at += read) {
    const buffer = new Uint8Array(300_000);
    read = journal.read(at, buffer);
    parts.push(buffer.subarray(0, read));
  }
  return new TextDecoder().decode(joinedBytes(parts));
}

function logText(path: string): string {
  using file = openLog(path)!;
  const bytes = new Uint8Array(file.size - file.begin());
  assert.equal(file.readSync(file.begin(), bytes), bytes.length);
  return new TextDecoder().decode(bytes);
}

function assertWhole(path: string, journal: JournalFile): void {
  const text = logText(path);
  const lines = text.split("\n");
  assert.equal(lines.length - 1, text.length / 8);
  for (let i = 0; i < lines.length - 1; i++) {
    if (lines[i] !== String(1_000_000 + i)) assert.fail(`line ${i} is ${lines[i]}`);
  }
  journal.size();
  assert.equal(textFrom(journal, 0) === text, true, "a proxy reads the same");
  assert.equal(textFrom(journal, 4096 + 8) === text.slice(4096 + 8), true);
}

const blocksOf = (path: string) => Deno.statSync(path).blocks! * 512;

Deno.test("journal: what is stored is given back while the worker writes, and reads as it was", async () => {
  await withWriter(async ({ path, journal, writeTo, written }) => {
    const file = journal();
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB });
    for (let stored = 2 * MIB; stored <= 8 * MIB; stored += 2 * MIB) {
      const writing = writeTo(stored + MIB);
      await until(() => file.size() >= stored, { what: "what is stored is there" });
      packer.stored(stored);
      await Promise.all([packer.settled(), writing]);
    }
    assert.ok(
      blocksOf(path) < written() - 8 * MIB + 2 * MIB,
      `${blocksOf(path)} of ${written()} bytes are taken`,
    );
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o400);
    assertWhole(path, file);
    await packer.finish();
    assert.ok(blocksOf(path) <= 128 << 10, `${blocksOf(path)} bytes are taken at the end`);
    assert.ok(blocksOf(packedPath(path)) < written() / 4);
    assertWhole(path, file);
    assert.equal(textFrom(file, file.size() - 8).length, 8, "the last line is in the file itself");
  });
});

Deno.test("journal: who reads it while its proxy packs it reads on behind what has become a hole", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(3 * MIB);
    const file = journal();
    const size = file.size();
    const reader = new JournalFile(path, {
      readOnly: true,
      shiftPath: path.replace(/logs\/.*/, "journal-1.json"),
    });
    const first = new Uint8Array(MIB);
    assert.equal(reader.read(0, first), MIB);
    await new JournalPacker(path, file, log).finish();
    assert.ok(blocksOf(path) <= 128 << 10, "what was read is a hole");
    assert.equal(reader.size(), size);
    assert.equal(new TextDecoder().decode(first) + textFrom(reader, MIB) === logText(path), true);
    reader.close();
  });
});

Deno.test("journal: a proxy that was killed while it packed leaves nothing that the next one reads wrong", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(6 * MIB);
    const file = journal();
    file.size();
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB });
    packer.stored(3 * MIB);
    await packer.settled();
    const packed = Deno.readFileSync(packedPath(path));
    // Of the last chunk that it appended only a part is there; what is before was synced before
    // holes were made.
    Deno.writeFileSync(packedPath(path), packed.subarray(32, 500), { append: true });
    const next = journal();
    next.size();
    assertWhole(path, next);
    const second = new JournalPacker(path, next, log, { roundBytes: MIB });
    second.stored(5 * MIB);
    await second.settled();
    await second.finish();
    assertWhole(path, next);
    assertWhole(path, journal());
  });
});

Deno.test("journal: where no holes can be made it is given back when the worker has ended", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(4 * MIB);
    const file = journal();
    file.size();
    const packer = new JournalPacker(path, file, log, {
      roundBytes: MIB,
      makeHole: () => Promise.resolve(false),
    });
    packer.stored(3 * MIB);
    await packer.settled();
    assert.ok(blocksOf(path) > 4 * MIB);
    assertWhole(path, file);
    await packer.finish();
    assert.ok(blocksOf(path) <= 128 << 10, `${blocksOf(path)} bytes are taken at the end`);
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o400);
    assertWhole(path, journal());
  });
});

Deno.test("journal: where a file that is emptied takes its place, what was packed is gone, too, and nothing more is packed", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(4 * MIB);
    const file = journal();
    textFrom(file, 0);
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB });
    packer.stored(3 * MIB);
    await packer.settled();
    Deno.chmodSync(path, 0o600);
    Deno.truncateSync(path, 0);
    await writeTo(2 * MIB);
    const end = file.size();
    assert.ok(file.readableFrom > 4 * MIB);
    packer.stored(end);
    await packer.settled();
    await packer.finish();
    assert.throws(() => Deno.statSync(packedPath(path)), Deno.errors.NotFound);
    assert.equal(textFrom(file, file.readableFrom).length, logText(path).length);
  });
});

Deno.test("journal: one that a power failure has left shorter than what is stored keeps what was packed of it", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(4 * MIB);
    const file = journal();
    const text = textFrom(file, 0);
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB });
    packer.stored(3 * MIB);
    await packer.settled();
    using packed = new PackedLog(path);
    // On the disk is what the hole's blocks were synced with, and the daemon has stored more.
    const left = packed.end() - 30_000;
    Deno.chmodSync(path, 0o600);
    Deno.truncateSync(path, left);
    const next = journal();
    next.size();
    next.reached(text.length);
    next.size();
    assert.ok(next.readableFrom > text.length, "the loss is noticed");
    const begin = Deno.readFileSync(path).indexOf(10) + 1;
    assert.ok(logText(path) === text.slice(0, left - begin), "what is left");
    // A reader that comes later sees what follows it.
    Deno.writeTextFileSync(path, text.slice(0, 80_000), { append: true });
    assert.ok(logText(path) === text.slice(0, left - begin) + text.slice(0, 80_000));
  });
});

Deno.test("journal: where the end of what was packed is damaged, no hole is packed in its place", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(6 * MIB);
    const file = journal();
    const text = textFrom(file, 0);
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB });
    packer.stored(5 * MIB - 100_000);
    await packer.settled();
    const bytes = Deno.readFileSync(packedPath(path));
    // In the last chunk's header.
    const at = new TextDecoder("latin1").decode(bytes).lastIndexOf("mlog");
    bytes[at]! ^= 1;
    Deno.writeFileSync(`${path}.new`, bytes);
    Deno.renameSync(`${path}.new`, packedPath(path));
    const next = journal();
    next.size();
    next.reached(text.length);
    const second = new JournalPacker(path, next, log, { roundBytes: MIB });
    second.stored(6 * MIB);
    await second.settled();
    await second.finish();
    await packEndedLog(path, log);
    assert.ok(
      Deno.readFileSync(packedPath(path)).every((byte, i) => byte === bytes[i]),
      "what was packed stays",
    );
    const now = logText(path);
    const lost = now.indexOf("\n[mosaic:");
    assert.match(now.slice(lost), /^\n\[mosaic: \d+ bytes of the log are damaged/);
    const size = Number(/mosaic: (\d+) bytes/.exec(now.slice(lost))![1]);
    assert.ok(lost > 4 * MIB - 100 && size < 1.1 * MIB, `${size} bytes at ${lost}`);
    assert.ok(
      now.slice(0, lost) === text.slice(0, lost) &&
        now.slice(lost + size) === text.slice(lost + size),
    );
    assert.ok(textFrom(next, 0) === now, "a proxy reads the same");
  });
});

Deno.test("journal: where the packed file was removed, no hole is packed in its place", async () => {
  await withWriter(async ({ path, journal, writeTo, written }) => {
    await writeTo(3 * MIB);
    const file = journal();
    file.size();
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB });
    packer.stored(2 * MIB);
    await packer.settled();
    assert.ok(blocksOf(path) < written(), "it has a hole");
    Deno.removeSync(packedPath(path));
    const told: string[] = [];
    const listening = createLogger({ sinks: [(line) => void told.push(line)] });
    const next = new JournalPacker(path, file, listening, { roundBytes: MIB });
    next.stored(3 * MIB);
    await next.settled();
    await packEndedLog(path, listening);
    assert.throws(() => Deno.statSync(packedPath(path)), Deno.errors.NotFound);
    assert.equal(
      told.filter((line) => line.includes("the packed log was removed")).length,
      2,
      told.join(""),
    );
  });
});

Deno.test("journal: no hole is made in what is not stored yet, whatever the packed file says", async () => {
  await withWriter(async ({ path, journal, writeTo }) => {
    await writeTo(4 * MIB);
    const file = journal();
    file.size();
    const bytes = Deno.readFileSync(path);
    for (let from = 0; from < 3 * MIB; from += MIB) {
      const chunk = await packChunk(from, bytes.subarray(from, from + MIB));
      Deno.writeFileSync(packedPath(path), chunk, { append: true });
    }
    const holes: number[] = [];
    const makeHole = (_: unknown, from: number, to: number) =>
      Promise.resolve(holes.push(from, to) > 0);
    const packer = new JournalPacker(path, file, log, { roundBytes: MIB, makeHole });
    packer.stored(MIB);
    await packer.settled();
    assert.ok(Math.max(...holes) <= MIB, `holes at ${holes}`);
  });
});
