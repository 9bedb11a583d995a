/**
 * Where src/ creates processes. A program that is waited for without a limit holds its caller while
 * a driver hangs.
 */
import { strict as assert } from "node:assert";
import { filesOf } from "./rooms.ts";

const SRC = new URL("../../src/", import.meta.url);

/** Everything else calls src/os/processes/external_program.ts. */
const PLACES: Record<string, string> = {
  "os/processes/external_program.ts": "waits, with a limit",
  "os/processes/shell.ts":
    "scripts that the kernel answers at once; programs that outlive this process",
  "os/files/untrusted_elsewhere.ts":
    "a helper that opens one file, with a limit, and sends it while somebody reads",
  "frames/shared_memory.ts": "a helper that answers requests, each with a limit",
  "os/host/sock_diag.ts": "a helper that answers requests, each with a limit",
  "os/rights/user_shell.ts":
    "scripts of a worker's user, with a limit; one that is stuck holds up nobody else's",
  "cli/real_context.ts": "this executable again, on the person's terminal",
  "daemon/start/memory_limit.ts": "the daemon's successor, which nobody waits for",
  "proxy/worker/wrapper.ts": "the worker",
};

Deno.test("processes are created only in the named places; everything else goes through external_program.ts", () => {
  const creating = filesOf(SRC).filter((file) =>
    /new Deno\.Command|child_process|Deno\.spawn/.test(Deno.readTextFileSync(new URL(file, SRC)))
  );
  assert.deepEqual(creating.sort(), Object.keys(PLACES).sort());
});

Deno.test("scripts that block the thread ask nobody but the kernel and local files, or have a limit", () => {
  const blocking = filesOf(SRC).flatMap((file) => {
    const text = Deno.readTextFileSync(new URL(file, SRC));
    return [...text.matchAll(/shellOutput\(\s*([^;]*)/g)].map(([, call]) => {
      // A script with a name of its own is looked at where it is declared.
      const name = /^[A-Z_]+/.exec(call!)?.[0];
      return name === undefined
        ? call!
        : new RegExp(`const ${name} =\\s*([^;]*)`).exec(text)?.[1] ?? call!;
    });
  });
  assert.ok(blocking.length > 15, "the calls are there");
  // getent and id may ask a directory of users on the network; nvidia-smi a driver; Slurm's tools
  // their controller; busctl and loginctl a service.
  const network = blocking.filter((call) =>
    /getent|\bid -|busctl|loginctl|nvidia-smi|squeue|sinfo|scontrol|python|git |ssh /.test(call)
  );
  assert.ok(network.length >= 4, "they are recognized");
  assert.deepEqual(network.filter((call) => !call.startsWith("`${SOON}")), []);
});

Deno.test("scripts that read environments of other processes have a limit: one that is stuck in a driver has them locked", () => {
  const reading = filesOf(SRC).flatMap((file) =>
    [...Deno.readTextFileSync(new URL(file, SRC)).matchAll(/[^;]*\/proc\/\[0-9\]\*\/environ/g)].map(
      (match) => match[0],
    )
  );
  assert.ok(reading.length >= 3, "the scripts are there");
  assert.deepEqual(reading.filter((script) => !script.includes("SOON")), []);
});
