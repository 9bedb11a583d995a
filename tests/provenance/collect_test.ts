/** What is recorded of a working directory. */
import { strict as assert } from "node:assert";
import { collectCode, tellsSomething } from "../../src/provenance/collect.ts";
import { checkedCode, checkedEnvironment } from "../../src/provenance/code_record.ts";
import { runProgram } from "../../src/os/processes/external_program.ts";
import { repository } from "./repository.ts";

async function collected(cwd: string, command: string[], env: Record<string, string> = {}) {
  const found = await collectCode(
    command,
    { PATH: "/usr/bin:/bin", HOME: "/nonexistent", ...env },
    (script, words, scriptEnv) =>
      runProgram(["/bin/sh", "-c", script, ...words], {
        env: scriptEnv,
        cwd,
        limitMs: 30_000,
        group: true,
      }),
  );
  // What the daemon accepts.
  checkedCode(JSON.stringify(found.code));
  checkedEnvironment(JSON.stringify(found.environment));
  return found;
}

Deno.test("code: commit, branch, remote without credentials, changes that can be applied to the byte", async () => {
  await using repo = repository();
  repo.write("train.py", "a = 1\nb = 2\n");
  repo.write("gone.py", "x\n");
  repo.write("data.bin", "\0\0binary");
  repo.write(".gitignore", "runs/\n");
  repo.git("add", ".");
  repo.git("commit", "-qm", "first");
  repo.git(
    "remote",
    "add",
    "origin",
    "https://user:secret-pass@example.org/o/r.git?token=abcdefgh",
  );
  Deno.writeFileSync(
    `${repo.directory}/train.py`,
    Uint8Array.from([0x61, 0x3d, 0xe9, 10, 0x20, 10]),
  );
  Deno.removeSync(`${repo.directory}/gone.py`);
  repo.write("data.bin", "\0\0changed");
  repo.write("lib/new file.py", "caf\u00e9 = 1\nno newline at the end");
  repo.write("runs/ignored.py", "x\n");
  repo.write(".env", "TOKEN=abcdefgh1234\n");
  repo.write("weights.pt", "x");
  Deno.symlinkSync("/etc/passwd", `${repo.directory}/link.py`);
  const before = repo.git("status", "--porcelain");
  Deno.mkdirSync(`${repo.directory}/sub`);
  const { code, diff } = await collected(`${repo.directory}/sub`, ["/bin/sh", "../train.py"]);
  const git = code.git!;
  assert.equal(git.root, repo.directory);
  assert.equal(git.commit, repo.git("rev-parse", "HEAD"));
  assert.equal(git.branch, "main");
  assert.equal(git.remote, "https://example.org/o/r.git");
  assert.deepEqual(git.files.map(({ path, change }) => `${change} ${path}`), [
    "deleted gone.py",
    "modified train.py",
    "untracked lib/new file.py",
  ]);
  assert.deepEqual(git.left_out.map(({ path }) => path).sort(), [
    ".env",
    "data.bin",
    "link.py",
    "weights.pt",
  ]);
  assert.deepEqual(git.masked, []);
  assert.deepEqual(code.words.map(({ path }) => path), ["../train.py"]);
  assert.deepEqual(code.problems, []);
  assert.equal(repo.git("status", "--porcelain"), before, "the index is as it was");
  // The patch gives the same files.
  const patch = await Deno.makeTempFile();
  await using copy = repository();
  copy.git("fetch", "-q", repo.directory);
  copy.git("checkout", "-q", git.commit!);
  Deno.writeFileSync(patch, diff);
  copy.git("apply", patch);
  Deno.removeSync(patch);
  for (const path of ["train.py", "lib/new file.py"]) {
    assert.deepEqual(
      Deno.readFileSync(`${copy.directory}/${path}`),
      Deno.readFileSync(`${repo.directory}/${path}`),
    );
  }
  assert.throws(() => Deno.statSync(`${copy.directory}/gone.py`), Deno.errors.NotFound);
});

Deno.test("code: secrets in changes are masked, and the rest of the lines stays", async () => {
  await using repo = repository();
  repo.write("a.py", "x = 1\n");
  repo.git("add", ".");
  repo.git("commit", "-qm", "first");
  repo.write(
    "a.py",
    `x = 1\nAPI_KEY = "0123456789abcdef"\npad_token = eos_token\ndef f(token: str, api_key=None): pass\n` +
      `url = "postgres://me:hunter22@db/x"\nhf = "hf_abcdefghijklmnopqrst"\n`,
  );
  repo.write(
    "conf.yaml",
    "tokens: 5\nwandb_api_key: a1b2c3d4e5f6a7b8c9d0e1f2 # mine\ntoken_file: /home/me/token\n",
  );
  const { code, diff } = await collected(repo.directory, ["/bin/true"]);
  const text = new TextDecoder().decode(diff);
  assert.deepEqual(code.git!.masked, ["a.py", "conf.yaml"]);
  assert.ok(
    text.includes("+tokens: 5\n+wandb_api_key: ******** # mine\n+token_file: /home/me/token\n"),
    text,
  );
  for (const secret of ["0123456789abcdef", "hunter22", "hf_abcdefghijklmnopqrst", "a1b2c3d4"]) {
    assert.ok(!text.includes(secret), text);
  }
  assert.ok(text.includes('+API_KEY = "********"'), text);
  assert.ok(
    text.includes("+pad_token = eos_token\n+def f(token: str, api_key=None): pass\n"),
    text,
  );
});

