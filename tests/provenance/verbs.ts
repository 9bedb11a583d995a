/** Verbs of the command line in the test's own process, which look at real repositories. */
import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import { runProgram } from "../../src/os/processes/external_program.ts";
import { connect } from "../../src/wire/client/client.ts";
import { fakeWorld } from "../cli/fakes.ts";
import type { TestDaemon } from "../harness/daemon.ts";

export interface Said {
  code: number;
  out: string;
  err: string;
}

export async function mosaic(daemon: TestDaemon, args: string[], codes = [0]): Promise<Said> {
  const world = fakeWorld({}, {
    connect: () => Promise.resolve(connect({ target: daemon.target })),
    runScript: (script, words, options) =>
      runProgram(["/bin/sh", "-c", script, ...words], { ...options, group: true }),
    env: (name) => ({ PATH: "/usr/bin:/bin", HOME: "/nonexistent" })[name],
    variables: () => ({ PATH: "/usr/bin:/bin" }),
    now: () => Date.now(),
  });
  const code = await runCli(args, world);
  const said = { code, out: world.stdout(), err: world.stderr() };
  assert.ok(
    codes.includes(code),
    `mosaic ${args.join(" ")} exited with ${code}: ${said.err}${said.out}`,
  );
  return said;
}

export async function json(daemon: TestDaemon, args: string[]) {
  return JSON.parse((await mosaic(daemon, [...args, "-o", "json"])).out);
}
