/** What a worker inherits: as little as it needs. Seen by real workers of a real daemon. */
import assert from "node:assert/strict";
import { RunFiles } from "../../src/base/layout.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";

/**
 * Descriptors above 9 that whoever started the daemon left open are beyond a shell; those of mosaic
 * itself must not be there.
 */
const LOOK = `umask
ls -l /proc/$$/fd >"$MOSAIC_RUN_DIR/descriptors"
sed -n 's/.* \\([0-9]*\\) -> /fd \\1 /p' "$MOSAIC_RUN_DIR/descriptors"
tr '\\0' '\\n' </proc/$$/environ | cut -d= -f1 | sed 's/^/env /'
: >"$MOSAIC_RUN_DIR/made"`;

Deno.test("workers: umask, descriptors and environment are what is documented, and nothing more", async () => {
  await using daemon = await TestDaemon.start({
    env: {
      DATABASE_PASSWORD: "hunter2",
      MOSAIC_TOKEN: "t",
      CUDA_HOME: "/cuda",
      MOSAIC_WORKER_ENV: "PROJECT_*",
      PROJECT_X: "1",
    },
  });
  const seenBy = async (metadata: Record<string, unknown>) => {
    const config = configOf({
      command: ["/bin/sh", "-c", LOOK],
      environment: { COLOUR: "blue" },
      metadata,
    });
    const { directory } = await untilState(daemon, await submit(daemon, config), "TERMINATED");
    const lines = Deno.readTextFileSync(new RunFiles(directory, "").stdout(1)).trim().split("\n");
    const values = (kind: string) =>
      lines.filter((line) => line.startsWith(`${kind} `)).map((l) => l.slice(kind.length + 1));
    const made = Deno.statSync(`${directory}/made`).mode! & 0o777;
    return { umask: lines[0], made, descriptors: values("fd"), variables: values("env") };
  };

  const usual = await seenBy({});
  assert.equal(usual.umask, "0077");
  assert.equal(usual.made, 0o600);
  assert.ok(usual.descriptors.length >= 3);
  assert.deepEqual(usual.descriptors.filter((fd) => /^[3-9] /.test(fd)), []);
  const mosaics = usual.descriptors.filter((fd) =>
    fd.includes("socket:") || fd.includes(daemon.stateDir)
  );
  assert.ok(
    mosaics.every((fd) => /\/(logs\/worker\.std(out|err)\.log|descriptors)$/.test(fd)),
    mosaics.join("\n"),
  );
  for (
    const name of ["COLOUR", "CUDA_HOME", "PROJECT_X", "PATH", "MOSAIC_RUN_ID", "MOSAIC_RUN_DIR"]
  ) {
    assert.ok(usual.variables.includes(name), name);
  }
  for (
    const name of ["DATABASE_PASSWORD", "MOSAIC_TOKEN", "MOSAIC_STATE_DIR", "MOSAIC_WORKER_ENV"]
  ) {
    assert.ok(!usual.variables.includes(name), name);
  }

  const shared = await seenBy({ umask: "027" });
  assert.equal(shared.umask, "0027");
  assert.equal(shared.made, 0o640);
});
