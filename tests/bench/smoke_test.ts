/**
 * Nothing else runs the benches for months: each part works, with the smallest sizes. What they
 * measure is not looked at.
 */
import { strict as assert } from "node:assert";
import { chromiumPath } from "../ui/chromium.ts";

const RUN = new URL("../../bench/run.ts", import.meta.url).pathname;

const bench = (...args: string[]) =>
  new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--lock=dev.lock", "--no-check", RUN, ...args],
  }).output();
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("bench: every part measures something", async () => {
  const { code, stderr } = await bench("no-such-part");
  assert.equal(code, 2);
  const parts = decode(stderr).split("\n").filter((line) => line.startsWith("  ")).map((line) =>
    line.trim().split(" ")[0]!
  );
  assert.ok(parts.length > 20, decode(stderr));
  const all = await bench("--smoke");
  assert.ok(all.success, decode(all.stderr));
  const rows = decode(all.stdout).split("\n").map((line) => line.split(/\s/)[0]);
  const expected = parts.filter((part) => part !== "page" || chromiumPath() !== undefined);
  assert.deepEqual(expected.filter((part) => !rows.includes(part)), [], decode(all.stdout));
});
