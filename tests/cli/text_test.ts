import { strict as assert } from "node:assert";
import { csv } from "../../src/base/text/csv_text.ts";
import { facts, table } from "../../src/cli/text/table.ts";
import { cut, escapeControl, pad, widthOf } from "../../src/cli/text/text.ts";
import { didYouMean, nearest } from "../../src/base/text/nearest.ts";
import { terminalOf } from "../../src/cli/real_context.ts";

Deno.test("text: width counts columns, not characters", () => {
  for (
    const [text, width] of [["abc", 3], ["Zoë", 3], ["e\u0301", 1], ["日本", 4], ["🚀x", 3], [
      "",
      0,
    ]] as const
  ) {
    assert.equal(widthOf(text), width, text);
  }
  assert.equal(cut("日本語", 4), "日…");
  assert.equal(cut("abcdef", 4), "abc…");
  assert.equal(cut("abc", 3), "abc");
  assert.equal(pad("日", 4, "right"), "  日");
});

Deno.test("text: a terminal obeys nothing that a worker wrote", () => {
  assert.equal(escapeControl("a\x1b[31mred\x07\x7f"), "a␛[31mred␇␡");
  assert.equal(escapeControl("two\nlines\tand\r\nmore"), "two lines and more");
  assert.equal(escapeControl("\u202egpj.exe\u009b2J"), "�gpj.exe�2J");
});

const COLUMNS = [
  { name: "run", text: (r: string[]) => r[0]! },
  { name: "name", shrinkTo: 4, text: (r: string[]) => r[1]! },
  { name: "steps", align: "right" as const, text: (r: string[]) => r[2]! },
];
const ROWS = [["01A", "a long name of a run", "12"], ["01B", "", "3456"]];

Deno.test("table: columns are aligned, and an empty cell is a dash", () => {
  assert.equal(
    table(COLUMNS, ROWS, { width: undefined, color: false }),
    "RUN  NAME                  STEPS\n01A  a long name of a run     12\n01B  -                      3456\n",
  );
});

Deno.test("table: what may shrink shrinks to the terminal's width, the rest is never cut", () => {
  assert.equal(
    table(COLUMNS, ROWS, { width: 20, color: false }),
    "RUN  NAME      STEPS\n01A  a long …     12\n01B  -          3456\n",
  );
  const narrow = table(COLUMNS, ROWS, { width: 5, color: false, heading: false });
  assert.equal(narrow, "01A  a l…    12\n01B  -     3456\n");
});

Deno.test("table: colour goes around the text, not around its padding", () => {
  const painted = table([{ name: "s", text: () => "x", style: () => "red" as const }], [0], {
    width: 80,
    color: true,
    heading: false,
  });
  assert.equal(painted, "\x1b[31mx\x1b[39m\n");
});

Deno.test("csv: a text that a spreadsheet would calculate is a text, and a number stays a number", () => {
  const formulas = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    '=HYPERLINK("http://x","y")',
    "=",
    "-",
  ];
  const cells = csv(["x"], formulas.map((text) => [text])).slice(2);
  for (const text of formulas) assert.ok(cells.includes(`'${text.replaceAll('"', '""')}`), text);
  assert.equal(csv(["=h"], []), "'=h\n");
  const kept = [
    -5,
    "-5",
    "+0.5",
    "-1e-7",
    "-inf",
    "+Infinity",
    "NaN",
    "a=b",
    "",
    "1-2",
    [-1],
    { "=": 1 },
    true,
    -0.5,
  ];
  assert.equal(
    csv(["x"], kept.map((value) => [value])),
    'x\n-5\n-5\n+0.5\n-1e-7\n-inf\n+Infinity\nNaN\na=b\n\n1-2\n[-1]\n"{""="":1}"\ntrue\n-0.5\n',
  );
});

Deno.test("csv: one function writes all of it", () => {
  const writers: string[] = [];
  const visit = (directory: string) => {
    for (const { name, isDirectory } of Deno.readDirSync(directory)) {
      const path = `${directory}/${name}`;
      if (isDirectory) visit(path);
      // A field that is quoted by doubling its quotes.
      else if (
        /\.tsx?$/.test(name) && /replaceAll\('"', '""'\)/.test(Deno.readTextFileSync(path))
      ) writers.push(name);
    }
  };
  for (const part of ["base", "cli", "ui"]) {
    visit(new URL(`../../src/${part}`, import.meta.url).pathname);
  }
  assert.deepEqual(writers, ["csv_text.ts"]);
});

Deno.test("csv: fields are quoted where they must be", () => {
  assert.equal(
    csv(["a", "b"], [["x,y", 'say "hi"'], [null, { k: [1] }]]),
    'a,b\n"x,y","say ""hi"""\n,"{""k"":[1]}"\n',
  );
});

Deno.test("facts: entries without a value are left out", () => {
  assert.equal(
    facts([["run", "01A"], ["reason", ""], ["gpus", undefined], ["outcome", "x"]], false),
    "run      01A\noutcome  x\n",
  );
});

Deno.test("did you mean: near words are found, far ones are not", () => {
  const verbs = ["list", "logs", "cancel", "show", "steps", "submit", "status"];
  assert.deepEqual(nearest("lsit", verbs), ["list"]);
  assert.deepEqual(nearest("LOGS", verbs), ["logs"]);
  assert.deepEqual(nearest("can", verbs), ["cancel"]);
  assert.deepEqual(nearest("frobnicate", verbs), []);
  assert.equal(didYouMean("stat", verbs), " Did you mean status?");
  assert.equal(didYouMean("xyzzy", verbs), "");
});

Deno.test("terminal: NO_COLOR, TERM=dumb and pipes switch colours off", () => {
  const env = (o: Record<string, string>) => (name: string) => o[name];
  assert.equal(terminalOf(false, env({})).color, false);
  assert.equal(terminalOf(true, env({ NO_COLOR: "1" })).color, false);
  assert.equal(terminalOf(true, env({ TERM: "dumb" })).color, false);
  assert.equal(terminalOf(true, env({ NO_COLOR: "" })).color, true);
  assert.equal(terminalOf(false, env({ COLUMNS: "132" })).width, 132);
});
