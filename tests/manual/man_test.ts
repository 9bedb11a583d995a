/** Man pages, and what they and the reference are made of: the text of `--help`. */
import assert from "node:assert/strict";
import { VERBS } from "../../src/cli/verbs.ts";
import { parseHelp } from "../../scripts/gen/docs/help_text.ts";
import { COMMANDS_PAGE, manPages } from "../../src/manual/man.ts";
import { manualPage } from "../../src/manual/pages.ts";
import { mosaic } from "../system/machine/cli.ts";

Deno.test("help text: usage, text, options with long terms, and examples are told apart", () => {
  const help = parseHelp(`Usage: mosaic try [options] <file>
       mosaic try list

Tries a file. It
takes long.

Options:
  -q, --quiet       say
                    nothing
  --a-very-long-option SECONDS
                    time (default: 60)

Limits (all of them):
  --most <n>        maximum

More about it.

Examples:
  $ mosaic try a \\
      --quiet
      without words

Exit codes:
  0  done
`);
  assert.deepEqual(help.usage, ["mosaic try [options] <file>", "mosaic try list"]);
  assert.deepEqual(help.paragraphs, ["Tries a file. It takes long.", "More about it."]);
  assert.deepEqual(Object.fromEntries(help.lists), {
    "Options": [
      { term: "-q, --quiet", meaning: "say nothing" },
      { term: "--a-very-long-option SECONDS", meaning: "time (default: 60)" },
    ],
    "Limits (all of them)": [{ term: "--most <n>", meaning: "maximum" }],
    "Exit codes": [{ term: "0", meaning: "done" }],
  });
  assert.deepEqual(help.examples, [
    { term: "mosaic try a \\\n  --quiet", meaning: "without words" },
  ]);
});

Deno.test("man pages: each command has one, with its name, its options and its exit codes", async () => {
  const pages = manPages((await manualPage(COMMANDS_PAGE)).text);
  for (const { name, now } of VERBS) {
    const page = pages.get(`mosaic-${name}.1`);
    assert.match(page ?? "", /^\.SH NAME\nmosaic/m, name);
    if (now === undefined) assert.match(page!, /^\.SH SYNOPSIS$/m, name);
  }
  const run = pages.get("mosaic-run.1")!;
  assert.match(run, /\.SH OPTIONS\n\.TP\n\\fB\\-n, \\-\\-name <name>\\fR\nname of the run/);
  assert.match(run, /\.SH EXIT STATUS\n\.TP\n\\fB0\\fR\nsubmitted/);
  assert.match(run, /\.SH EXAMPLES\n\.nf\n/);
  assert.match(pages.get("mosaic.1")!, /\\fBMOSAIC_STATE_DIR\\fR/);
  assert.ok(pages.has("mosaic-sweep-show.1"));
  for (const [name, text] of pages) {
    for (const line of text.split("\n")) {
      const request = /^[.'](.*)/.exec(line)?.[1];
      if (request !== undefined) assert.match(request, /^(TH|SH|PP|TP|BR?|nf|fi)\b/, name);
    }
  }
});

const hasMan = (() => {
  try {
    return new Deno.Command("man", { args: ["--version"] }).outputSync().success;
  } catch {
    return false;
  }
})();

Deno.test({
  name:
    "mosaic docs --man: man renders what it has written, without a warning (needs man-db, groff)",
  ignore: !hasMan,
  fn: async () => {
    const directory = Deno.makeTempDirSync({ prefix: "mosaic-test-man-" });
    try {
      await mosaic(["docs", "--man", directory]);
      const files = [...Deno.readDirSync(directory)].map(({ name }) => name);
      assert.ok(files.length > VERBS.length);
      for (const file of ["mosaic.1", "mosaic-run.1", "mosaic-proxy.1", "mosaic-sweep-show.1"]) {
        const man = await new Deno.Command("man", {
          args: ["--warnings", "-l", `${directory}/${file}`],
          env: { LC_ALL: "C.UTF-8", MANWIDTH: "80" },
        }).output();
        assert.ok(man.success);
        assert.equal(new TextDecoder().decode(man.stderr), "", file);
      }
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
});
