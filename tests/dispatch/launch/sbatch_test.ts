/** What sbatch is asked for, and what follows from its answers. */
import assert from "node:assert/strict";
import { RunFiles } from "../../../src/base/layout.ts";
import { planOf } from "../../../src/config/plan.ts";
import { batchScript, sbatchOptions } from "../../../src/dispatch/launch/slurm/sbatch.ts";
import { Slurm } from "../../../src/dispatch/launch/slurm/slurm.ts";
import { isAlive, processRef } from "../../../src/os/processes/identity.ts";
import { configOf } from "../../harness/configs.ts";
import { until } from "../../harness/wait.ts";

function planWith(resources: Record<string, unknown>, slurm: Record<string, unknown> = {}) {
  const config = JSON.parse(
    configOf({
      command: ["/bin/true"],
      metadata: { launcher: "slurm", slurm, worker: { script: "/bin/true" } },
    }),
  );
  return planOf(JSON.stringify({ ...config, resources }));
}

const batch = { name: "mosaic-1-1", comment: "c", logFile: "/l/50%.log", script: "/s" };

Deno.test("sbatch is asked for what the config says; what it leaves open is Slurm's", () => {
  const asked = sbatchOptions(
    planWith({ cpus: 4, memory_mb: 2000, gpus: { requested: 2, mandatory: true } }, {
      time: 30,
      extra: ["--nice=5"],
    }),
    batch,
  );
  for (const one of ["--cpus-per-task=4", "--mem=2000M", "--gres=gpu:2", "--time=30", "--nice=5"]) {
    assert.ok(asked.includes(one), one);
  }
  assert.ok(asked.includes("--output=/l/50%%.log"));
  assert.deepEqual(
    [asked.at(-2), asked.at(-1)],
    ["--nice=5", "/s"],
    "what the user says comes last, and the script",
  );

  const open = sbatchOptions(planWith({ gpus: { requested: 0, mandatory: false } }), batch);
  assert.deepEqual(open.filter((one) => /cpus|mem|gres|null|undefined/.test(one)), []);
});

for (
  const [said, code, t] of [
    ['sbatch: error: Invalid numeric value "x" for --cpus-per-task.', 1, "rejected"],
    [
      "sbatch: error: invalid partition specified: gpu\nsbatch: error: Batch job submission failed: Invalid partition name specified",
      1,
      "rejected",
    ],
    [
      "sbatch: error: Batch job submission failed: More processors requested than permitted",
      1,
      "rejected",
    ],
    [
      "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
      1,
      "not_taken",
    ],
    [
      "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
      1,
      "not_taken",
    ],
    ["sbatch: error: something new", 1, "not_taken"],
    [
      "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
      1,
      "no_answer",
    ],
    [
      "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
      1,
      "no_answer",
    ],
    ["", 137, "no_answer"],
  ] as const
) {
  Deno.test(`sbatch says ${JSON.stringify(said.slice(-60))}: ${t}`, async () => {
    const directory = Deno.makeTempDirSync();
    try {
      const files = new RunFiles(directory, "");
      for (const path of [files.logs, files.control]) Deno.mkdirSync(path, { recursive: true });
      const tool = (name: string, script: string) =>
        Deno.writeTextFileSync(`${directory}/${name}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      Deno.writeTextFileSync(`${directory}/said`, said);
      tool("squeue", "true");
      tool("sbatch", `cat ${directory}/said >&2; exit ${code}`);
      const launched = await new Slurm({ PATH: `${directory}:/usr/bin:/bin` }).launch({
        ...{
          name: "mosaic-1-1",
          comment: "",
          plan: planWith({ gpus: { requested: 0, mandatory: false } }),
          files,
        },
        ...{ attempt: 1, argv: ["true"], env: {} },
      });
      assert.equal(launched.t, t, JSON.stringify(launched));
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  });
}

Deno.test("a job's script ends the worker of a killed proxy, and only it", async () => {
  const directory = Deno.makeTempDirSync();
  const sleeper = () => new Deno.Command("sleep", { args: ["600"], detached: true }).spawn();
  const workers = [sleeper(), sleeper()];
  try {
    const [worker, other] = workers.map(({ pid }) => processRef(pid)!);
    // Of a process that had the number before.
    const earlier = other!.identity.replace(/\d+$/, (ticks) => String(Number(ticks) - 1));
    const jobs = ([[worker!.pid, worker!.identity], [other!.pid, earlier]] as const).map(
      ([pid, identity], i) => {
        const file = `${directory}/worker-${i}.json`;
        Deno.writeTextFileSync(
          file,
          `${JSON.stringify({ pid, identity, started_at: "", journal: "" })}\n`,
        );
        const args = ["-c", batchScript(["/bin/sleep", "600"], { A: "b" }, file)];
        return new Deno.Command("/bin/sh", { args, stderr: "piped", stdin: "null" }).spawn();
      },
    );
    for (const job of jobs) {
      await until(() => /sleep/.test(Deno.readTextFileSync(`/proc/${job.pid}/comm`)), {
        what: "the proxy",
      });
      job.kill("SIGKILL");
    }
    const said = await Promise.all(jobs.map((job) => job.stderr.text()));
    assert.match(said[0]!, new RegExp(`the worker \\(process group ${worker!.pid}\\) is killed`));
    assert.equal(said[1], "");
    assert.equal((await workers[0]!.status).signal, "SIGKILL");
    assert.ok(isAlive(other!), "a process of another start has the number");
    for (const job of jobs) await job.status;
  } finally {
    for (const one of workers) {
      try {
        one.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      await one.status;
    }
    Deno.removeSync(directory, { recursive: true });
  }
});
