import assert from "node:assert/strict";
import { Journal } from "../../src/journal/journal.ts";
import { JournalFile } from "../../src/journal/journal_file.ts";
import { boundedFileSink } from "../../src/proxy/bounded_log.ts";
import { lastLines } from "../../src/journal/tail.ts";

const BOUNDS = { lines: 4, bytes: 64, lineBytes: 256 };

class Written implements Disposable {
  readonly path = Deno.makeTempFileSync();
  readonly journal = new Journal(new JournalFile(this.path), BOUNDS);

  append(text: string | Uint8Array): void {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    Deno.writeFileSync(this.path, bytes, { append: true });
  }

  /** All there is to read now. */
  lines(final = false): string[] {
    const lines: string[] = [];
    for (let chunk; (chunk = this.journal.next(final)) !== undefined;) {
      assert.equal(chunk.to, this.journal.position);
      lines.push(...chunk.lines, ...Array(chunk.overlong).fill("<overlong>"));
    }
    return lines;
  }

  [Symbol.dispose](): void {
    this.journal.close();
    Deno.removeSync(this.path);
  }
}

Deno.test("journal: whole lines in order, a torn one when it is whole", () => {
  using written = new Written();
  assert.deepEqual(written.lines(), []);
  written.append("one\ntwo\nth");
  assert.deepEqual(written.lines(), ["one", "two"]);
  assert.deepEqual(written.lines(), []);
  written.append("ree\n\nfive");
  assert.deepEqual(written.lines(), ["three", ""]);
  assert.deepEqual(written.lines(true), ["five"]);
  assert.deepEqual(written.lines(true), []);
  assert.equal(written.journal.position, written.journal.size());
});

/** Lines of each chunk. */
function chunkSizes(journal: Journal): number[] {
  const sizes: number[] = [];
  for (let chunk; (chunk = journal.next(false)) !== undefined;) sizes.push(chunk.lines.length);
  return sizes;
}

Deno.test("journal: a chunk is bounded in lines and bytes, a long line goes by itself", () => {
  using written = new Written();
  written.append(
    "a\nb\nc\nd\ne\n" + "x".repeat(100) + "\n" + "y".repeat(40) + "\n" + "z".repeat(40) + "\nw\n",
  );
  assert.deepEqual(chunkSizes(written.journal), [4, 1, 1, 1, 2]);
});

Deno.test("journal: chunks are as large as they may be while there is more to read", () => {
  using written = new Written();
  written.append("abcdefghi\n".repeat(20));
  // Of the six lines that are read at once two are left.
  assert.deepEqual(chunkSizes(written.journal), [4, 4, 4, 4, 4]);
});

Deno.test("journal: small chunks are cut from what is held, and what is held is not read again for each", () => {
  using written = new Written();
  written.append("abcdefghi\n".repeat(60));
  let reads = 0;
  class Counted extends JournalFile {
    override read(position: number, into: Uint8Array): number {
      reads++;
      return super.read(position, into);
    }
  }
  const journal = new Journal(new Counted(written.path), { ...BOUNDS, bytes: 600 });
  for (let lines = 2; lines <= 50; lines += 2) {
    assert.equal(journal.next(false, 20)?.lines.length, 2);
  }
  journal.close();
  assert.equal(reads, 1);
});

Deno.test("journal: a chunk has no more bytes than are asked for, but always a line; the next goes on behind it", () => {
  using written = new Written();
  written.append("aaaa\nbbbb\ncccc\n" + "x".repeat(50) + "\ndddd\n");
  const next = (most: number) => [...written.journal.next(false, most)?.lines ?? []];
  assert.deepEqual(next(10), ["aaaa", "bbbb"]);
  assert.deepEqual(next(9), ["cccc"]);
  assert.deepEqual(next(9), ["x".repeat(50)]);
  assert.deepEqual(next(1 << 20), ["dddd"]);
  assert.deepEqual(next(9), []);
});

Deno.test("journal: an overlong line is passed over in parts as it comes, and counted once, whoever reads the next part", () => {
  using written = new Written();
  written.append("before\n" + "x".repeat(1000));
  assert.deepEqual(written.lines(), ["before", "<overlong>"]);
  written.append("x".repeat(500));
  assert.deepEqual(written.lines(), []);
  assert(
    written.journal.size() - written.journal.position - written.journal.unended <= 0,
    "nothing holds the worker",
  );
  const position = written.journal.position;
  assert(position > 1000, "what was passed over can be acknowledged");
  written.append("\nafter\n");
  assert.deepEqual(written.lines(), ["after"]);
  written.journal.seek(position);
  assert.deepEqual(
    written.lines(),
    ["after"],
    "another reader does not take the rest of the line for a line",
  );
  written.append("y".repeat(300));
  assert.deepEqual(written.lines(true), ["<overlong>"]);
  assert.equal(written.journal.position, written.journal.size());
});

