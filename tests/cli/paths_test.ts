/**
 * Paths that a command cannot use: the error names the path and what to do, and is no defect of
 * mosaic.
 */
import assert from "node:assert/strict";
import { runCli } from "../../src/cli/cli.ts";
import { MAIN } from "../harness/daemon.ts";
import { fakeRun, fakeWorld, ID_A } from "./fakes.ts";

const answers = {
  GetRun: () => fakeRun(),
  GetHost: () => ({ stateDir: "/nowhere" }),
  SubmitRun: () => ({ runId: ID_A, digest: "" }),
  async *StreamTelemetry() {},
};

async function verb(args: string[], input = "") {
  const world = fakeWorld(answers, { readInput: () => Promise.resolve(input) });
  const code = await runCli(args, world);
  return { code, out: world.stdout(), err: world.stderr() };
}

Deno.test("paths: a file where a directory is needed, and the reverse", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    const file = `${directory}/good.json`;
    Deno.writeTextFileSync(file, "{}");
    const cases: [string[], number, RegExp][] = [
      [
        ["export", ID_A, "--format", "csv", "--out", file],
        2,
        /good\.json: this is a file, and a directory is needed/,
      ],
      [
        ["export", ID_A, "--format", "csv", "--out", `${file}/x`],
        2,
        /good\.json\/x: a part of this path is a file/,
      ],
      [["export", ID_A, "--format", "csv", "--out", "/dev/null"], 2, /\/dev\/null: this is a file/],
      [["submit", directory], 2, /^mosaic: \S+: this is a directory, not a file$/m],
      [["validate", directory], 2, /: this is a directory, not a file/],
      [["submit", `${directory}/none.json`], 4, /none\.json: there is no such file/],
      [["submit", `${file}/x`], 2, /good\.json\/x: a part of this path is a file/],
      [["token", "create", "--name", "x", "--role", "read", "--state-dir", file], 2, /good\.json/],
      [["audit", "--state-dir", file], 0, /^/],
      [["demo", "--state-dir", file], 2, /good\.json: this is a file, and a directory is needed/],
      [["sql", "--state-dir", file, "SELECT 1"], 4, /there is no database that can be opened/],
      [["doctor", "--state-dir", `${file}/x`], 2, /good\.json\/x: a part of this path is a file/],
    ];
    for (const [args, code, message] of cases) {
      const done = await verb(args);
      assert.equal(done.code, code, `${args}: ${done.err}`);
      assert.match(done.err, message);
      assert.ok(!/bug in mosaic|os error/.test(done.err), done.err);
    }
    assert.equal(Deno.readTextFileSync(file), "{}");
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("paths: names of standard input and output are the same as -", async () => {
  for (const name of ["-", "/dev/stdin", "/dev/fd/0"]) {
    assert.equal((await verb(["submit", name], "{}")).out, `${ID_A}\n`);
  }
  for (const name of ["-", "/dev/stdout"]) {
    const done = await verb(["export", ID_A, "--format", "csv", "-k", "episodes", "--out", name]);
    assert.equal(done.code, 0, done.err);
    assert.match(done.out, /^seq,/);
    for (const format of ["mosaic", "minari"]) {
      const refused = await verb(["export", ID_A, "--format", format, "--out", name]);
      assert.equal(refused.code, 2);
      assert.ok(refused.err.includes(`--out ${name} is not for --format ${format}`), refused.err);
    }
  }
});

Deno.test("paths: a pipe is not imported, and its bytes are not read", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    const pipe = `${directory}/a.csv`;
    assert.ok((await new Deno.Command("mkfifo", { args: [pipe] }).output()).success);
    const done = await verb(["import", "--dry-run", pipe]);
    assert.equal(done.code, 2, done.err);
    assert.match(
      done.err,
      /a\.csv is a pipe or a device, not a file\n {2}The daemon reads the files again later/,
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
  const script = `"$@" <(echo 1)`;
  const args = [
    "-c",
    script,
    "bash",
    Deno.execPath(),
    "run",
    "-A",
    "--no-check",
    MAIN,
    "import",
    "--dry-run",
  ];
  const { code, stderr } = await new Deno.Command("bash", { args }).output();
  const err = new TextDecoder().decode(stderr);
  assert.equal(code, 2, err);
  assert.match(err, /\/dev\/fd\/\d+ is a pipe or a device, not a file/);
});

Deno.test("paths: those that the runtime refuses are named, without an option that mosaic does not have", async () => {
  const cases: [string[], RegExp][] = [
    [
      ["submit", "/proc/self/environ"],
      /^mosaic: \/proc\/self\/environ: mosaic does not open files in \/proc/,
    ],
    [["doctor", "--state-dir", "/proc"], /^mosaic: \/proc: mosaic does not/],
    [["backup", "/proc/x"], /^mosaic: no state directory/],
    [["import", "--dry-run", "/proc/self"], /^mosaic: \/proc\/self: mosaic does not/],
    [["status", "--state-dir", "/proc"], /^mosaic: \/proc\/trainer\/daemon\.json: mosaic does not/],
    [
      ["daemon", "--state-dir", "/proc/x", "--http", "none", "--listen", "none"],
      /^mosaic daemon: \/proc\/x\S*: mosaic does not/,
    ],
  ];
  await Promise.all(cases.map(async ([words, message]) => {
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-check",
        "--no-prompt",
        "--node-modules-dir=manual",
        "--allow-read",
        "--allow-write",
        "--allow-env",
        "--allow-sys",
        MAIN,
        ...words,
      ],
      env: { MOSAIC_STATE_DIR: "/nowhere" },
      stdin: "null",
    }).output();
    const err = new TextDecoder().decode(stderr);
    assert.equal(code, words[0] === "backup" ? 4 : 2, err);
    assert.match(err, message);
    assert.ok(!/allow-all|bug in mosaic|\n +at /.test(err), err);
  }));
});
