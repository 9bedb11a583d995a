/** A verb in the test's own process, against a real daemon. */
import { runCli } from "../../src/cli/cli.ts";
import { connect } from "../../src/wire/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { fakeWorld } from "./fakes.ts";

export interface VerbResult {
  code: number;
  out: string;
  err: string;
}

/** @param input what standard input holds @param env variables besides the process's own */
export async function runVerb(
  daemon: TestDaemon,
  args: string[],
  input = "",
  env: Record<string, string> = {},
): Promise<VerbResult> {
  const world = fakeWorld({}, {
    connect: () => Promise.resolve(connect({ target: daemon.target })),
    readInput: () => Promise.resolve(input),
    now: () => Date.now(),
    env: (name) => env[name] ?? Deno.env.get(name),
  });
  const code = await runCli(args, world);
  return { code, out: world.stdout(), err: world.stderr() };
}