Deno.test("journal: a line of exactly the bound is read", () => {
  using written = new Written();
  const line = "x".repeat(BOUNDS.lineBytes - 1);
  written.append(`${line}\nnext\n`);
  assert.deepEqual(written.lines(), [line, "next"]);
});

Deno.test("journal: it can be read again from any position", () => {
  using written = new Written();
  written.append("one\ntwo\nthree\n");
  assert.deepEqual(written.lines(), ["one", "two", "three"]);
  written.journal.seek(4);
  assert.deepEqual(written.lines(), ["two", "three"]);
});

Deno.test("journal: what is written after its end does not count", () => {
  using written = new Written();
  written.append("one\ntw");
  written.journal.endHere();
  written.append("o\nthree\n");
  assert.deepEqual(written.lines(true), ["one", "tw"]);
  assert.equal(written.journal.size(), 6);
});

Deno.test("journal: a file that is removed is still read, one that never was is empty", () => {
  using written = new Written();
  written.append("one\n");
  assert.deepEqual(written.lines(), ["one"]);
  const other = new Journal(new JournalFile(`${written.path}.none`));
  assert.equal(other.next(true), undefined);
  assert.equal(other.size(), 0);
  const held = Deno.openSync(written.path, { append: true });
  Deno.renameSync(written.path, `${written.path}.gone`);
  Deno.removeSync(`${written.path}.gone`);
  held.writeSync(new TextEncoder().encode("two\n"));
  held.close();
  assert.deepEqual(written.lines(), ["two"]);
  Deno.writeTextFileSync(written.path, "");
});

Deno.test("journal: bytes that are no UTF-8 do not move the positions", () => {
  using written = new Written();
  written.append(new Uint8Array([0xff, 0xfe, 10, 0xc3, 0xa9, 10]));
  assert.deepEqual(written.lines(), ["\ufffd\ufffd", "é"]);
  assert.equal(written.journal.position, 6);
});

Deno.test("proxy log: becomes .1 at its bound", () => {
  const path = Deno.makeTempFileSync();
  try {
    const sink = boundedFileSink(path, 100);
    for (let i = 0; i < 7; i++) sink(`${i} ${"x".repeat(30)}\n`);
    assert.deepEqual(lastLines(path, 9).map((l) => l[0]), ["6"]);
    assert.deepEqual(lastLines(`${path}.1`, 9).map((l) => l[0]), ["3", "4", "5"]);
  } finally {
    Deno.removeSync(path);
    Deno.removeSync(`${path}.1`);
  }
});

Deno.test("last lines: the last ones that say something", () => {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, `${"x\n".repeat(100_000)}a\n\nb\r\n${"c".repeat(3000)}`);
    assert.deepEqual(lastLines(path, 3).map((l) => l.length), [1, 1, 2000]);
    assert.deepEqual(lastLines(`${path}.none`, 3), []);
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("journal: a progress bar without a newline is cut at a carriage return, at the same places for every reader", () => {
  const bar = Array.from({ length: 30 }, (_, i) => `\r step=${i} ...`).join("");
  const split = (write: (written: Written) => string[]) => {
    using written = new Written();
    return write(written);
  };
  const live = split((written) => {
    const lines: string[] = [];
    for (const char of bar) {
      written.append(char);
      lines.push(...written.lines());
    }
    assert(
      written.journal.size() - written.journal.position <= BOUNDS.bytes,
      "nothing that holds its worker",
    );
    written.append("\nstep=30 loss=1\n");
    return [...lines, ...written.lines()];
  });
  const later = split((written) => {
    written.append(`${bar}\nstep=30 loss=1\n`);
    return written.lines();
  });
  assert(live.length > 5);
  assert.equal(live.at(-1), "step=30 loss=1");
  assert.deepEqual(live, later);
});

Deno.test("journal: a line whose end is not written yet holds nobody, however long it is", () => {
  using written = new Written();
  written.append(`first\n{"note":"${"x".repeat(200)}`);
  assert.deepEqual(written.lines(), ["first"]);
  const { journal } = written;
  assert.equal(journal.size() - journal.position - journal.unended, 0);
  written.append('"}\n');
  assert.equal(written.lines().length, 1);
});
