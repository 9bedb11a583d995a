import assert from "node:assert/strict";
import { Journal } from "../../src/journal/journal.ts";
import { packChunkNow } from "../../src/journal/packed_log.ts";
import { createJournal, inodeOf, JournalFile } from "../../src/journal/journal_file.ts";

const encoder = new TextEncoder();

/** Root may read everything; without its capabilities it is an owner like any other. */
const AS_PLAIN_USER = Deno.uid() === 0
  ? ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
  : [];

class Written implements Disposable {
  readonly directory = Deno.makeTempDirSync();
  readonly path = `${this.directory}/out.log`;
  readonly shiftPath = `${this.directory}/shift.json`;

  /** @param inode as if a worker had been started with this file */
  open(inode?: string): Journal {
    return new Journal(
      new JournalFile(this.path, {
        shiftPath: this.shiftPath,
        ...(inode === undefined ? {} : { origin: () => ({ inode, group: undefined }) }),
      }),
    );
  }
  append(text: string): void {
    Deno.writeFileSync(this.path, encoder.encode(text), { append: true });
  }
  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

/** Everything there is: lines, and losses as FROM-TO. */
function all(journal: Journal, final = false): string[] {
  const found: string[] = [];
  let at = journal.position;
  for (let chunk; (chunk = journal.next(final)) !== undefined;) {
    assert.equal(chunk.from, at, "positions are contiguous");
    at = chunk.to;
    found.push(...chunk.lines);
    if (chunk.lost !== undefined) {
      found.push(`lost from ${chunk.from}: ${chunk.lost.bytes ?? "unknown"}`);
    }
  }
  return found;
}

Deno.test("journal file: emptied by somebody, what is written afterwards is read, what was not read is lost", () => {
  using written = new Written();
  const journal = written.open();
  written.append("one\ntwo\n");
  assert.deepEqual(all(journal), ["one", "two"]);
  written.append("three, never read\n");
  assert.equal(journal.size(), 26);
  Deno.truncateSync(written.path, 0);
  written.append("new\n");
  assert.deepEqual(all(journal), ["lost from 8: 18", "new"]);
  assert.equal(journal.size(), 31, "one position stands for what nobody has seen");
  written.append("more\n");
  assert.deepEqual(all(journal), ["more"]);
  // Whatever is asked for again of what is gone is lost as well, and positions mean the same to
  // another proxy.
  const other = written.open();
  other.seek(4);
  assert.deepEqual(all(other), ["lost from 4: 22", "new", "more"]);
  assert.equal(other.position, journal.position);
});

Deno.test("journal file: cut in the middle, what is left of the old is not read twice", () => {
  using written = new Written();
  const journal = written.open();
  written.append("one\ntwo\nthree\n");
  assert.deepEqual(all(journal), ["one", "two", "three"]);
  Deno.truncateSync(written.path, 8);
  assert.deepEqual(
    all(journal),
    ["lost from 14: 0"],
    "told, though all that was seen had been read",
  );
  written.append("four\n");
  assert.deepEqual(all(journal), ["four"]);
});

Deno.test("journal file: one that the store is ahead of (a crash of the host) gives nothing a second time", () => {
  using written = new Written();
  written.append("one\ntwo\n");
  const journal = written.open();
  journal.seek(100);
  assert.deepEqual(all(journal, true), ["lost from 100: unknown"]);
  written.append("later\n");
  assert.deepEqual(all(journal, true), ["later"]);
});

Deno.test("journal file: removed while nobody had it open, its loss is told once", () => {
  using written = new Written();
  written.append("one\ntwo\n");
  const inode = inodeOf(written.path)!;
  Deno.removeSync(written.path);
  const journal = written.open(inode);
  // As who learns first that the worker has ended, and then from where the daemon wants it.
  journal.endHere();
  journal.seek(4);
  assert.deepEqual(all(journal), ["lost from 4: unknown"]);
  assert.deepEqual(all(journal, true), []);
  const other = written.open(inode);
  other.seek(journal.position);
  assert.deepEqual(all(other, true), [], "another proxy does not tell it again");
});

Deno.test("journal file: its directory is a link before a proxy has opened it: the loss is told, and nothing throws", () => {
  using written = new Written();
  const [logs, elsewhere] = [`${written.directory}/logs`, `${written.directory}/elsewhere`];
  for (const path of [logs, elsewhere]) Deno.mkdirSync(path);
  Deno.writeTextFileSync(`${logs}/out.log`, "one\n");
  Deno.writeTextFileSync(`${elsewhere}/out.log`, "another file\n");
  const inode = inodeOf(`${logs}/out.log`)!;
  Deno.renameSync(logs, `${logs}.old`);
  Deno.symlinkSync(elsewhere, logs);
  const file = new JournalFile(`${logs}/out.log`, {
    shiftPath: written.shiftPath,
    origin: () => ({ inode, group: undefined }),
  });
  // As a proxy does before the daemon has said from where it wants the journal.
  assert.equal(file.size(), 0);
  const journal = new Journal(file);
  journal.endHere();
  journal.seek(0);
  assert.deepEqual(all(journal, true), ["lost from 0: unknown"]);
});

Deno.test("journal file: something else in the place of its packed part does not keep the journal from being read", () => {
  using written = new Written();
  written.append("one\ntwo\n");
  const packed = `${written.path}.zst`;
  Deno.mkdirSync(packed);
  const journal = written.open(inodeOf(written.path)!);
  journal.seek(0);
  assert.deepEqual(all(journal), ["one", "two"]);
  // Emptied: a packed part would be removed now.
  Deno.truncateSync(written.path);
  written.append("new\n");
  assert.deepEqual(all(journal, true).at(-1), "new");
  assert.ok(Deno.statSync(packed).isDirectory);
});

Deno.test("journal file: a packed part that may not be read does not keep the journal from being read", async () => {
  using written = new Written();
  written.append("one\ntwo\n");
  Deno.writeFileSync(`${written.path}.zst`, new Uint8Array(100), { mode: 0o200 });
  const code = `
    import { Journal } from "${new URL("../../src/journal/journal.ts", import.meta.url)}";
    import { inodeOf, JournalFile } from "${new URL(
    "../../src/journal/journal_file.ts",
    import.meta.url,
  )}";
    const [path, shiftPath] = Deno.args;
    const inode = inodeOf(path);
    const journal = new Journal(new JournalFile(path, { shiftPath, origin: () => ({ inode, group: undefined }) }));
    journal.seek(0);
    console.log([...journal.next(false).lines].join());`;
  const [program, ...args] = [
    ...AS_PLAIN_USER,
    Deno.execPath(),
    "eval",
    code,
    written.path,
    written.shiftPath,
  ];
  const { stdout, stderr } = await new Deno.Command(program!, { args }).output();
  assert.equal(new TextDecoder().decode(stdout), "one,two\n", new TextDecoder().decode(stderr));
});

Deno.test("journal file: emptied behind a link to another run's logs: the other run's packed log is left alone", () => {
  using written = new Written();
  const [logs, others] = [`${written.directory}/run/logs`, `${written.directory}/other/logs`];
  for (const path of [logs, others]) Deno.mkdirSync(path, { recursive: true });
  const text = "one\n".repeat(1000);
  for (const path of [logs, others]) Deno.writeTextFileSync(`${path}/out.log`, text);
  const inode = inodeOf(`${logs}/out.log`)!;
  const journal = new Journal(
    new JournalFile(`${logs}/out.log`, {
      shiftPath: written.shiftPath,
      origin: () => ({ inode, group: undefined }),
    }),
  );
  assert.equal(all(journal).length, 1000);
  const packed = packChunkNow(0, encoder.encode(text.slice(0, 2000)));
  for (const path of [logs, others]) Deno.writeFileSync(`${path}/out.log.zst`, packed);
  Deno.renameSync(logs, `${logs}.old`);
  Deno.symlinkSync(others, logs);
  Deno.truncateSync(`${logs}.old/out.log`);
  Deno.writeTextFileSync(`${logs}.old/out.log`, "new\n", { append: true });
  assert.equal(all(journal, true).at(-1), "new");
  assert.deepEqual(Deno.readFileSync(`${others}/out.log.zst`), packed);
});

Deno.test("journal file: before a worker was started, a file that is not there is not lost", () => {
  using written = new Written();
  const journal = written.open();
  assert.deepEqual(all(journal), []);
  written.append("first\n");
  assert.deepEqual(all(journal), ["first"]);
});

Deno.test("journal file: a copy in its place is read on", () => {
  using written = new Written();
  written.append("one\ntwo\n");
  const inode = inodeOf(written.path)!;
  Deno.copyFileSync(written.path, `${written.path}.copy`);
  Deno.renameSync(`${written.path}.copy`, written.path);
  const journal = written.open(inode);
  journal.seek(4);
  assert.deepEqual(all(journal, true), ["two"]);
});

Deno.test("journal file: emptied and grown beyond what was read before anybody looks again", () => {
  using written = new Written();
  const journal = written.open();
  written.append("one\ntwo\n");
  assert.deepEqual(all(journal), ["one", "two"]);
  Deno.truncateSync(written.path, 0);
  written.append("a line that is longer than both\n");
  assert.deepEqual(all(journal), ["lost from 8: unknown", "a line that is longer than both"]);
  Deno.truncateSync(written.path, 0);
  written.append("and once more, longer than the one before\n");
  assert.deepEqual(all(journal), [
    "lost from 41: unknown",
    "and once more, longer than the one before",
  ]);
  const other = written.open();
  other.seek(42);
  assert.deepEqual(all(other), ["and once more, longer than the one before"]);
});

Deno.test("journal file: emptied while no proxy was there", () => {
  using written = new Written();
  written.append("one\ntwo\n");
  const journal = written.open();
  assert.deepEqual(all(journal), ["one", "two"]);
  journal.close();
  Deno.truncateSync(written.path, 0);
  written.append("a line that is longer than both\n");
  const other = written.open();
  other.seek(8);
  assert.deepEqual(all(other), ["lost from 8: unknown", "a line that is longer than both"]);
  const third = written.open();
  third.seek(other.position);
  assert.deepEqual(all(third), []);
});

Deno.test("journal file: emptied while no proxy was there, and the next one looks before it knows up to where all is stored", () => {
  using written = new Written();
  written.append("one\ntwo\n");
  const journal = written.open();
  assert.deepEqual(all(journal), ["one", "two"]);
  journal.close();
  Deno.truncateSync(written.path, 0);
  written.append("a line that is longer than both\n");
  const other = written.open();
  other.size();
  other.endHere();
  written.append("not the worker's\n");
  other.seek(8);
  assert.deepEqual(all(other, true), ["lost from 8: unknown", "a line that is longer than both"]);
});

Deno.test("journal file: whole lines that were read before it was emptied are not lost with it", () => {
  using written = new Written();
  const journal = new Journal(new JournalFile(written.path), {
    lines: 1,
    bytes: 1024,
    lineBytes: 4096,
  });
  written.append("one\ntwo\nthree\ntorn");
  assert.deepEqual([...journal.next(false)!.lines], ["one"]);
  Deno.truncateSync(written.path, 0);
  written.append("new\n");
  assert.deepEqual(all(journal), ["two", "three", "lost from 14: 4", "new"]);
});

Deno.test("journal file: one that root has emptied is noticed before anything was read", () => {
  using written = new Written();
  createJournal(written.path, written.shiftPath);
  createJournal(written.path, written.shiftPath);
  const headed = Deno.statSync(written.path).size > 0;
  const journal = written.open();
  assert.equal(journal.size(), 0, "a header is no part of it");
  written.append("one\n");
  assert.deepEqual(all(journal), ["one"]);
  if (!headed) return;
  const early = written.open();
  Deno.truncateSync(written.path, 0);
  written.append("two, which is a long line\n");
  assert.deepEqual(all(early), ["lost from 0: unknown", "two, which is a long line"]);
});

Deno.test("journal file: written, emptied and read by one proxy after another, in any order", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seeded(seed);
    const upTo = (n: number) => Math.floor(random() * n);
    using written = new Written();
    createJournal(written.path, written.shiftPath);
    const headed = Deno.statSync(written.path).size > 0;
    let journal = written.open();
    /** What the daemon has. */
    let stored = 0;
    let next = 0;
    let read = -1;
    /** The first line that is still in the file; and whether one before it was not read. */
    let first = 0;
    let missing = false;
    let reported = 0;
    for (let act = 0; act < 40; act++) {
      const what = upTo(8);
      if (what < 3) {
        for (let count = 1 + upTo(30); count > 0; count--) {
          written.append(`line ${next++} ${"x".repeat(upTo(60))}\n`);
        }
      } else if (what === 3) {
        missing ||= read < next - 1;
        Deno.truncateSync(written.path, 0);
        first = next;
      } else if (what === 4) {
        journal.close();
        journal = written.open();
        journal.seek(stored);
      } else {
        for (const found of all(journal)) {
          if (found.startsWith("lost")) {
            reported++;
            continue;
          }
          const line = Number(found.split(" ")[1]);
          assert(line > read, `seed ${seed}: line ${line} after ${read}`);
          if (line > read + 1) {
            assert.equal(
              line,
              first,
              `seed ${seed}: what is still in the file is read from its beginning`,
            );
            // A plain user's journal has no header: before anything is read there is nothing to
            // notice its loss by.
            assert(
              missing && (reported > 0 || !headed && read < 0),
              `seed ${seed}: ${read} to ${line} is lost and not reported`,
            );
          }
          read = line;
        }
        stored = journal.position;
        if (first < next) {
          assert.equal(read, next - 1, `seed ${seed}: what is in the file is read to its end`);
        }
        // In an empty file there is nothing to tell another loss by: what is written and emptied
        // then is part of the last.
        if (first === next) continue;
        missing = false;
        reported = 0;
      }
    }
    journal.close();
  }
});

/** Numbers from 0 to 1 that are the same for the same seed. */
function seeded(seed: number): () => number {
  let state = seed * 2654435761 >>> 0;
  return () => {
    state = Math.imul(state ^ state >>> 15, 2246822519) + 0x9e3779b9 >>> 0;
    return ((state ^ state >>> 13) >>> 0) / 2 ** 32;
  };
}
