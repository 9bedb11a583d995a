/**
 * A daemon under strace: its main thread, which does all of SQLite and of the network, and none of
 * its children.
 */
import { RUNTIME_PROGRAM } from "../../harness/daemon.ts";

function mayTrace(): boolean {
  let success = false;
  try {
    success =
      new Deno.Command("strace", { args: ["-qq", "-o", "/dev/null", "true"], stderr: "null" })
        .outputSync().success;
  } catch {
    // There is no strace.
  }
  if (!success) {
    console.log(
      "NOT ALLOWED HERE: no process can be traced, so none is killed at a chosen system call",
    );
  }
  return success;
}

const allowed = mayTrace();

/** A test that passes without having proven anything where nothing may be traced. */
export function tracedTest(name: string, work: () => Promise<void>): void {
  Deno.test(name, async () => {
    if (allowed) await work();
  });
}

/**
 * argv of mosaic under strace, which stays its child's grandchild: the process is started as
 * itself. Calls are counted from the start of the runtime, so there is no shell stub before it.
 */
export function underStrace(...args: string[]): string[] {
  return ["strace", "-D", "-qq", ...args, "--", ...RUNTIME_PROGRAM];
}
