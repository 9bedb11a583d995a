/** Standard output and standard error as one log, in the order in which they were written. */
import assert from "node:assert/strict";
import { RunFiles } from "../../src/base/layout.ts";
import { LogTimes, logTimesOf } from "../../src/journal/log_times.ts";
import { MergedLog } from "../../src/journal/merged_log.ts";
import { openLog } from "../../src/journal/packed_log.ts";
import { createLogger } from "../../src/base/log.ts";

function scene() {
  const directory = Deno.makeTempDirSync();
  const files = new RunFiles(directory, "w");
  Deno.mkdirSync(files.logs, { recursive: true });
  const append = (path: string, text: string) =>
    Deno.writeTextFileSync(path, text, { append: true, create: true });
  let now = 1000;
  let writer = new LogTimes(files, 1, createLogger({ sinks: [] }));
  const noted = () => logTimesOf(Deno.readTextFileSync(files.logTimes(1)));
  return {
    files,
    out: (text: string) => append(files.stdout(1), text),
    err: (text: string) => append(files.stderr(1), text),
    look: (last = false) => writer.look(now += 1000, last),
    nextProxy: () => writer = new LogTimes(files, 1, createLogger({ sinks: [] })),
    times: noted,
    async merged(ended: boolean, times = noted()) {
      using log = new MergedLog(openLog(files.stdout(1)), openLog(files.stderr(1)), times, ended);
      const bytes = new Uint8Array(log.size);
      // In small reads across parts.
      for (let at = 0; at < log.size; at += 5) {
        await log.read(at, bytes.subarray(at, Math.min(at + 5, log.size)));
      }
      const parts = log.parts(0, log.size).map(({ stream, at }) => `${stream} ${at}`);
      const rest = new TextDecoder().decode(await log.rest(100));
      return { text: new TextDecoder().decode(bytes), parts, rest };
    },
    [Symbol.dispose]: () => Deno.removeSync(directory, { recursive: true }),
  };
}

Deno.test("merged log: lines of both in their order, cut at lines, the same after a new proxy", async () => {
  using s = scene();
  s.out("one\ntw");
  s.look();
  s.err("warning\n");
  s.look();
  s.out("o\n");
  s.err("half of a li");
  s.look();
  assert.equal(s.times().length, 1, "a line that has not ended is not noted");
  const early = await s.merged(false);
  assert.equal(early.text, "one\nwarning\ntwo\n");
  assert.equal(early.rest, "half of a li");
  s.nextProxy();
  s.err("ne\n");
  s.look();
  s.out("three\n");
  s.look();
  s.err("Traceback");
  s.look(true);
  const live = await s.merged(false);
  assert.equal(live.text, "one\nwarning\ntwo\nhalf of a line\nthree\n");
  assert.ok(live.text.startsWith(early.text), "positions stay");
  assert.deepEqual(live.parts, [
    ...["stdout 3000", "stderr 3000", "stdout 5000", "stderr 5000", "stdout undefined"],
  ]);
  assert.equal((await s.merged(true)).text, `${live.text}Traceback`);
});

Deno.test("merged log: without notes, standard error follows; notes that are wrong harm nothing", async () => {
  using s = scene();
  s.out("out\n");
  s.err("err\n");
  assert.equal((await s.merged(true, [])).text, "out\nerr\n");
  assert.deepEqual(logTimesOf("1 9 9\nx\n2 8 10\n3 9 11\n-1 1 1\n4 9 1e3\n"), [
    { at: 1, stdout: 9, stderr: 9 },
    { at: 3, stdout: 9, stderr: 11 },
  ]);
  assert.equal((await s.merged(true, logTimesOf("1 900 2\n"))).text, "out\nerr\n");
});

Deno.test("merged log: silence costs nothing, and progress bars note nothing", () => {
  using s = scene();
  for (let i = 0; i < 20; i++) {
    s.out(`${i}\n`);
    s.look();
  }
  s.err("\r10%");
  s.look();
  s.err("\r20%");
  s.look();
  assert.throws(() => s.times(), Deno.errors.NotFound);
});
