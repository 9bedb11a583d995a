import assert from "node:assert/strict";
import { readJson, writeJson } from "../../src/config/lossless_json.ts";

const roundTrip = (text: string) => writeJson(readJson(text));

Deno.test("json: numbers are written as Python writes them", () => {
  const cases: [string, string][] = [
    ["1", "1"],
    ["-0", "0"],
    ["-0.0", "-0.0"],
    ["1.0", "1.0"],
    ["1E2", "100.0"],
    ["2.5e-4", "0.00025"],
    ["0.0001", "0.0001"],
    ["0.00001", "1e-05"],
    ["1e15", "1000000000000000.0"],
    ["1e16", "1e+16"],
    ["123456.789", "123456.789"],
    ["-1.5e-300", "-1.5e-300"],
    ["5e-324", "5e-324"],
    ["1.7976931348623157e308", "1.7976931348623157e+308"],
    ["9007199254740993", "9007199254740993"],
    ["12345678901234567890123", "12345678901234567890123"],
    ["1e400", '{"__type__":"float","value":"inf"}'],
    ["-Infinity", '{"__type__":"float","value":"-inf"}'],
    ["NaN", '{"__type__":"float","value":"nan"}'],
  ];
  for (const [given, expected] of cases) assert.equal(roundTrip(given), expected, given);
});

Deno.test("json: a repeated key keeps its first place and its last value, and index-like keys stay in order", () => {
  assert.equal(
    roundTrip('{"b":1,"2":2,"1":3,"b":4,"__proto__":5}'),
    '{"b":4,"2":2,"1":3,"__proto__":5}',
  );
});

Deno.test("json: strings are escaped only where they must be, or wholly on demand", () => {
  const text = '"\\u00eb \\/ \\u0001\\t\\" \\u007f \\ud83d\\ude00"';
  assert.equal(roundTrip(text), '"ë / \\u0001\\t\\" \x7f 😀"');
  assert.equal(
    writeJson(readJson(text), { ascii: true }),
    '"\\u00eb / \\u0001\\t\\" \\u007f \\ud83d\\ude00"',
  );
});

Deno.test("json: sorted keys go by code point, as in Python", () => {
  assert.equal(
    writeJson(readJson('{"😀":1,"\uffee":2,"a":3}'), { sortKeys: true }),
    '{"a":3,"\uffee":2,"😀":1}',
  );
});

Deno.test("json: indented output keeps bare NaN where a Python worker reads it", () => {
  const text = writeJson(readJson('{"a":[1,NaN],"e":{},"f":[]}'), {
    indent: true,
    nonFinite: "bare",
  });
  assert.equal(text, '{\n  "a": [\n    1,\n    NaN\n  ],\n  "e": {},\n  "f": []\n}');
});

Deno.test("json: what is not JSON is refused with line and column", () => {
  const cases: [string, RegExp][] = [
    ["", /expected a value, found the end \(line 1, column 1\)/],
    ['{\n "a": tru}', /found "t" \(line 2, column 7\)/],
    ['{"a":1,}', /expected a key in double quotes/],
    ["{'a':1}", /expected a key in double quotes/],
    ['{"a" 1}', /expected ":" after the key "a"/],
    ["[1", /expected "," or "\]"/],
    ["[1] 2", /more text after the value/],
    ["01", /more text after the value/],
    ["1.", /more text after the value/],
    ['"a', /a string does not end/],
    ['"a\nb"', /control character that is not escaped/],
    ['"\\x"', /an escape that JSON does not have/],
    ['"\\ud800"', /half of a surrogate pair/],
    ["[".repeat(100_000), /nests more than 200 levels/],
    ["9".repeat(5000), /more than 4300 digits/],
  ];
  for (const [text, message] of cases) {
    assert.throws(() => readJson(text), (error: Error & { code?: string }) => {
      assert.match(error.message, message, text.slice(0, 20));
      return error.code === "invalid_argument";
    });
  }
});
