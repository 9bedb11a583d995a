import assert from "node:assert/strict";
import {
  checksOf,
  noGpuOf,
  type WorkerCommand,
} from "../../../src/dispatch/launch/local/command.ts";
import { preflight } from "../../../src/proxy/start/preflight.ts";
import type { RunPlan } from "../../../src/config/plan.ts";
import { planWith } from "../plans.ts";

async function inDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = Deno.makeTempDirSync();
  try {
    await test(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const commandIn = (cwd: string, python = ["python3"]): WorkerCommand => ({
  argv: [],
  env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
  cwd,
  sandbox: [],
  python,
});
/** As the daemon does it. */
function preflightOf(
  plan: RunPlan,
  { command, directory, gpuSlots, ...more }: {
    command: WorkerCommand;
    directory: string;
    gpuSlots: number[];
    moduleTimeoutMs?: number;
    fileTimeoutMs?: number;
  },
): Promise<string[]> {
  const noGpu = noGpuOf(plan, gpuSlots);
  return preflight(checksOf(plan, command), { interpreter: command, directory, noGpu, ...more });
}
const check = (directory: string, checks: Record<string, unknown>, python?: string[]) =>
  preflightOf(planWith({ metadata: { preflight: checks } }), {
    command: commandIn(directory, python),
    directory: `${directory}/not/there/yet`,
    gpuSlots: [],
  });

/**
 * An interpreter that is a shell script: the checks must not depend on what Python this machine
 * has.
 */
function fakePython(directory: string, body: string): string[] {
  const path = `${directory}/python`;
  Deno.writeTextFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  return [path];
}

Deno.test("preflight: nothing asked for, nothing failing", () =>
  inDirectory(async (directory) => assert.deepEqual(await check(directory, {}), [])));

Deno.test("preflight: files must be there, with the checksum that the config gives", () =>
  inDirectory(async (directory) => {
    Deno.writeTextFileSync(`${directory}/data`, "abc");
    const good = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert.deepEqual(
      await check(directory, { files: ["data", { path: `${directory}/data`, sha256: good }] }),
      [],
    );
    const bad = await check(directory, {
      files: [{ path: "data", sha256: "0".repeat(64) }, "gone", { path: ".", sha256: good }],
    });
    assert.equal(bad.length, 3);
    assert.ok(bad[0]!.includes(`${directory}/data has the SHA-256 ${good}, not 000`), bad[0]!);
    assert.match(bad[1]!, /gone is not there; put it there/);
    assert.match(bad[2]!, /is no file/);
  }));

Deno.test("preflight: a checksum that takes too long is given up", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/large`;
    Deno.writeTextFileSync(path, "");
    Deno.truncateSync(path, 2 ** 40);
    const files = [{ path, sha256: "0".repeat(64) }];
    const began = performance.now();
    const failures = await preflightOf(planWith({ metadata: { preflight: { files } } }), {
      ...{ command: commandIn(directory), directory, gpuSlots: [], fileTimeoutMs: 300 },
    });
    assert.match(failures[0]!, /large: no checksum \(this took longer than 0.3 s\); remove sha256/);
    assert.ok(performance.now() - began < 10_000);
  }));

Deno.test("preflight: a working directory that is not there is the only thing said", () =>
  inDirectory(async (directory) => {
    const failures = await check(`${directory}/gone`, { files: ["x"], modules: ["y"] });
    assert.equal(failures.length, 1);
    assert.match(
      failures[0]!,
      /the working directory .*\/gone is not there; correct metadata.worker.cwd/,
    );
  }));

Deno.test("preflight: free disk is measured where the run's directory will be", () =>
  inDirectory(async (directory) => {
    assert.deepEqual(await check(directory, { min_free_disk_mb: 0 }), []);
    const [failure] = await check(directory, { min_free_disk_mb: 1e12 });
    assert.match(
      failure!,
      /^\d+ MiB are free below .*, and 1000000000000 are asked for; delete old runs/,
    );
  }));

Deno.test("preflight: a GPU that is asked for must be visible", async () => {
  const failures = (gpus: number, gpuSlots: number[]) =>
    preflightOf(planWith({ gpus, metadata: { preflight: { gpu: true } } }), {
      command: commandIn("/"),
      directory: "/",
      gpuSlots,
    });
  assert.match((await failures(0, []))[0]!, /set resources.gpus.requested/);
  assert.match((await failures(1, []))[0]!, /none is visible to the run; check nvidia-smi/);
  assert.deepEqual(await failures(1, [0]), []);
});

Deno.test("preflight: the interpreter's answer is believed, whatever modules print when they are imported", () =>
  inDirectory(async (directory) => {
    const python = fakePython(
      directory,
      `echo '{"noise": 1}'; echo; echo '{"numpy": "ImportError: no BLAS"}'`,
    );
    const [failure, more] = await check(directory, { modules: ["os", "numpy"] }, python);
    assert.equal(more, undefined);
    assert.match(
      failure!,
      /cannot import numpy \(ImportError: no BLAS\); install it there, or set metadata.worker.python/,
    );
  }));

Deno.test("preflight: an interpreter that is missing, dies or hangs is told apart", () =>
  inDirectory(async (directory) => {
    const modules = { modules: ["numpy"] };
    assert.match(
      (await check(directory, modules, [`${directory}/none`]))[0]!,
      /cannot be started .*metadata.worker.python/,
    );
    const dying = fakePython(directory, "echo 'last words' >&2; kill -SEGV $$");
    assert.match(
      (await check(directory, modules, dying))[0]!,
      /ended with SIGSEGV while importing numpy: last words/,
    );
    const hanging = fakePython(directory, "sleep 600");
    const failures = await preflightOf(planWith({ metadata: { preflight: modules } }), {
      command: commandIn(directory, hanging),
      directory,
      gpuSlots: [],
      moduleTimeoutMs: 300,
    });
    assert.match(failures[0]!, /did not import numpy within 0.3 s/);
  }));

Deno.test({
  name: "preflight: a real Python imports what it has and names what it lacks",
  ignore: !new Deno.Command("sh", { args: ["-c", "command -v python3"], stdout: "null" })
    .outputSync().success,
  fn: () =>
    inDirectory(async (directory) => {
      assert.deepEqual(await check(directory, { modules: ["json", "os.path"] }), []);
      const [failure] = await check(directory, { modules: ["json", "no_such_module.part"] });
      assert.match(failure!, /^python3 cannot import no_such_module.part \(ModuleNotFoundError: /);
    }),
});
