import assert from "node:assert/strict";
import { LogFile } from "../../src/daemon/start/log_file.ts";

Deno.test("log file: a full one is renamed, and only so many are kept", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const log = new LogFile(`${directory}/daemon.log`, { maxBytes: 20, kept: 2 });
    for (let i = 0; i < 9; i++) log.write(`line ${i}\n`);
    log.close();
    const read = (name: string) => Deno.readTextFileSync(`${directory}/${name}`);
    assert.deepEqual([...Deno.readDirSync(directory)].map((e) => e.name).toSorted(), [
      "daemon.log",
      "daemon.log.1",
      "daemon.log.2",
    ]);
    assert.equal(read("daemon.log"), "line 8\n");
    assert.equal(read("daemon.log.1"), "line 6\nline 7\n");
    assert.equal(read("daemon.log.2"), "line 4\nline 5\n");
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("log file: one that cannot be written is no error", () => {
  const log = new LogFile("/no/such/directory/daemon.log");
  log.write("a line\n");
  log.close();
});
