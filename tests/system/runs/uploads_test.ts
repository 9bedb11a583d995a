/**
 * Runs on a host that shares no disk with the daemon: logs and files are uploaded, through cut
 * links and killed processes.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { RunFiles } from "../../../src/base/layout.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { killProcessesOf, processesOf } from "../../harness/processes.ts";
import { getRun, records, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { Relay } from "../../faults/relay.ts";

const CONFIG = () =>
  configOf({
    command: ["unused"],
    environment: { LR: "0.1" },
    metadata: { worker: { external: true, upload_files: true } },
  });

/**
 * A checkpoint of 24 MB, a video, a file of its own that is announced, 400 steps, and text on both
 * streams.
 */
const WORKER = `
resumed=$([ -n "$MOSAIC_RESUME_FROM" ] && sha256sum <"$MOSAIC_RESUME_FROM")
echo "$LR $MOSAIC_ATTEMPT $resumed" >"$MOSAIC_RUN_DIR/.given"
i=0; while [ $i -lt 200 ]; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i}"; i=$((i + 1)); done
mkdir -p "$MOSAIC_CHECKPOINT_DIR" "$MOSAIC_RUN_DIR/videos" "$MOSAIC_RUN_DIR/tables"
head -c 24000000 /dev/urandom >"$MOSAIC_CHECKPOINT_DIR/model.tmp"
mv "$MOSAIC_CHECKPOINT_DIR/model.tmp" "$MOSAIC_CHECKPOINT_DIR/model.pt"
echo "{\\"event\\":\\"checkpoint_saved\\",\\"payload\\":{\\"checkpoint_path\\":\\"$MOSAIC_CHECKPOINT_DIR/model.pt\\",\\"step\\":200}}"
head -c 700000 /dev/urandom >"$MOSAIC_RUN_DIR/videos/a.mp4"
echo 1,2 >"$MOSAIC_RUN_DIR/tables/of attempt $MOSAIC_ATTEMPT.csv"
echo "{\\"event\\":\\"artifact\\",\\"path\\":\\"$MOSAIC_RUN_DIR/tables/of attempt $MOSAIC_ATTEMPT.csv\\",\\"kind\\":\\"table\\"}"
: >"$MOSAIC_RUN_DIR/empty"
echo "some trouble" >&2
while [ ! -e "$MOSAIC_RUN_DIR/.go" ]; do sleep 0.1; done
while [ $i -lt 400 ]; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i}"; i=$((i + 1)); done
exit $1
`;

class Elsewhere implements AsyncDisposable {
  readonly #place = Deno.makeTempDirSync({ prefix: "mosaic-elsewhere-" });
  /** The run's. */
  readonly directory: string;
  readonly #children: Deno.ChildProcess[] = [];

  constructor(runId: string) {
    this.directory = `${this.#place}/${runId}`;
    Deno.mkdirSync(this.directory);
  }

