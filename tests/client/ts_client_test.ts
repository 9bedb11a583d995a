/**
 * The client for TypeScript against a real daemon, over its Unix socket and over HTTP: on Deno with
 * types, on Node without.
 */
import assert from "node:assert/strict";
import * as contract from "../../src/registry/contract.ts";
import { JS_CLIENT, TS_CLIENT } from "../../src/cli/verbs/help/ts_client.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { runVerb } from "../cli/verb.ts";

const PROGRAM = Deno.readTextFileSync(new URL("program.txt", import.meta.url));
/** Whatever is not typed as it is said to be is an error of the type checker. */
const TYPED = `import { type Point, Run, type RunData } from "./mosaic.ts";
export const name = (run: Run): string => run.name;
export const states = (data: RunData): string[] => data.transitions.map(({ toState }) => toState);
export const value = (point: Point): number | null => point.value;
`;

async function output(
  program: string,
  args: string[],
  cwd: string,
  env: Record<string, string> = {},
) {
  const { success, stdout, stderr } = await new Deno.Command(program, {
    args,
    cwd,
    env,
    signal: AbortSignal.timeout(240_000),
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { success, out: text(stdout), err: text(stderr) };
}

async function holds(argv: [string, ...string[]], directory: string): Promise<void> {
  await using daemon = await TestDaemon.start();
  const [program, ...args] = argv;
  const { success, out, err } = await output(program, args, directory, {
    MOSAIC_STATE_DIR: daemon.stateDir,
    HTTP_TARGET: daemon.http,
  });
  assert.ok(success, err);
  const got = JSON.parse(out);
  assert.deepEqual(got.outcomes, [
    ["lr-1", "TERMINATED", "succeeded", ""],
    ["lr-2", "TERMINATED", "succeeded", ""],
    ["lr-3", "FAULTED", "failed", "exit_code_1"],
  ]);
  assert.deepEqual(got.names, ["lr-2", "lr-3"]);
  assert.equal(got.pages, 2);
  assert.deepEqual(got.best, ["lr-2", 2, ["study"], null]);
  assert.deepEqual(got.points, [1, 2, 3, 4, 5].map((step) => [step, 120 / step]));
  assert.deepEqual(got.none, []);
  assert.deepEqual(got.series, [["loss", 5, 24]]);
  assert.deepEqual(got.records.slice(0, 2), [0, 0]);
  assert.deepEqual(got.unknown, [], "a field of the API that the client's table lacks");
  assert.deepEqual(got.numbers, ["number", 0, 0, null]);
  const point = Object.keys(contract.Point.shape);
  assert.deepEqual(got.point.filter((name: string) => !point.includes(name)), []);
  const [state, total, states, winner] = got.sweep;
  assert.deepEqual([state, total, states], ["finished", 4, { terminated: 4 }]);
  assert.deepEqual([winner.k, winner.seed], [2, 20]);
  assert.equal(got.cancelled[0], "canceled");
  assert.match(got.cancelled[1][1], /Timeout/);
  assert.equal(got.missing[0], "not_found");
  assert.match(got.filter[1], /where, at character 4/);
  assert.equal(got.taken[0], "already_exists");
  assert.match(got.config[1], /entry_point is missing/);
  assert.match(got.away[1], /no daemon answers at 127\.0\.0\.1:1: .* Start one with "mosaic up"/);
  assert.match(got.address[1], /"nowhere" is not an address; use HOST:PORT/);
  assert.match(got.token[1], /a token is not sent unencrypted to 10\.0\.0\.1:8055/);
  assert.equal(got.http, 3);
}

Deno.test("the TypeScript client: typed, it runs on Deno as it is printed", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${directory}/deno.json`, "{}");
    Deno.writeTextFileSync(`${directory}/mosaic.ts`, TS_CLIENT);
    const typed = PROGRAM.replace("(/** @type {() => unknown} */ act)", "(act: () => unknown)");
    Deno.writeTextFileSync(`${directory}/program.ts`, typed);
    Deno.writeTextFileSync(`${directory}/typed.ts`, TYPED);
    const checked = await output(Deno.execPath(), ["check", "program.ts", "typed.ts"], directory);
    assert.ok(checked.success, checked.err);
    Deno.writeTextFileSync(
      `${directory}/typed.ts`,
      TYPED.replace("run.name", "run.data.telemetry"),
    );
    assert.match((await output(Deno.execPath(), ["check", "typed.ts"], directory)).err, /TS2322/);
    await holds([Deno.execPath(), "run", "-A", "--no-check", "program.ts"], directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

const node = (() => {
  try {
    return new Deno.Command("node", { args: ["--version"], stdout: "null", stderr: "null" })
      .outputSync().success;
  } catch {
    return false;
  }
})();
if (!node && Deno.env.get("MOSAIC_TEST_REQUIRE") === "all") {
  throw new Error("there is no node on PATH");
}

Deno.test(
  { name: "the TypeScript client: without types, it runs on Node", ignore: !node },
  async () => {
    const directory = Deno.makeTempDirSync();
    try {
      Deno.writeTextFileSync(`${directory}/mosaic.mjs`, JS_CLIENT);
      Deno.writeTextFileSync(
        `${directory}/program.mjs`,
        PROGRAM.replace("./mosaic.ts", "./mosaic.mjs"),
      );
      await holds(["node", "program.mjs"], directory);
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
);

Deno.test("mosaic ts-client prints it, also without types", async () => {
  await using daemon = await TestDaemon.start();
  assert.deepEqual(await runVerb(daemon, ["ts-client"]), { code: 0, out: TS_CLIENT, err: "" });
  assert.equal((await runVerb(daemon, ["ts-client", "--js"])).out, JS_CLIENT);
});
