/**
 * A repository that somebody else has made: what its index names, and what its directories have
 * become.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { COPY_FILES, LOOK } from "../../src/provenance/collect_script.ts";
import { pairsOf } from "../../src/provenance/collect.ts";
import { type Repository, repository } from "../provenance/repository.ts";

function script(repo: Repository, text: string, ...words: string[]): Map<string, string[]> {
  const { stdout } = new Deno.Command("/bin/sh", {
    args: ["-c", text, ...words],
    cwd: repo.directory,
    env: {
      HOME: "/nowhere",
      PATH: "/usr/local/bin:/usr/bin:/bin",
      MOSAIC_PATH: "/usr/bin:/bin",
      MOSAIC_PYTHON: "0",
    },
    clearEnv: true,
  }).outputSync();
  return pairsOf(new TextDecoder().decode(stdout));
}

/** Replaces a name in the index by another of the same length, as no git would. */
function rename(repo: Repository, from: string, to: string): void {
  const path = `${repo.directory}/.git/index`;
  const bytes = Deno.readFileSync(path).subarray(0, -20);
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  assert.equal(text.split(from).length, 2);
  const changed = Uint8Array.from(text.replace(from, to), (char) => char.charCodeAt(0));
  Deno.writeFileSync(
    path,
    new Uint8Array([...changed, ...createHash("sha1").update(changed).digest()]),
  );
}

Deno.test("hostile repository: an index that names files outside of it: none is read, and none is written", async () => {
  const name = "AA_private_txt";
  for (
    const hostile of [
      "../private_txt",
      "a/../../priv_t",
      "/tmp/private_t",
      ".git/config_x",
      ".GIT/config_x",
    ]
  ) {
    await using repo = repository();
    const [inner, copy] = [`${repo.directory}/in`, `${repo.directory}/out/code`];
    const nested: Repository = { ...repo, directory: inner };
    repo.write("in/keep", "");
    Deno.mkdirSync(copy, { recursive: true });
    repo.write("private_txt", "PRIVATE\n");
    repo.git("init", "-q", "in");
    const own = name.slice(0, hostile.length);
    repo.write(`in/${own}`, "x\n");
    repo.git("-C", "in", "add", own);
    rename(nested, own, hostile);

    const looked = script(nested, LOOK, "true");
    assert.match(`${looked.get("problem")}`, /index names files outside/, hostile);
    assert.equal(looked.has("diff"), false);

    assert.match(
      `${script(nested, COPY_FILES, "sh", copy).get("problem")}`,
      /index names files outside/,
      hostile,
    );
    assert.deepEqual([...Deno.readDirSync(`${repo.directory}/out`)].map((entry) => entry.name), [
      "code",
    ]);
    assert.deepEqual([...Deno.readDirSync(copy)], []);
  }
});

Deno.test("hostile repository: files behind a directory that is a link now are not copied", async () => {
  await using repo = repository();
  const elsewhere = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${elsewhere}/key.py`, "PRIVATE\n");
    repo.write("lib/key.py", "mine\n");
    repo.write("lib/deep er/b.py", "b\n");
    repo.write("a.py", "a\n");
    repo.git("add", "-A");
    repo.git("commit", "-qm", "first");
    repo.write("src/real.py", "r\n");
    repo.git("add", "-A");
    const out = `${elsewhere}/out`;
    const copied = () => {
      Deno.mkdirSync(out);
      assert.ok(script(repo, COPY_FILES, "sh", out).has("complete"));
      const found =
        new Deno.Command("find", { args: [".", "-type", "f"], cwd: out }).outputSync().stdout;
      Deno.removeSync(out, { recursive: true });
      return new TextDecoder().decode(found).trim().split("\n").sort();
    };
    assert.deepEqual(copied(), ["./a.py", "./lib/deep er/b.py", "./lib/key.py", "./src/real.py"]);
    Deno.removeSync(`${repo.directory}/lib`, { recursive: true });
    Deno.symlinkSync(elsewhere, `${repo.directory}/lib`);
    assert.deepEqual(copied(), ["./a.py", "./src/real.py"]);
  } finally {
    Deno.removeSync(elsewhere, { recursive: true });
  }
});
