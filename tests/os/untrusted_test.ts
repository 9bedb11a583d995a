/** Opening what a worker can touch. */
import assert from "node:assert/strict";
import { RunFiles } from "../../src/base/layout.ts";
import { exitOf } from "../../src/dispatch/launch/local/attempt_files.ts";
import { readExit } from "../../src/proxy/state/exit_record.ts";
import { openRegular, readRecord, readRecordInProxy } from "../../src/os/files/untrusted.ts";
import {
  makeDirectory,
  quarantineFile,
  writeRecord,
} from "../../src/os/files/untrusted_changes.ts";
import { openLog, packedPath } from "../../src/journal/packed_log.ts";
import { shellOutput } from "../../src/os/processes/shell.ts";
import { hasCode } from "../registry/fixture.ts";
import { until } from "../harness/wait.ts";

function withDirectory(body: (directory: string) => void): void {
  const directory = Deno.makeTempDirSync();
  try {
    body(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

/** Everything that is no regular file, at `path`. */
const PUT: Record<string, (path: string) => void> = {
  FIFO: (path) => assert(shellOutput('mkfifo "$0"', path) !== undefined),
  directory: (path) => Deno.mkdirSync(path),
  link: (path) => Deno.symlinkSync("/etc/passwd", path),
  "dangling link": (path) => Deno.symlinkSync("/nowhere", path),
};

Deno.test("untrusted: a regular file is opened, nothing is nothing, anything else is refused and is no record", () => {
  withDirectory((directory) => {
    const path = `${directory}/file`;
    assert.equal(openRegular(path, directory), undefined);
    assert.equal(openRegular(`${path}/below`, directory), undefined);
    for (const [name, put] of Object.entries(PUT)) {
      put(path);
      assert.throws(() => openRegular(path, directory), hasCode("permission_denied"), name);
      assert.deepEqual([readRecord(path), readRecordInProxy(path)], [undefined, undefined], name);
      Deno.removeSync(path);
    }
    Deno.writeTextFileSync(path, "text");
    assert.deepEqual([readRecord(path), readRecordInProxy(path)], ["text", "text"]);
    using file = openRegular(path, directory)!;
    const bytes = new Uint8Array(10);
    assert.equal(file.readSync(2, bytes), 2);
    assert.equal(new TextDecoder().decode(bytes.subarray(0, 2)), "xt");
  });
});

Deno.test("untrusted: a file behind a link in the place of one of its directories is refused", () => {
  withDirectory((directory) => {
    Deno.mkdirSync(`${directory}/elsewhere`);
    Deno.mkdirSync(`${directory}/run`);
    Deno.writeTextFileSync(`${directory}/elsewhere/log`, "text");
    Deno.symlinkSync(`${directory}/elsewhere`, `${directory}/run/logs`);
    assert.throws(() => openLog(`${directory}/run/logs/log`), hasCode("permission_denied"));
    assert.throws(
      () => openRegular(`${directory}/run/logs/log`, `${directory}/run`),
      hasCode("permission_denied"),
    );
  });
});

Deno.test("untrusted: a record is written whatever is in its place, and what was there is kept aside", () => {
  for (const put of Object.values(PUT)) {
    withDirectory((directory) => {
      const path = `${directory}/record`;
      put(path);
      writeRecord(path, "new");
      assert.equal(readRecord(path), "new");
      assert.equal([...Deno.readDirSync(directory)].length, 2);
      quarantineFile(path);
      assert.equal(readRecord(path), "new", "a regular file is in nobody's way");
      makeDirectory(path);
      assert(Deno.lstatSync(path).isDirectory);
    });
  }
});

Deno.test("exit record: beside the control directory only where the worker file is an older version's", () => {
  withDirectory((directory) => {
    const files = new RunFiles(directory, "");
    Deno.mkdirSync(files.control);
    Deno.writeTextFileSync(files.olderExitFile(1), `{"code":0}`);
    const codes = () => [readExit(files, 1)?.code, exitOf(files, 1)?.code];
    assert.deepEqual(
      codes(),
      [undefined, undefined],
      "nothing says that an older version has started it",
    );
    Deno.writeTextFileSync(files.workerFile(1), `{"pid":17,"identity":"boot/1","exit":"control"}`);
    assert.deepEqual(codes(), [undefined, undefined], "a worker has put it there");
    Deno.writeTextFileSync(files.exitFile(1), `{"code":7}`);
    assert.deepEqual(codes(), [7, 7]);
    Deno.writeTextFileSync(files.workerFile(1), `{"pid":17,"identity":"boot/1"}`);
    assert.deepEqual(codes(), [0, 0]);
  });
});

/**
 * Runs a script with the modules of `src/`, in a process of its own: what waits for a FIFO never
 * comes back.
 */
async function output(script: string, ...args: string[]): Promise<string> {
  const source = new URL("../../src/", import.meta.url).href;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", script.replaceAll("src:", source), "--", ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const ended = child.output();
  let end: Deno.CommandOutput | undefined;
  ended.then((it) => end = it);
  try {
    await until(() => end !== undefined, { what: "the script to end", timeoutMs: 20_000 });
  } finally {
    if (end === undefined) child.kill("SIGKILL");
    await ended;
  }
  assert(end!.success, new TextDecoder().decode(end!.stderr));
  return new TextDecoder().decode(end!.stdout);
}

Deno.test("untrusted: a FIFO that is put in the place of a journal while a daemon opens it hangs nobody", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    const files = new RunFiles(directory, "w");
    for (const path of [files.stdout(1), files.journalShift(1), packedPath(files.stdout(1))]) {
      Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      Deno.writeTextFileSync(path, "{}");
      const said = await output(
        `import { RunFiles } from "src:base/layout.ts";
        import { openLogForWriting } from "src:os/files/untrusted_changes.ts";
        import { JournalFile } from "src:journal/journal_file.ts";
        import { packedPath } from "src:journal/packed_log.ts";
        const [directory, path] = Deno.args;
        const files = new RunFiles(directory, "w");
        const { lstatSync } = Deno;
        let looked = 0;
        Deno.lstatSync = (at) => {
          const found = lstatSync(at);
          if (at === path && looked++ === 0) {
            Deno.removeSync(path);
            new Deno.Command("mkfifo", { args: [path] }).outputSync();
          }
          return found;
        };
        const sizes = [];
        if (path === packedPath(files.stdout(1))) {
          try {
            openLogForWriting(path);
          } catch (error) {
            sizes.push(error.code);
          }
        } else {
          const journal = JournalFile.left(files, 1);
          sizes.push(journal.size());
        }
        console.log(...sizes, looked > 0);`,
        directory,
        path,
      );
      const expected = path === files.stdout(1)
        ? "0"
        : path === files.journalShift(1)
        ? "2"
        : "permission_denied";
      assert.equal(said, `${expected} true\n`, path);
      assert(!Deno.lstatSync(path).isFile);
      Deno.removeSync(path);
      if (path === files.stdout(1)) Deno.writeTextFileSync(path, "{}");
    }
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test({
  name:
    "untrusted: a directory of the worker's user in the place of mosaic's own is put aside, and one of mosaic's stays",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withDirectory((directory) => {
      Deno.chmodSync(directory, 0o1770);
      const media = `${directory}/media`;
      makeDirectory(media);
      const { ino } = Deno.lstatSync(media);
      makeDirectory(media);
      assert.equal(Deno.lstatSync(media).ino, ino);
      Deno.chownSync(media, 54321, 54321);
      makeDirectory(media);
      assert.deepEqual([Deno.lstatSync(media).uid, [...Deno.readDirSync(directory)].length], [
        0,
        2,
      ]);
    }),
});
