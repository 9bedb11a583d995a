/** Every command's --help is a manual page that fits a terminal of 80 columns. */
import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { PROGRAM } from "../harness/daemon.ts";
import { fakeWorld } from "./fakes.ts";

async function helpOf(verb: typeof VERBS[number]): Promise<string> {
  if (verb.load !== undefined) {
    const world = fakeWorld();
    assert.equal(await runCli([verb.name, "--help"], world), 0, world.stderr());
    return world.stdout();
  }
  // The parts write to the process's own output.
  const [program, ...args] = [...PROGRAM, verb.name, "--help"];
  const { code, stdout } = await new Deno.Command(program!, { args, env: { COLUMNS: "80" } })
    .output();
  assert.equal(code, 0);
  return new TextDecoder().decode(stdout);
}

for (const verb of VERBS) {
  Deno.test(`help: mosaic ${verb.name} has a synopsis, options, examples, exit codes, in 80 columns`, async () => {
    const text = await helpOf(verb);
    assert.match(text, new RegExp(`^Usage: mosaic ${verb.name} `));
    for (const section of ["Options:", "Examples:", "Exit codes:"]) {
      assert.match(text, new RegExp(`^${section}$`, "m"));
    }
    assert.match(text, /^ {2}\$ mosaic|^ {2}\$ .*mosaic /m);
    assert.match(text, /^ {2}0/m, "what exit code 0 means");
    assert.match(text, /-h, --help +show this help$/m);
    assert.deepEqual(text.split("\n").filter((line) => line.length > 80), []);
    assert.ok(text.endsWith("\n") && !/\n\n\n/.test(text), "no more than one empty line");
  });
}

Deno.test("help: the overview fits 80 columns, too", async () => {
  const world = fakeWorld();
  await runCli(["--help"], world);
  assert.deepEqual(world.stdout().split("\n").filter((line) => line.length > 80), []);
});

Deno.test("did you mean: whatever can be misspelt is told what was meant, with exit code 2", async () => {
  const answers = { ListRuns: () => ({ runs: [] }) };
  const cases: [words: string, expected: RegExp][] = [
    ["lsit", /unknown command "lsit"\. Did you mean list\?/],
    ["help lsit", /unknown command "lsit"\. Did you mean list\?/],
    ["permissions damon", /'damon' is invalid.* Did you mean daemon\?/],
    ["list --colums run", /unknown option '--colums'\. Did you mean --columns\?\n/],
    ["list --columns nmae", /no column "nmae"\. Did you mean name\?/],
    ["list --sort -stpes", /no column "stpes"\. Did you mean steps\?/],
    ["list --state runing", /no state "runing"\. Did you mean running\?/],
    [
      "list -o jsno",
      /'jsno' is invalid\. It must be table, wide, json, jsonl or csv\. Did you mean json\?/,
    ],
    ["export x --format parqet", /'parqet' is invalid.* Did you mean parquet\?/],
    ["export x --format csv --kind step", /--kind has "step"\. Did you mean steps\?/],
    ["completions bahs", /'bahs' is invalid.* Did you mean bash\?/],
    ["doctor -o jsn", /'jsn' is invalid.* Did you mean json\?/],
    ["token roate", /'roate' is invalid.* Did you mean rotate\?/],
    ["token show --role raed", /'raed' is invalid.* Did you mean read\?/],
    ["events -k fialed", /no kind of event "fialed"\. Did you mean failed\?/],
  ];
  for (const [words, expected] of cases) {
    const world = fakeWorld(answers);
    assert.equal(await runCli(words.split(" "), world), 2, words);
    assert.match(world.stderr(), expected);
    assert.doesNotMatch(world.stderr(), /mosaic: (mosaic|error):/);
  }
});
