/**
 * The completion scripts in the shells themselves, beside runs whose names would be commands if a
 * shell ran them.
 */
import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import {
  completionScript,
  runCandidates,
  type Shell,
  SHELLS,
} from "../../src/cli/verb/completion_scripts.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { describeVerbs } from "../../src/cli/verbs/help/completions.ts";
import { fakeRun, fakeWorld, ID_A, ID_B } from "./fakes.ts";

/** Each makes the file "ran" in the working directory when a shell runs or expands it. */
const HOSTILE = [
  "$(touch ran)",
  "`touch ran`",
  "x;touch ran",
  "x|touch ran",
  "${x:=$(touch ran)}",
  "<(touch ran)",
  "x' $(touch ran) '",
  'x" $(touch ran) "',
  "two words, and * too",
  "~root",
  "größe",
];

function isInstalled(shell: Shell): boolean {
  try {
    return new Deno.Command(shell, { args: ["-c", "exit 0"], stdout: "null", stderr: "null" })
      .outputSync().success;
  } catch {
    return false;
  }
}

function shellTest(shell: Shell, name: string, work: () => Promise<void>): void {
  if (isInstalled(shell)) {
    Deno.test(`${shell}: ${name}`, work);
    return;
  }
  console.log(`SKIPPED: ${shell} is not installed: ${name}`);
  Deno.test({ name: `${shell}: ${name} (skipped: not installed)`, ignore: true, fn() {} });
}

/**
 * Runs a script in the shell, in an empty directory, with the completions sourced and a `mosaic`
 * that offers `candidates`.
 */
async function inShell(
  shell: Shell,
  candidates: readonly string[],
  script: string,
): Promise<string[]> {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${directory}/bin`);
    await Deno.mkdir(`${directory}/work`);
    await Deno.writeTextFile(`${directory}/candidates`, candidates.map((c) => `${c}\n`).join(""));
    await Deno.writeTextFile(
      `${directory}/bin/mosaic`,
      `#!/bin/sh\nexec cat '${directory}/candidates'\n`,
      {
        mode: 0o755,
      },
    );
    const sourced = `${directory}/completions`;
    await Deno.writeTextFile(
      sourced,
      completionScript(shell, await describeVerbs(fakeWorld(), VERBS)),
    );
    const { stdout, stderr, success } = await new Deno.Command(shell, {
      args: [
        ...(shell === "fish" ? ["--no-config"] : shell === "zsh" ? ["-f"] : ["--norc"]),
        "-c",
        script,
      ],
      cwd: `${directory}/work`,
      env: {
        PATH: `${directory}/bin:${Deno.env.get("PATH")}`,
        HOME: directory,
        COMPLETIONS: sourced,
        LC_ALL: "C.UTF-8",
      },
      stdout: "piped",
      stderr: "piped",
    }).output();
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.ok(success, `${out}\n${err}`);
    assert.deepEqual(
      [...Deno.readDirSync(`${directory}/work`)].map((e) => e.name),
      [],
      `a name was run: ${out}`,
    );
    return out!.split("\0").slice(0, -1);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("completions: every verb and option is there", async () => {
  const verbs = await describeVerbs(fakeWorld(), VERBS);
  assert.ok(verbs.find((v) => v.name === "show")!.takesRuns);
  assert.ok(!verbs.find((v) => v.name === "submit")!.takesRuns);
  for (const shell of SHELLS) {
    const script = completionScript(shell, verbs);
    for (const v of verbs) assert.ok(script.includes(v.name), `${shell}: ${v.name}`);
    assert.ok(script.includes("columns"));
  }
});

for (const shell of SHELLS) {
  shellTest(shell, "the script is read without an error", async () => {
    const file = await Deno.makeTempFile();
    try {
      await Deno.writeTextFile(
        file,
        completionScript(shell, await describeVerbs(fakeWorld(), VERBS)),
      );
      const read = await new Deno.Command(shell, { args: ["-n", file], stderr: "piped" }).output();
      assert.ok(read.success, new TextDecoder().decode(read.stderr));
    } finally {
      await Deno.remove(file);
    }
  });
}

