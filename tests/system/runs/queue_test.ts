/** The queue as a person sees it: the command line against a daemon with real workers. */
import assert from "node:assert/strict";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, untilState } from "../../harness/runs.ts";
import { runVerb } from "../../cli/verb.ts";

Deno.test("queue: runs after runs, at a time and by deadline, from the command line; list and show say why one waits", async () => {
  await using daemon = await TestDaemon.start();
  const run = async (...words: string[]) => {
    const { code, out, err } = await runVerb(daemon, ["run", "--no-observe", ...words]);
    assert.equal(code, 0, err);
    return out.trim();
  };
  const first = await run("--name", "first", "--", "/bin/sh", "-c", "read line; exit 3");
  const held = await run("--after", "first", "--", "/bin/true");
  const dropped = await run("--after", `${first}:ok`, "--after-never", "cancel", "--", "/bin/true");
  const next = await run("--after", "first:failed", "--begin", "+200ms", "--", "/bin/true");
  const late = await run("--after", "first", "--deadline", "+700ms", "--", "/bin/true");
  await untilState(daemon, next, "TERMINATED");
  await untilState(daemon, dropped, "CANCELLED");
  await untilState(daemon, late, "FAULTED");
  assert.equal((await getRun(daemon, late)).reason, "deadline_passed");
  const why =
    `run first ${first} to end well, but it failed: exit_code_3 (dependency never satisfied)`;
  const show = await runVerb(daemon, ["show", held]);
  assert.ok(show.out.includes(why), show.out);
  const list = JSON.parse((await runVerb(daemon, ["list", "-s", "queued", "-o", "json"])).out);
  assert.deepEqual(list.map((row: { waiting_for: string }) => row.waiting_for), [why]);
  const page = await (await fetch(`http://${daemon.http}/api/runs/${held}`)).json();
  assert.equal(page.waiting_for ?? page.run?.waiting_for, why);
  assert.match(
    (await runVerb(daemon, ["run", "--after", "nobody", "--", "/bin/true"])).err,
    /metadata.queue.after\[0\]/,
  );
});

const WORKER = `
echo "attempt from '$MOSAIC_RESUME_FROM'"
if [ -n "$MOSAIC_RESUME_FROM" ]; then cat "$MOSAIC_RESUME_FROM"; exit 0; fi
echo '{"type":"step","step":1,"reward":1}'
while read -r line; do
  case "$line" in *checkpoint*)
    mkdir -p "$MOSAIC_CHECKPOINT_DIR"; echo "weights" > "$MOSAIC_CHECKPOINT_DIR/model.pt"
    printf '{"event":"checkpoint_saved","payload":{"path":"%s"}}\\n' "$MOSAIC_CHECKPOINT_DIR/model.pt";;
  esac
done`;

Deno.test("queue: a preemptible worker saves the checkpoint that it is asked for, gives way, and continues from it", async () => {
  await using daemon = await TestDaemon.start({ args: ["--max-runs", "1", "--grace", "1"] });
  const run = async (...words: string[]) =>
    (await runVerb(daemon, ["run", "--no-observe", ...words])).out.trim();
  const low = await run(
    "--preemptible",
    "--supports-pause",
    "-e",
    "MOSAIC_CHECKPOINT_DIR=",
    "--",
    "/bin/sh",
    "-c",
    WORKER,
  );
  await untilState(daemon, low, "EXECUTING");
  const high = await run("--priority", "5", "--", "/bin/true");
  await untilState(daemon, high, "TERMINATED");
  await untilState(daemon, low, "TERMINATED");
  const { attempt, outcome } = await getRun(daemon, low);
  assert.deepEqual([attempt, outcome], [2, "succeeded"]);
  const log = (await runVerb(daemon, ["logs", low])).out;
  assert.match(log, /attempt from '.*\/model.pt'/);
  assert.match(log, /weights/);
  const events = (await runVerb(daemon, ["events", low, "-o", "jsonl"])).out.trim().split("\n").map(
    (l) => JSON.parse(l),
  );
  const { data } = events.find(({ kind }: { kind: string }) => kind === "preempted");
  assert.deepEqual([data.by, data.asked, data.saved], [high, true, true]);
});