Deno.test("code: an untrusted repository runs no program", async () => {
  await using repo = repository();
  const trap = `${repo.directory}/trap.sh`;
  repo.write("a.txt", "one\n");
  repo.git("add", "a.txt");
  repo.git("commit", "-qm", "first");
  repo.write("trap.sh", `#!/bin/sh\ntouch '${repo.directory}/SPRUNG'\ncat\n`);
  Deno.chmodSync(trap, 0o755);
  repo.write(".gitattributes", "*.txt diff=evil filter=evil\n");
  repo.write("a.txt", "two\n");
  repo.write("b.txt", "new\n");
  for (
    const [name, value] of [
      ["core.fsmonitor", trap],
      ["core.pager", trap],
      ["core.sshCommand", trap],
      ["core.editor", trap],
      ["diff.external", trap],
      ["diff.evil.textconv", trap],
      ["diff.evil.command", trap],
      ["filter.evil.clean", trap],
      ["filter.evil.smudge", trap],
      ["filter.evil.process", trap],
      ["filter.evil.required", "true"],
      ["core.hooksPath", repo.directory],
      ["core.worktree", "/etc"],
      ["alias.diff", `!${trap}`],
    ] as const
  ) repo.git("config", name, value);
  for (const hook of ["post-index-change", "post-checkout", "reference-transaction"]) {
    Deno.copyFileSync(trap, `${repo.directory}/${hook}`);
  }
  Deno.copyFileSync(trap, `${repo.directory}/git`);
  Deno.mkdirSync(`${repo.directory}/.git/info`, { recursive: true });
  repo.write(".git/info/attributes", "* filter=evil diff=evil\n");
  const { code } = await collected(repo.directory, ["./trap.sh"], {
    PATH: `${repo.directory}:/usr/bin:/bin`,
  });
  assert.ok(code.git!.files.some(({ path, change }) => path === "a.txt" && change === "modified"));
  assert.ok(code.git!.files.some(({ path, change }) => path === "b.txt" && change === "untracked"));
  assert.throws(() => Deno.statSync(`${repo.directory}/SPRUNG`), Deno.errors.NotFound);
});

Deno.test("code: packages of the command's environment, without running its interpreter", async () => {
  const place = Deno.realPathSync(Deno.makeTempDirSync());
  try {
    const site = `${place}/venv/lib/python3.11/site-packages`;
    for (
      const name of [
        "numpy-1.26.4.dist-info",
        "My_Lib-0.1.dist-info",
        "gym-0.26.2-py3.11.egg-info",
        "torch-2.3.0+cu121.dist-info",
      ]
    ) {
      Deno.mkdirSync(`${site}/${name}`, { recursive: true });
    }
    Deno.writeTextFileSync(
      `${site}/My_Lib-0.1.dist-info/direct_url.json`,
      JSON.stringify({ url: "file:///home/u/lib", dir_info: { editable: true } }),
    );
    Deno.mkdirSync(`${place}/venv/bin`);
    Deno.writeTextFileSync(`${place}/venv/bin/python`, `#!/bin/sh\ntouch '${place}/SPRUNG'\n`, {
      mode: 0o755,
    });
    Deno.writeTextFileSync(`${place}/venv/pyvenv.cfg`, "home = /usr/bin\nversion = 3.11.9\n");
    const { code, environment } = await collected(place, [`${place}/venv/bin/python`, "-c", "1"]);
    assert.equal(code.git, null);
    assert.deepEqual(environment.packages, [["gym", "0.26.2"], ["my-lib", "0.1"], [
      "numpy",
      "1.26.4",
    ], [
      "torch",
      "2.3.0+cu121",
    ]]);
    assert.deepEqual(environment.sources, { "my-lib": "file:///home/u/lib (editable)" });
    assert.deepEqual(environment.interpreter, {
      path: `${place}/venv/bin/python`,
      version: "3.11.9",
    });
    assert.throws(() => Deno.statSync(`${place}/SPRUNG`), Deno.errors.NotFound);
    assert.ok(
      !tellsSomething(await collected(place, ["/bin/sleep", "1"])),
      "a command without code",
    );
  } finally {
    Deno.removeSync(place, { recursive: true });
  }
});