  start(relay: Relay, runId: string, attempt: number, exit: number): Deno.ChildProcess {
    const child = new Deno.Command(PROGRAM[0]!, {
      args: [
        ...PROGRAM.slice(1),
        ...["proxy", "--target", relay.address, "--run-id", runId, "--attempt", String(attempt)],
        ...["--run-dir", this.directory, "--", "sh", "-c", WORKER, "worker", String(exit)],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    this.#children.push(child);
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await killProcessesOf(this.directory);
    await Promise.all(this.#children.map(({ status }) => status));
    await Deno.remove(this.#place, { recursive: true });
  }
}

function assertSame(a: string, b: string): void {
  const [left, right] = [Deno.readFileSync(a), Deno.readFileSync(b)];
  assert.equal(left.length, right.length, `${a} and ${b}`);
  assert.ok(left.every((byte, i) => byte === right[i]), `${a} and ${b} differ`);
}

/** Bytes of the checkpoint that have arrived. */
function arrived(here: RunFiles, attempt: number): number {
  const parts = `${here.control}/upload-${attempt}/checkpoints`;
  const below = attempt === 1 ? parts : `${parts}/attempt-${attempt}`;
  try {
    return Math.max(
      0,
      ...[...Deno.readDirSync(below)].filter(({ isFile }) => isFile)
        .map(({ name }) => Deno.statSync(`${below}/${name}`).size),
    );
  } catch {
    return 0;
  }
}

Deno.test("uploads: link cut, daemon and proxy killed in the middle: files equal, each record once, the next attempt's apart", async () => {
  await using daemon = await TestDaemon.start({ args: ["--upload-rate", "4M"] });
  await using relay = new Relay(daemon.http);
  const runId = await submit(daemon, CONFIG());
  await using there = new Elsewhere(runId);
  await untilState(daemon, runId, "HANDSHAKE");
  const here = new RunFiles((await getRun(daemon, runId)).directory, "");
  let proxy = there.start(relay, runId, 1, 3);
  await untilSteps(daemon, runId, 200);
  assert.equal(Deno.readTextFileSync(`${there.directory}/.given`), "0.1 1 \n");
  await until(() => arrived(here, 1) > 1_000_000, { what: "the checkpoint's first part" });
  relay.cut();
  const cutAt = arrived(here, 1);
  await until(() => arrived(here, 1) > cutAt + 3_000_000, {
    what: "the checkpoint to go on behind a cut",
  });
  const killed = arrived(here, 1);
  proxy.kill("SIGKILL");
  await proxy.status;
  proxy = there.start(relay, runId, 1, 3);
  await until(() => arrived(here, 1) > killed + 2_000_000, {
    what: "the checkpoint to go on in another proxy",
  });
  // One worker and its wrapper, still of the first proxy.
  assert.equal(
    processesOf(there.directory).filter(({ command }) =>
      / worker 3$/.test(command) && !/ proxy /.test(command)
    ).length,
    2,
  );
  await daemon.restart();
  Deno.writeTextFileSync(`${there.directory}/.go`, "");
  assert.equal((await proxy.status).code, 3);
  await assert.rejects(untilState(daemon, runId, "TERMINATED"), /exit_code_3/);

  const names = [
    "checkpoints/model.pt",
    "videos/a.mp4",
    "tables/of attempt 1.csv",
    "empty",
    "logs/worker.stdout.log",
  ];
  for (const name of [...names, "logs/worker.stderr.log"]) {
    assertSame(`${there.directory}/${name}`, `${here.directory}/${name}`);
  }
  assert.throws(() => Deno.statSync(`${here.control}/upload-1`), Deno.errors.NotFound);
  assert.deepEqual(
    (await steps(daemon, runId)).map(({ step_index }) => step_index),
    Array.from({ length: 400 }, (_, i) => i),
  );
  assert.deepEqual(
    (await records(daemon, runId, "events")).map(({ event_kind, event, type }) =>
      event_kind ?? event ?? type
    ),
    ["checkpoint_saved", "artifact"],
  );
  const listed = await until(async () => {
    const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run: runId });
    return artifacts.length === 3 && artifacts.every(({ sha256 }) => sha256 !== "")
      ? artifacts
      : undefined;
  }, { what: "three artifacts with checksums" });
  assert.deepEqual(
    listed.map(({ path, kind, step }) => [path, kind, step === undefined ? null : Number(step)])
      .toSorted(),
    [["checkpoints/model.pt", "checkpoint", 200], ["tables/of attempt 1.csv", "table", null], [
      "videos/a.mp4",
      "video",
      null,
    ]],
  );

  // The same names again: those of the first attempt stay what they were.
  const first = Deno.readFileSync(`${here.directory}/videos/a.mp4`);
  await daemon.client.unary(Mosaic.method.retryRun, { run: runId });
  await untilState(daemon, runId, "HANDSHAKE");
  assert.equal((await there.start(relay, runId, 2, 0).status).code, 0);
  await untilState(daemon, runId, "TERMINATED");
  const sum = createHash("sha256").update(
    Deno.readFileSync(`${here.directory}/checkpoints/model.pt`),
  ).digest("hex");
  assert.equal(Deno.readTextFileSync(`${there.directory}/.given`), `0.1 2 ${sum}  -\n`);
  assertSame(`${there.directory}/videos/a.mp4`, `${here.directory}/videos/attempt-2/a.mp4`);
  assertSame(
    `${there.directory}/checkpoints/attempt-2/model.pt`,
    `${here.directory}/checkpoints/attempt-2/model.pt`,
  );
  assertSame(
    `${there.directory}/logs/worker.2.stdout.log`,
    `${here.directory}/logs/worker.2.stdout.log`,
  );
  assert.deepEqual(Deno.readFileSync(`${here.directory}/videos/a.mp4`), first);
  assert.equal((await steps(daemon, runId)).length, 800);
});
