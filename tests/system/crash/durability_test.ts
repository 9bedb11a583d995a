/** What is on the disk before anybody is told: shown by the daemon's own system calls. */
import assert from "node:assert/strict";
import { TestDaemon } from "../../harness/daemon.ts";
import { submit } from "../../harness/runs.ts";
import { SteppedWorker } from "../machine/workers.ts";
import { tracedTest, underStrace } from "./tracing.ts";

interface Call {
  name: string;
  path: string;
}

/**
 * Writes to files, syncs and sends of a daemon's main thread while runs go their way; from its
 * being ready on.
 */
async function callsOf(durability: "normal" | "full"): Promise<Call[]> {
  const trace = Deno.makeTempFileSync();
  try {
    await using daemon = await TestDaemon.start({
      args: ["--durability", durability],
      program: underStrace(
        "-y",
        "-o",
        trace,
        "-e",
        "trace=pwrite64,write,fsync,fdatasync,rename,sendto,sendmsg,writev",
      ),
    });
    const worker = new SteppedWorker(daemon.stateDir, [200]);
    await worker.assertWhole(daemon, await submit(daemon, worker.config()));
    await daemon.stop();
    const calls = Deno.readTextFileSync(trace).split("\n").flatMap((line) => {
      const match = /^(\w+)\((?:\d+<(.*?)>|"(.*?)")/.exec(line);
      return match === null ? [] : [{ name: match[1]!, path: match[2] ?? match[3]! }];
    });
    return calls.slice(
      calls.findIndex(({ name, path }) => name === "write" && path.includes("daemon.json")),
    );
  } finally {
    Deno.removeSync(trace);
  }
}

const isSend = ({ name, path }: Call) =>
  /^(sendto|sendmsg|writev)$/.test(name) && path.startsWith("socket:");
const isSync = ({ name }: Call) => name === "fsync" || name === "fdatasync";
/** The logs that transactions are committed to, and the configs that a submission leaves. */
const KEPT = /\/(registry\.db-wal|mosaic\.sqlite-wal|configs\/.*)$/;

/** Files that were written and not synced when something was sent, and how often. */
function sentUnsynced(calls: Call[]): Map<string, number> {
  const dirty = new Set<string>();
  const found = new Map<string, number>();
  for (const call of calls) {
    const { name, path } = call;
    if (isSync(call)) dirty.delete(path);
    else if ((name === "pwrite64" || name === "write") && KEPT.test(path)) dirty.add(path);
    else if (isSend(call)) {
      for (const file of dirty) found.set(file, (found.get(file) ?? 0) + 1);
    }
  }
  return found;
}

tracedTest(
  "durability full: whatever is told to anybody was synced to the disk before",
  async () => {
    const calls = await callsOf("full");
    const written = new Set(
      calls.filter(({ name, path }) => name === "pwrite64" && KEPT.test(path)).map(({ path }) =>
        path
      ),
    );
    assert.deepEqual([...written].map((path) => path.split("/").at(-1)).sort(), [
      "mosaic.sqlite-wal",
      "registry.db-wal",
    ]);
    assert(calls.some(isSend), "acknowledgements were sent");
    assert.deepEqual([...sentUnsynced(calls)], []);
    // A config's name is as durable as its text.
    const named = calls.findIndex(({ name, path }) =>
      name === "rename" && path.includes("/configs/")
    );
    const next = calls.slice(named).findIndex(isSend);
    assert(
      named >= 0 &&
        calls.slice(named, named + next).some((call) =>
          isSync(call) && call.path.endsWith("/configs")
        ),
    );
  },
);

tracedTest(
  "durability normal: commits are not synced one by one, the log is written before the acknowledgement all the same",
  async () => {
    const calls = await callsOf("normal");
    const telemetry = [...sentUnsynced(calls)].filter(([path]) =>
      path.endsWith("mosaic.sqlite-wal")
    );
    assert.equal(telemetry.length, 1, "acknowledged after the write, before any sync");
  },
);
