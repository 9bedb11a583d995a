import assert from "node:assert/strict";
import { isTooDeep, MAX_JSON_DEPTH, parsedJson } from "../../../src/base/text/json_text.ts";
import { Fields } from "../../../src/readers/lines/fields.ts";
import { afterBlanks, afterValue } from "../../../src/readers/lines/json_scan.ts";
import { Lines } from "../../../src/readers/lines/lines.ts";
import { SLOT } from "../../../src/readers/lines/slots.ts";

const encoder = new TextEncoder();

/** Whether the walk takes all of the text for one JSON value. */
function accepted(text: string, nonFinite = false): boolean {
  const bytes = encoder.encode(text);
  const after = afterValue(bytes, afterBlanks(bytes, 0, bytes.length), bytes.length, nonFinite);
  return after >= 0 && afterBlanks(bytes, after, bytes.length) === bytes.length;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const SEEDS = [
  '{"a":[1,-0.5,1e5,2E-7,{"b":null}],"c":"x\\"\\\\\\u00e9\\n","d":{"e":true,"f":false},"g":[]}',
  ' [ 0 , [ [ ] , { } ] , "é😀" , -1.25e+10 ] ',
  '"text"',
  "-0",
  '{"k":{"k":{"k":[[[0]]]}}}',
];
const CHUNKS = [
  ...[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\\u12",
    "\\u00G0",
    "\\x",
    "-",
    "+",
    ".",
    "e",
    "0",
    "01",
    "1.",
    ".5",
  ],
  ...[
    "1e",
    "tru",
    "true",
    "null",
    "NaN",
    " ",
    "\t",
    "\n",
    "\u0001",
    "\u00a0",
    "\ufeff",
    "é",
    '""',
    "[]",
    "{}",
    '"a":1,',
  ],
];

function randomly(seed: number): (below: number) => number {
  let state = seed;
  return (below) => Math.floor((state = state * 48_271 % 2_147_483_647) / 2_147_483_647 * below);
}

Deno.test("JSON walk: takes for JSON what JSON.parse takes for it, and nothing else", () => {
  const below = randomly(7);
  let valid = 0;
  for (let i = 0; i < 20_000; i++) {
    let text = SEEDS[below(SEEDS.length)]!;
    for (let changes = below(3); changes >= 0; changes--) {
      const at = below(text.length + 1);
      text = text.slice(0, at) + (below(3) === 0 ? "" : CHUNKS[below(CHUNKS.length)]!) +
        text.slice(at + below(3));
    }
    text = text.toWellFormed();
    const expected = isJson(text);
    if (expected) valid++;
    assert.equal(accepted(text), expected, JSON.stringify(text));
  }
  assert(valid > 500, `only ${valid} of the texts were JSON`);
});

Deno.test("JSON walk: bare non-finite words are values where they are asked for", () => {
  for (const text of ["NaN", "[NaN,-Infinity]", '{"a":Infinity}']) {
    assert.equal(accepted(text), false);
    assert.equal(accepted(text, true), true);
  }
  for (const text of ["-NaN", "+Infinity", "NaNs", "[1NaN]", "Infinit"]) {
    assert.equal(accepted(text, true), false, text);
  }
});

Deno.test("JSON walk: a value nests at most as deep as one that parsedJson takes", () => {
  for (const [open, close] of [["[", "]"], ['{"a":', "}"]] as const) {
    const nested = (levels: number) => `${open.repeat(levels)}0${close.repeat(levels)}`;
    assert.equal(accepted(nested(MAX_JSON_DEPTH - 1)), true);
    assert.equal(accepted(nested(MAX_JSON_DEPTH)), false, "the line's own object is a level");
    assert.equal(isTooDeep(nested(MAX_JSON_DEPTH)), false);
    assert.equal(isTooDeep(nested(MAX_JSON_DEPTH + 1)), true);
    for (const levels of [6000, 20_000, 200_000]) {
      assert.equal(accepted(nested(levels)), false);
      assert.throws(() => parsedJson(nested(levels)), /more than 200 levels/);
    }
  }
  const inText = `["${"[".repeat(1000)}\\\"${"{".repeat(1000)}"]`;
  assert.deepEqual(parsedJson(inText), JSON.parse(inText), "brackets in texts do not count");
});

Deno.test("fields: values are those of JSON.parse, whatever the number looks like", () => {
  const fields = new Fields();
  const below = randomly(3);
  const digits = () =>
    String(below(1e9)).padStart(9, "0").slice(0, 1 + below(9)) +
    (below(2) ? String(below(1e9)) : "");
  for (let i = 0; i < 5000; i++) {
    const whole = String(Number(digits()));
    const text = `${below(2) ? "-" : ""}${whole}${below(2) ? `.${digits()}` : ""}${
      below(5) ? "" : `e${below(40) - 20}`
    }`;
    const lines = Lines.of(`{"reward":${text}}`);
    assert(fields.load(lines, 0, lines.ends[0]!), text);
    assert(Object.is(fields.value(SLOT.reward), JSON.parse(text)), text);
  }
});

Deno.test("fields: lines of ever new keys are read like others", () => {
  const fields = new Fields();
  for (let i = 0; i < 5000; i++) {
    const lines = Lines.of(`{"type":"step","key ${i}":${i},"reward":${i},"x${i % 100}":0}`);
    assert(fields.load(lines, 0, lines.ends[0]!));
    assert.equal(fields.value(SLOT.reward), i);
    assert.equal(fields.value(SLOT.type), "step");
    for (const slot of [SLOT.type, SLOT.reward]) fields.take(slot);
    assert.equal(fields.leftovers(), `"key ${i}":${i},"x${i % 100}":0`);
  }
});

Deno.test("fields: a line of very many keys, and one of long keys, are read like others", () => {
  const fields = new Fields();
  const many = Array.from({ length: 20_000 }, (_, i) => `"layer.${i}.norm":${i}`).join(",");
  for (const others of [many, `"${"k".repeat(100_000)}":0`]) {
    const lines = Lines.of(`{"type":"step","reward":1,${others},"reward":2}`);
    for (let time = 0; time < 2; time++) {
      assert(fields.load(lines, 0, lines.ends[0]!));
      assert.equal(fields.value(SLOT.reward), 2);
      for (const slot of [SLOT.type, SLOT.reward]) fields.take(slot);
      assert.equal(fields.leftovers(), others);
    }
  }
});

Deno.test("fields: a text of many megabytes beside a bare NaN", () => {
  const fields = new Fields();
  const frame = `"NaN \\" ${"x".repeat(20_000_000)}"`;
  const lines = Lines.of(`{"type":"step","reward":NaN,"frame":${frame},"loss":-Infinity}`);
  assert(fields.load(lines, 0, lines.ends[0]!));
  assert.equal(fields.record().frame, JSON.parse(frame));
  for (const slot of [SLOT.type, SLOT.reward]) fields.take(slot);
  assert(fields.leftovers() === `"frame":${frame},"loss":"-Infinity"`);
});

Deno.test("lines: positions hold where a byte is no character", () => {
  const bytes = encoder.encode("é\n\nplain\n");
  bytes[7] = 0xff;
  const ends = [2, 3, 9];
  const lines = new Lines(bytes, ends);
  assert.deepEqual([...lines], ["é", "", "pla\ufffdn"]);
  assert.deepEqual([...Lines.of("a", "", "b")], ["a", "", "b"]);
});
