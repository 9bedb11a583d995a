/** Opening what a worker can touch. */
import assert from "node:assert/strict";
import { RunFiles } from "../../src/base/layout.ts";
import { exitOf } from "../../src/dispatch/launch/local/attempt_files.ts";
import { readExit } from "../../src/proxy/exit_record.ts";
import { makeDirectory, openRegular, quarantineFile, readRecord, writeRecord } from "../../src/os/untrusted.ts";
import { openLog } from "../../src/os/packed_log.ts";
import { readRecordInProxy } from "../../src/os/untrusted.ts";
import { askShell } from "../../src/os/shell.ts";
import { hasCode } from "../registry/fixture.ts";

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
  FIFO: (path) => assert(askShell('mkfifo "$0"', path) !== undefined),
  directory: (path) => Deno.mkdirSync(path),
  link: (path) => Deno.symlinkSync("/etc/passwd", path),
  "dangling link": (path) => Deno.symlinkSync("/nowhere", path),
};

Deno.test("untrusted: a regular file is opened, nothing is nothing, anything else is refused and is no record", () => {
  withDirectory((directory) => {
    const path = `${directory}/file`;
    assert.equal(openRegular(path), undefined);
    assert.equal(openRegular(`${path}/below`, directory), undefined);
    for (const [name, put] of Object.entries(PUT)) {
      put(path);
      assert.throws(() => openRegular(path), hasCode("permission_denied"), name);
      assert.deepEqual([readRecord(path), readRecordInProxy(path)], [undefined, undefined], name);
      Deno.removeSync(path);
    }
    Deno.writeTextFileSync(path, "text");
    assert.deepEqual([readRecord(path), readRecordInProxy(path)], ["text", "text"]);
    using file = openRegular(path)!;
    const bytes = new Uint8Array(10);
    assert.equal(file.readSync(2, bytes), 2);
    assert.equal(new TextDecoder().decode(bytes.subarray(0, 2)), "xt");
    file.requireBelow(directory);
    assert.throws(() => file.requireBelow(`${directory}/elsewhere`));
  });
});

Deno.test("untrusted: a file behind a link in the place of one of its directories is refused", () => {
  withDirectory((directory) => {
    Deno.mkdirSync(`${directory}/elsewhere`);
    Deno.mkdirSync(`${directory}/run`);
    Deno.writeTextFileSync(`${directory}/elsewhere/log`, "text");
    Deno.symlinkSync(`${directory}/elsewhere`, `${directory}/run/logs`);
    assert.throws(() => openLog(`${directory}/run/logs/log`), hasCode("permission_denied"));
    using file = openRegular(`${directory}/run/logs/log`)!;
    assert.throws(() => file.requireBelow(`${directory}/run`), hasCode("permission_denied"));
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
    assert.deepEqual(codes(), [undefined, undefined], "nothing says that an older version has started it");
    Deno.writeTextFileSync(files.workerFile(1), `{"pid":17,"identity":"boot/1","exit":"control"}`);
    assert.deepEqual(codes(), [undefined, undefined], "a worker has put it there");
    Deno.writeTextFileSync(files.exitFile(1), `{"code":7}`);
    assert.deepEqual(codes(), [7, 7]);
    Deno.writeTextFileSync(files.workerFile(1), `{"pid":17,"identity":"boot/1"}`);
    assert.deepEqual(codes(), [0, 0]);
  });
});
