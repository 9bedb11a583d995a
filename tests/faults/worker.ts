/**
 * The checking worker: prints lines 1 … N of `lineAt(seed, n)` in bursts, and after each write
 * notes in the ledger how many lines it has surely printed. Arguments: SEED N LEDGER EXIT_CODE
 * PAUSE_MS FORM FROM CHILD_FROM: at line CHILD_FROM (0: never) it leaves the rest to a child and
 * ends.
 */
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";
import { type Form, lineAt } from "./lines.ts";
import { Random } from "./random.ts";

const [seed, count, ledgerPath, exitCode, pauseMs] = [
  Number(Deno.args[0]),
  Number(Deno.args[1]),
  Deno.args[2]!,
  Number(Deno.args[3]),
  Number(Deno.args[4]),
];
const form = Deno.args[5] as Form;
const childFrom = Number(Deno.args[7]);
const random = new Random(seed ^ 0x5eed);
const encoder = new TextEncoder();
const ledger = Deno.openSync(ledgerPath, { write: true, create: true });

function writeAll(bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}

for (let n = Number(Deno.args[6]); n <= count;) {
  if (childFrom > 0 && n >= childFrom) {
    const script = new URL(import.meta.url).pathname;
    const args = ["run", "-A", "--no-check", script, ...Deno.args.slice(0, 6), String(n), "0"];
    new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "inherit", stderr: "inherit" })
      .spawn().unref();
    break;
  }
  const parts: Uint8Array[] = [];
  for (let burst = random.int(1, 60); burst > 0 && n <= count; burst--, n++) {
    const line = lineAt(seed, n, form);
    parts.push(
      line.kind === "garbage" && line.bytes !== undefined ? line.bytes : encoder.encode(line.text),
    );
    parts.push(encoder.encode("\n"));
  }
  const bytes = joinedBytes(parts);
  // A burst in two writes leaves torn lines for whoever looks in between.
  const cut = random.int(0, bytes.length);
  writeAll(bytes.subarray(0, cut));
  writeAll(bytes.subarray(cut));
  ledger.seekSync(0, Deno.SeekMode.Start);
  ledger.writeSync(encoder.encode(String(n - 1).padStart(12)));
  if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, random.int(0, pauseMs)));
}
Deno.exit(exitCode);
