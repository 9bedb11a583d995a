/** Decisions about records, as tables. */
import { strict as assert } from "node:assert";
import {
  changedWords,
  changesSince,
  fileDifferences,
  packageDifferences,
} from "../../src/provenance/changes.ts";
import type { CodeFile, CodeRecord } from "../../src/provenance/code_record.ts";
import { differingLines } from "../../src/provenance/compared_diffs.ts";
import { partsOf } from "../../src/provenance/diff_parts.ts";
import { packagesOf, withoutCredentials } from "../../src/provenance/packages.ts";
import { chooseUntracked, untrackedOf } from "../../src/provenance/untracked.ts";

const hash = (letter: string) => letter.repeat(64);

function record(
  files: [string, CodeFile["change"], string][],
  words: [string, string][] = [],
  commit = hash("c").slice(24),
): CodeRecord {
  return {
    cwd: "/r/sub",
    git: {
      ...{
        root: "/r",
        commit,
        branch: "main",
        remote: null,
        left_out: [],
        masked: [],
        diff_sha256: null,
      },
      files: files.map(([path, change, letter]) => ({ path, change, sha256: hash(letter) })),
    },
    words: words.map(([path, letter]) => ({ path, sha256: hash(letter) })),
    problems: [],
  };
}

Deno.test("changes since the submission: source files that the run reads, not what other runs write", () => {
  const before = record([["a.py", "modified", "1"], ["new.py", "untracked", "2"], [
    "log.txt",
    "untracked",
    "3",
  ]], [[
    "../a.py",
    "1",
  ]]);
  const table: [CodeRecord, string[]][] = [
    [before, []],
    [record([["a.py", "modified", "9"], ["new.py", "untracked", "2"]], [["../a.py", "9"]]), [
      "a.py",
    ]],
    [record([["new.py", "untracked", "2"]], [["../a.py", "1"]]), ["a.py"]],
    [record([["a.py", "modified", "1"], ["new.py", "untracked", "8"]], [["../a.py", "1"]]), [
      "new.py",
    ]],
    [record([["a.py", "modified", "1"]], [["../a.py", "1"]]), ["new.py"]],
    [
      record([
        ...before.git!.files.map((
          f,
        ): [string, CodeFile["change"], string] => [f.path, f.change, f.sha256[0]!]),
        [
          "out.py",
          "untracked",
          "7",
        ],
      ], [["../a.py", "1"]]),
      [],
    ],
    [record([], [["../a.py", "1"]], hash("d").slice(24)), ["commit ccccccccc..ddddddddd"]],
    [{ ...before, git: null }, []],
    [{ ...record([], []), cwd: "/copy" }, []],
  ];
  for (const [now, expected] of table) assert.deepEqual(changesSince(before, now), expected);
  assert.equal(changedWords(["a.py", "b.py", "c.py", "d.py"]), "a.py, b.py and 2 more");
});

Deno.test("diffs: parts by their files, also with names that git quotes", () => {
  const header = (name: string) => `diff --git a/${name} b/${name}\n`;
  const diff =
    `${
      header("a b.py")
    }index 1..2 100644\n--- a/a b.py\t\n+++ b/a b.py\t\n@@ -1 +1 @@\n-diff --git a/x b/x\n+y\n` +
    `diff --git "a/\\303\\251\\n.py" "b/\\303\\251\\n.py"\ndeleted file mode 100644\n--- "a/\\303\\251\\n.py"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n` +
    `${header("run.sh")}old mode 100644\nnew mode 100755\n` +
    `${header("d.bin")}index 1..2 100644\nBinary files a/d.bin and b/d.bin differ\n`;
  assert.deepEqual(partsOf(diff).map(({ path, change, binary }) => [path, change, binary]), [
    ["a b.py", "modified", false],
    ["\u00e9\n.py", "deleted", false],
    ["run.sh", "modified", false],
    ["d.bin", "modified", true],
  ]);
  assert.equal(partsOf(diff).map(({ text }) => text).join(""), diff);
  const bytes = (text: string) => new TextEncoder().encode(text);
  const part = (line: string) =>
    `${header("a.py")}--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n x\n${line}\n`;
  assert.deepEqual(differingLines(bytes(part("+lr = 1")), bytes(part("+lr = 2"))), [
    "a.py",
    "< +lr = 1",
    "> +lr = 2",
  ]);
  assert.deepEqual(differingLines(bytes(diff), bytes(diff)), []);
});

Deno.test("packages: by the names of their metadata, normalized, and addresses without credentials", () => {
  const { packages, sources } = packagesOf(
    [
      "ruamel.yaml-0.18.6.dist-info",
      "Foo_Bar-1.0-py3.11-linux-x86_64.egg-info",
      "_distutils_hack",
      "x.dist-info",
    ],
    ["python-3.11.5-h955ad1f_0.json", "numpy-base-1.26.4-py311hf175353_0.json", "history"],
    [
      'ruamel.yaml-0.18.6.dist-info {"url":"https://u:p@example.org/r","vcs_info":{"vcs":"git","commit_id":"abc"}}',
      "torn {",
    ],
  );
  assert.deepEqual(packages, [["foo-bar", "1.0"], ["numpy-base", "1.26.4"], ["python", "3.11.5"], [
    "ruamel-yaml",
    "0.18.6",
  ]]);
  assert.deepEqual(sources, { "ruamel-yaml": "https://example.org/r@abc" });
  assert.equal(withoutCredentials("git@github.com:o/r.git"), "git@github.com:o/r.git");
  assert.deepEqual(packageDifferences([["a", "1"], ["b", "1"]], [["b", "2"], ["c", "3"]]), [
    { name: "a", a: "1", b: null },
    { name: "b", a: "1", b: "2" },
    { name: "c", a: null, b: "3" },
  ]);
  assert.deepEqual(fileDifferences([{ path: "x", change: "modified", sha256: hash("1") }], []), [
    { path: "x", a: "modified 111111111111", b: null },
  ]);
});

Deno.test("untracked files: text within bounds; others are named with the reason", () => {
  const file = (path: string, bytes = 10, kind = "regular file") => ({ path, bytes, kind });
  const { taken, leftOut } = chooseUntracked([
    file("a.py"),
    file("empty.py", 0, "regular empty file"),
    file("secret_token"),
    file("tokenizer.py"),
    file("auth_token.py"),
    file("keys/id_ed25519"),
    file("big.py", 2 << 20),
    file("m.safetensors"),
    file("fifo", 0, "fifo"),
    ...Array.from({ length: 6 }, (_, i) => file(`${i}.txt`, 1 << 20)),
  ]);
  assert.deepEqual(taken, [
    "a.py",
    "empty.py",
    "tokenizer.py",
    "auth_token.py",
    "0.txt",
    "1.txt",
    "2.txt",
    "3.txt",
  ]);
  assert.deepEqual(leftOut.map(({ path, why }) => `${path}: ${why}`), [
    "secret_token: its name says that it holds secrets",
    "keys/id_ed25519: its name says that it holds secrets",
    "big.py: larger than 1 MiB",
    "m.safetensors: not a text file",
    "fifo: a fifo",
    "4.txt: more than 5 MiB together",
    "5.txt: more than 5 MiB together",
  ]);
  assert.deepEqual(untrackedOf("12 regular file a\nb c.py"), {
    path: "a\nb c.py",
    bytes: 12,
    kind: "regular file",
  });
  assert.equal(untrackedOf("12 regular file \ufffd.py"), undefined);
});
