/**
 * `deno task faults [--runs N] [--seed S] [--jobs J]`: seeded schedules of faults against real
 * processes, and an independent check of the stored records. Prints the failed seeds with the
 * findings, and exits with 1 if there are any. Each process runs 40 schedules and then starts the
 * next process, because the runtime retains some memory of every gRPC connection.
 */
import { runSchedule } from "../tests/faults/run_schedule.ts";
import { runSweepSchedule } from "../tests/faults/sweeps/sweep_schedule.ts";
import { taskArguments } from "./task_arguments.ts";

const PER_PROCESS = 40;
/** One in so many seeds also has a schedule of a sweep. */
const SWEEP_EACH = 10;
const { values } = taskArguments(import.meta.url, {
  runs: { type: "string", default: "50" },
  seed: { type: "string", default: "1" },
  jobs: { type: "string", default: "4" },
  share: { type: "boolean", default: false },
});
const [runs, seed, jobs] = [Number(values.runs), Number(values.seed), Number(values.jobs)];
if (![runs, seed, jobs].every((n) => Number.isSafeInteger(n) && n > 0)) {
  console.error("faults: --runs, --seed and --jobs take whole numbers above 0");
  Deno.exit(2);
}

async function share(first: number, count: number): Promise<number> {
  let next = first;
  let failed = 0;
  await Promise.all(Array.from({ length: jobs }, async () => {
    while (next < first + count) {
      const now = next++;
      const verdicts = [await runSchedule(now)];
      if (now % SWEEP_EACH === 0) verdicts.push(await runSweepSchedule(now / SWEEP_EACH));
      const wrong = verdicts.filter(({ findings }) => findings.length > 0);
      if (wrong.length > 0) failed++;
      for (const { findings, evidence } of wrong) {
        console.log(`FAILED seed ${now}\n  ${findings.join("\n  ")}\n${evidence}`);
      }
    }
  }));
  return failed;
}

if (values.share) Deno.exit(await share(seed, runs));
let failed = 0;
for (let done = 0; done < runs; done += PER_PROCESS) {
  const count = Math.min(PER_PROCESS, runs - done);
  const args = ["run", "-A", "--no-check", import.meta.url, "--share", "--jobs", String(jobs)];
  const { code, signal } = await new Deno.Command(Deno.execPath(), {
    args: [...args, "--runs", String(count), "--seed", String(seed + done)],
    stdin: "null",
  }).spawn().status;
  failed += signal === null ? code : count;
  console.log(
    `${done + count} of ${runs} schedules, seeds ${seed}–${
      seed + done + count - 1
    }, ${failed} failed`,
  );
}
Deno.exit(failed > 0 ? 1 : 0);
