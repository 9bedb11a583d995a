/** The wrapper's script under the shells that hosts have for sh. */
import assert from "node:assert/strict";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { SCRIPT } from "../../src/proxy/worker/wrapper.ts";
import { diskTest } from "../system/machine/small_disk.ts";

const SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]];

/** What the exit record says of a worker. */
async function ending(shell: string[], worker: string): Promise<unknown> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-wrapper-" });
  try {
    return await endingIn(directory, shell, worker);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

/** $0 of the worker is the directory. */
async function endingIn(directory: string, shell: string[], worker: string): Promise<unknown> {
  const [exit, out, err] = ["exit", "out", "err"].map((name) => `${directory}/${name}`) as [
    string,
    string,
    string,
  ];
  const files = [
    `${directory}/worker`,
    exit,
    out,
    err,
    "/dev/null",
    "2026-01-01T00:00:00Z",
    "1",
    "",
    "",
  ];
  await new Deno.Command(shell[0]!, {
    args: [...shell.slice(1), "-c", SCRIPT, "mosaic", ...files, "/bin/sh", "-c", worker, directory],
    env: { PATH: "/usr/bin:/bin" },
    clearEnv: true,
    stdin: "null",
    detached: true,
  }).output();
  const { code, signal } = JSON.parse(Deno.readTextFileSync(exit));
  return signal || code;
}

for (const shell of SHELLS) {
  const there = "path" in findProgram(shell[0]!, "/", "/usr/bin:/bin");
  if (!there) {
    console.log(`SKIPPED: ${shell[0]} is not installed, so the wrapper is not tried under it`);
  }
  Deno.test({
    name: `wrapper: under ${shell.join(" ")} an exit code above 128 is told from a signal`,
    ignore: !there,
    fn: async () => {
      for (const code of [0, 3, 129, 130, 134, 137, 139, 143, 160, 255]) {
        assert.equal(await ending(shell, `exit ${code}`), code);
      }
      for (const signal of ["HUP", "ABRT", "KILL", "SEGV", "TERM"]) {
        assert.equal(
          await ending(shell, `ulimit -c 0; kill -${signal} $$; sleep 60`),
          `SIG${signal}`,
        );
      }
      // Of these a shell does not tell: the status is claimed for neither.
      assert.equal(await ending(shell, "kill -INT $$; sleep 60"), 130);
      assert.equal(await ending(shell, "kill -PIPE $$; sleep 60"), 141);
    },
  });
}

diskTest(
  "wrapper: how a worker ended that has filled the disk is recorded all the same",
  async (stage) => {
    const disk = stage.disk(`${stage.stateDir}/small`, "256k");
    const fill =
      'dd if=/dev/zero of="$0/filler" bs=1k 2>/dev/null; [ "$(stat -f -c %a "$0")" = 0 ] || exit 9';
    assert.equal(
      await endingIn(disk.path, ["/bin/sh"], `${fill}; kill -TERM $$; sleep 60`),
      "SIGTERM",
    );
  },
);
