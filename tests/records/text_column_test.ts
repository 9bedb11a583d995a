import assert from "node:assert/strict";
import { ByteText } from "../../src/base/text/byte_text.ts";
import { decodeTexts, encodeTexts, TextColumn } from "../../src/records/text_column.ts";

/** A number as JavaScript and as Python write it. */
const values = Array.from(
  { length: 400 },
  (_, i) => Math.sin(i * 12.9898) * 10 ** (i % 13 === 0 ? (i % 25) - 12 : i % 3),
);
const python = (x: number) => {
  const [digits, exponent] = x.toExponential().split("e") as [string, string];
  if (Math.abs(x) >= 1e-4 && Math.abs(x) < 1e16) return Number.isInteger(x) ? `${x}.0` : String(x);
  return x === 0 ? "0.0" : `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
};

Deno.test("text column: lists of numbers are numbers where these give the text back, and come out to the byte", () => {
  const lists = (number: (x: number) => string, separator: string) =>
    values.map((x, i) =>
      `[${
        [x, -x, x / 3, i % 19 || i < 20 ? Math.cos(i) : 1e-5].map(Math.fround).map(number).join(
          separator,
        )
      }]`
    );
  for (const column of [lists(String, ","), lists(python, ", "), lists(python, ",")]) {
    const bytes = encodeTexts(column);
    assert.equal(bytes[0], 1);
    assert.ok(bytes.length < 0.4 * column.join().length);
    assert.deepEqual(decodeTexts(bytes, column.length), column);
    const some = column.map((text, i) =>
      i % 40 === 3 ? ["", "[]", "[1e400,0,0,0]", "é[", "[-0,0.10,1,1]"][i % 5]! : text
    );
    some[3] = "[-0,0,0.5,1]";
    for (const mixed of [some.map((text) => text || "null"), some]) {
      assert.deepEqual(decodeTexts(encodeTexts(mixed), mixed.length), mixed);
    }
  }
  for (
    const other of [
      values.map(() => "[1"),
      values.map(String),
      values.map((x) => `[[${x},${x}],${x}]`),
      ["[", "1]"],
    ]
  ) {
    assert.deepEqual(decodeTexts(encodeTexts(other), other.length), other);
  }
});

Deno.test("text column: texts that lie among bytes are the same column as these texts as strings", () => {
  const lying = new ByteText();
  const number = (x: number) => `[${x}, ${Math.fround(x)}]`;
  const columns = [
    values.map((_, i) => String(i)),
    values.map((_, i) => i % 7 === 0 ? '"é \u{1f600}"' : `{"a":${i}}`),
    values.map((_, i) => i % 3 === 0 ? "" : `"${"x".repeat(i * 40)}"`),
    values.map(number),
    values.map((x) => number(Math.fround(x))),
    values.map(() => ""),
    ["1"],
  ];
  for (const texts of columns) {
    const column = new TextColumn();
    for (const [i, text] of texts.entries()) {
      const bytes = new TextEncoder().encode(`"é${text}]`);
      lying.set(bytes, 3, bytes.length - 1);
      column.push(i % 5 === 0 ? text : lying);
    }
    assert.deepEqual([column.n, column.length, column.clamped], [
      texts.length,
      texts.join("").length,
      0,
    ]);
    assert.deepEqual(column.strings(), texts);
    assert.deepEqual(column.strings(16), texts.slice(0, 16));
    assert.equal(JSON.stringify(column), JSON.stringify(texts));
    assert.deepEqual(encodeTexts(column), encodeTexts(texts));
  }
  const clean = TextColumn.of(["a\0b", "\ud800", "c"]);
  assert.deepEqual([clean.strings(), clean.clamped], [["a\ufffdb", "\ufffd", "c"], 2]);
  assert.deepEqual(
    JSON.parse(JSON.stringify(clean)),
    ["a\0b", "\ud800", "c"],
    "whoever stores them counts them",
  );
  assert.deepEqual(new TextColumn().strings(), []);
});

Deno.test("text column: numbers of 64 bits take less than their digits, and come out to the byte", () => {
  for (const number of [String, python]) {
    const column = values.map((x, i) =>
      `[${[x, Math.sqrt(i), -x / 3, Math.cos(i)].map(number).join(", ")}]`
    );
    column[77] = "[0.1,null]";
    const bytes = encodeTexts(column);
    assert.equal(bytes[0], 2);
    assert.ok(bytes.length < 0.45 * column.join("").length);
    assert.deepEqual(decodeTexts(bytes, column.length), column);
    assert.throws(() => decodeTexts(bytes, column.length - 1));
    assert.throws(() => decodeTexts(bytes.subarray(0, -9), column.length));
  }
});

Deno.test("text column: bytes that are no column say so", () => {
  const bytes = encodeTexts(values.map((x) => `[${Math.fround(x)},${Math.fround(x)}]`));
  assert.throws(() => decodeTexts(bytes, values.length - 1), /bytes of 399 lists of 2 numbers/);
  assert.throws(() => decodeTexts(Uint8Array.of(7), 1), /form 7/);
});

Deno.test("text column: a head that no encoder writes is refused before it costs anything", () => {
  const lists = (change: object) => {
    const head = new TextEncoder().encode(
      `\0${JSON.stringify({ width: 1, separator: ",", python: [], others: [], ...change })}\n`,
    );
    head[0] = 1;
    return Uint8Array.of(...head, ...new Uint8Array(4 * 100));
  };
  assert.equal(decodeTexts(lists({}), 100).length, 100);
  for (
    const change of [
      { separator: ",".repeat(1000) },
      { others: [[1e9, "far"]] },
      { others: [["length", "5"]] },
      { others: [[1, "\0"]] },
      { python: [-1] },
      { width: 0.5 },
    ]
  ) {
    assert.throws(
      () => decodeTexts(lists(change), 100),
      /head that is not right/,
      JSON.stringify(change).slice(0, 50),
    );
  }
});
