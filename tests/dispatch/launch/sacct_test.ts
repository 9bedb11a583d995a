/**
 * What Slurm's accounting knows of jobs that squeue names no more, from programs that print as
 * Slurm's do.
 */
import assert from "node:assert/strict";
import { Slurm } from "../../../src/dispatch/launch/slurm/slurm.ts";

const NAME = "mosaic-R-1";

/** A Slurm whose tools print this; one that is undefined is not there. */
async function remembered(tools: { sacct?: string; sinfo?: string }) {
  const bin = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  try {
    for (const [name, script] of Object.entries(tools)) {
      Deno.writeTextFileSync(`${bin}/${name}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
    return await new Slurm({ PATH: `${bin}:/usr/bin:/bin` }).remembered(NAME);
  } finally {
    Deno.removeSync(bin, { recursive: true });
  }
}

const line = (job: number, state: string, nodes = "n1") =>
  `echo '${job}|${NAME}|${state}|1700000000|1700000005|${nodes}|None'`;

Deno.test("sacct: ends as squeue would tell them; what accounting says still runs is no end", async () => {
  const answer = await remembered({
    sacct: `[ "$SLURM_TIME_FORMAT" = %s ] || exit 1
case "$*" in *--name=${NAME}*) ;; *) exit 1 ;; esac
${
      [
        line(7, "TIMEOUT"),
        line(8, "CANCELLED by 1000", "None assigned"),
        line(9, "OUT_OF_MEMORY"),
        line(10, "RUNNING"),
      ]
        .join("\n")
    }`,
    sinfo: "echo 'n1|idle'",
  });
  assert(answer.t === "answer");
  assert.deepEqual(
    answer.jobs.map((
      { job, submittedAt, nodes, state },
    ) => [job, submittedAt, nodes, state.t === "ended" && state.end]),
    [
      ["7", 1_700_000_000_000, ["n1"], { kind: "time_limit", proven: true, text: "TIMEOUT" }],
      ["8", 1_700_000_000_000, [], { kind: "job_cancelled", proven: true, text: "CANCELLED" }],
      ["9", 1_700_000_000_000, ["n1"], {
        kind: "out_of_memory",
        proven: true,
        text: "OUT_OF_MEMORY",
      }],
    ],
  );
});

Deno.test("sacct: a failed node's job has ended for sure only if the node answers", async () => {
  const sacct = line(7, "NODE_FAIL");
  for (const [state, proven] of [["idle", true], ["down*", false]] as const) {
    const answer = await remembered({ sacct, sinfo: `echo 'n1|${state}'` });
    assert(answer.t === "answer" && answer.jobs[0]!.state.t === "ended");
    assert.equal(answer.jobs[0]!.state.end.proven, proven, state);
  }
});

Deno.test("sacct: without accounting nothing is known", async () => {
  const off = await remembered({
    sacct: 'echo "Slurm accounting storage is disabled" >&2; exit 1',
  });
  assert.deepEqual(off, { t: "no_answer", why: "Slurm accounting storage is disabled" });
});