/** What is put on the command line, as it stands there and as the shell then reads it. */
shellTest(
  "bash",
  "a run's name is offered as one word that means itself, and never run",
  async () => {
    const lines = await inShell(
      "bash",
      ["@last", ...HOSTILE],
      `source "$COMPLETIONS"
    COMP_WORDS=(mosaic show "") COMP_CWORD=2
    _mosaic
    for reply in "\${COMPREPLY[@]}"; do eval "set -- $reply"; printf '%s\\0' "$#:$1"; done`,
    );
    assert.deepEqual(lines, ["@last", ...HOSTILE].map((name) => `1:${name}`));
    const begun = (word: string) =>
      inShell(
        "bash",
        ["@last", ...HOSTILE],
        `source "$COMPLETIONS"; COMP_WORDS=(mosaic show '${word}') COMP_CWORD=2; _mosaic; printf '%s\\0' "\${COMPREPLY[@]}"`,
      );
    assert.deepEqual(await begun("two"), ["two\\ words\\,\\ and\\ \\*\\ too"]);
    assert.deepEqual(await begun("two\\ w"), ["two\\ words\\,\\ and\\ \\*\\ too"]);
  },
);

shellTest(
  "zsh",
  "a run's name is offered as one word, which compadd quotes, and never run",
  async () => {
    // compadd works inside the line editor only: this one says what it was given, and how zsh
    // quotes that.
    const lines = await inShell(
      "zsh",
      ["@last", ...HOSTILE],
      `compdef() { : }
    compadd() { [[ "$1" = -a && $# = 2 ]] || exit 9; for reply in "\${(@P)2}"; do eval "set -- \${(q)reply}"; printf '%s\\0' "$#:$1"; done }
    source "$COMPLETIONS"
    _mosaic_runs`,
    );
    assert.deepEqual(lines, ["@last", ...HOSTILE].map((name) => `1:${name}`));
  },
);

shellTest("fish", "a run's name is offered as it is, and never run", async () => {
  const lines = await inShell(
    "fish",
    ["@last", ...HOSTILE],
    `source "$COMPLETIONS"; for reply in (complete -C "mosaic show ''"); printf '%s\\0' $reply; end`,
  );
  assert.deepEqual(
    lines.filter((line) => !line.startsWith("-")).sort(),
    ["@last", ...HOSTILE].sort(),
  );
});

shellTest(
  "bash",
  "list -c, --sort and --where offer columns, each part of a list by itself",
  async () => {
    const columns = ["run", "param.lr", "metric.eval/mean reward", "metric.$(touch ran)"];
    const offered = (before: string, word: string) =>
      inShell(
        "bash",
        columns,
        `source "$COMPLETIONS"; compopt() { :; }; COMP_WORDS=(mosaic list ${before} '${word}') COMP_CWORD=3; _mosaic
      printf '%s\\0' "\${COMPREPLY[@]}"`,
      );
    assert.deepEqual(await offered("-c", "run,par"), ["run,param.lr"]);
    assert.deepEqual(await offered("--sort", "-metric.e"), ["-metric.eval/mean\\ reward"]);
    assert.deepEqual(await offered("--where", "p"), ["param.lr"]);
    assert.deepEqual(await offered("--columns", "metric.$"), ["metric.\\$\\(touch\\ ran\\)"]);
  },
);

shellTest(
  "fish",
  "list -c, --sort and --where offer columns, each part of a list by itself",
  async () => {
    const offered = (words: string) =>
      inShell(
        "fish",
        ["run", "param.lr", "metric.$(touch ran)"],
        `source "$COMPLETIONS"; for reply in (complete -C "mosaic list ${words}"); printf '%s\\0' (string split -f1 \\t -- $reply); end`,
      );
    assert.deepEqual(await offered("-c run,par"), ["run,param.lr"]);
    assert.deepEqual(await offered("--sort m"), ["metric.$(touch ran)"]);
  },
);

Deno.test("completions: columns are those of the table, and what all runs' parameters and metrics are called", async () => {
  const world = fakeWorld({
    ListColumns: () => ({ parameters: ["lr"], metrics: ["loss", "a,b", "x\x1b[2J"] }),
  });
  assert.equal(await runCli(["completions", "columns"], world), 0);
  assert.match(world.stdout(), /^run\n[^]*\nparam\.lr\nmetric\.loss\n$/);
});

Deno.test("completions: names that a terminal would obey, or that read as options, are not offered", async () => {
  const named = (runId: string, name: string) => fakeRun({ runId, name });
  const names = ["\x1b]52;c;eA==\x07", "two\nlines", "\u202eexe", "--all", "", "$(touch ran)"];
  assert.deepEqual(
    runCandidates(names.map((name) => ({ runId: ID_A, name }))),
    ["@last", ID_A, "$(touch ran)"],
  );
  const world = fakeWorld({ ListRuns: () => ({ runs: [named(ID_A, "one"), named(ID_B, "one")] }) });
  assert.equal(await runCli(["completions", "runs"], world), 0);
  assert.equal(world.stdout(), `@last\n${ID_A}\none\n${ID_B}\n`);
});
