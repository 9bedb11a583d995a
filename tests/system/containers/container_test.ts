/**
 * Runs in containers: the built file is process 1 of an otherwise empty root filesystem, the daemon
 * is outside.
 */
import assert from "node:assert/strict";
import { readTokens } from "../../../src/wire/tokens.ts";
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { resolveDialOptions } from "../../../src/wire/client/target.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic, type Run } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { RunFiles } from "../../../src/base/layout.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { certificates } from "../../rpc/auth/certificates.ts";
import { Relay } from "../../faults/relay.ts";
import { hasBubblewrap } from "../../harness/bubblewrap.ts";
import { buildMosaic } from "../../harness/built.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { killProcessesOf } from "../../harness/processes.ts";
import { until } from "../../harness/wait.ts";
import { type Container, Image } from "./container.ts";

const available = hasBubblewrap();
if (!available) console.log("SKIPPED: bubblewrap is not usable here, so no container is started");

const STEP = `step() { printf '{"type":"step","step":%d}\\n' "$1"; }
`;
/** Steps 0 to COUNT-1, PAUSE seconds apart. */
const COUNTING = `${STEP}i=0
while [ $i -lt $1 ]; do step $i; i=$((i + 1)); sleep $2; done
echo "that was all" >&2
exit $3
`;
/**
 * Leaves 100 processes without a parent, waits until each of them has ended, and ends with the
 * number of zombies.
 */
const ORPHANS = `${STEP}i=0
while [ $i -lt 100 ]; do (sh -c 'sleep 0.2; : >"/tmp/ended-$0"' $i &); i=$((i + 1)); done
while [ "$(echo /tmp/ended-* | wc -w)" -lt 100 ]; do sleep 0.1; done
zombies() {
  n=0
  for stat in /proc/[0-9]*/stat; do read -r line <$stat && case $line in *") Z "*) n=$((n + 1)) ;; esac; done 2>/dev/null
  echo $n
}
tries=0
while [ "$(zombies)" != 0 ] && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
step 0
exit "$(zombies)"
`;
const POLITE = `${STEP}step 0
trap 'step 1; exit 5' TERM
while :; do sleep 0.05; done
`;
const STUBBORN = `${STEP}trap '' TERM
step 0
while :; do sleep 0.05; done
`;

class Outside implements AsyncDisposable {
  readonly relay: Relay;
  readonly #daemon: TestDaemon;
  readonly #client: MosaicClient;

  constructor(daemon: TestDaemon, ca: string) {
    this.#daemon = daemon;
    this.relay = new Relay(daemon.http);
    const options = resolveDialOptions({
      target: daemon.http,
      token: readTokens(daemon.layout.tokensFile)!.admin,
      tls: { ca },
      serverName: "localhost",
    });
    this.#client = new MosaicClient(options.target, { ...options, deadlineMs: 60_000 });
  }

  /**
   * Submits a run that somebody else is to start; gives its id and the volumes and variables of its
   * container.
   */
  async submit(directory: string) {
    const config = configOf({ command: ["unused"], metadata: { worker: { external: true } } });
    const { runId } = await this.#client.unary(TrainerService.method.submitRun, {
      configJson: config,
    });
    const { directory: runDir } = await this.#client.unary(Mosaic.method.getRun, { run: runId });
    const token = await until(() => readTextIfThere(new RunFiles(runDir, "").sessionTokenFile), {
      what: "the run's session token",
      timeoutMs: 20_000,
    });
    const [secrets, journal] = [`${directory}/${runId}/secrets`, `${directory}/${runId}/journal`];
    for (const path of [secrets, journal]) Deno.mkdirSync(path, { recursive: true });
    Deno.writeTextFileSync(`${secrets}/token`, token);
    return {
      runId,
      volumes: [{ from: secrets, to: "/run/secrets" }, { from: journal, to: "/var/lib/mosaic" }],
      env: {
        MOSAIC_TARGET: this.relay.address,
        MOSAIC_RUN_ID: runId,
        MOSAIC_TOKEN_FILE: "/run/secrets/token",
        MOSAIC_TLS_CA: "/etc/mosaic-ca.pem",
        MOSAIC_TLS_SERVER_NAME: "localhost",
        MOSAIC_STATE_DIR: "/var/lib/mosaic",
      },
    };
  }

  async ended(run: string, container: Container): Promise<Run> {
    let last: Run | undefined;
    return await until(async () => {
      last = await this.#client.unary(Mosaic.method.getRun, { run });
      return last.outcome === "" ? undefined : last;
    }, {
      what: "the run to end",
      state: () => [last?.state, container.stderr().slice(-3000), this.#daemon.output()],
    });
  }

  async stored(run: string): Promise<number> {
    return Number((await this.#client.unary(Mosaic.method.getRun, { run })).telemetry?.steps ?? 0);
  }

  async steps(run: string): Promise<number[]> {
    const lines: string[] = [];
    for await (
      const { jsonl } of this.#client.stream(Mosaic.method.streamTelemetry, { run, kind: "steps" })
    ) {
      lines.push(...new TextDecoder().decode(jsonl).split("\n").filter((line) => line !== ""));
    }
    return lines.map((line) => JSON.parse(line).step_index);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    await this.relay[Symbol.asyncDispose]();
  }
}

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

Deno.test({ name: "containers: the built file as process 1", ignore: !available }, async (t) => {
  const directory = Deno.makeTempDirSync();
  const mosaic = `${directory}/mosaic`;
  try {
    await buildMosaic(mosaic);
    const image = await Image.build(directory, mosaic);
    const tls = certificates(directory);
    image.add("/etc/mosaic-ca.pem", Deno.readTextFileSync(tls.ca));
    const workers = { counting: COUNTING, orphans: ORPHANS, polite: POLITE, stubborn: STUBBORN };
    for (const [name, script] of Object.entries(workers)) image.add(`/app/${name}.sh`, script);
    await using daemon = await TestDaemon.start({
      args: ["--auth", "token", "--tls-cert", tls.server.cert, "--tls-key", tls.server.key],
      program: [mosaic],
      env: { MOSAIC_CACHE_DIR: `${directory}/cache`, MOSAIC_PERMISSIONS: "" },
    });
    await using outside = new Outside(daemon, tls.ca);
    const start = (run: Awaited<ReturnType<Outside["submit"]>>, ...worker: string[]) =>
      image.run({ ...run, command: ["mosaic-entrypoint", "sh", ...worker] });

    await t.step(
      "its network is cut for a while: nothing is lost, nothing repeated, all of it mirrored",
      async () => {
        const run = await outside.submit(directory);
        const container = start(run, "counting.sh", "150", "0.02", "0");
        await container.untilPrinted(/"step":30}/);
        outside.relay.down();
        await container.untilPrinted(/"step":80}/);
        assert.ok(await outside.stored(run.runId) < 80);
        outside.relay.up();
        const ended = await outside.ended(run.runId, container);
        assert.deepEqual([ended.state, ended.reason], ["TERMINATED", ""], container.stderr());
        assert.equal(await container.code, 0);
        assert.deepEqual(await outside.steps(run.runId), numbers(150));
        assert.deepEqual(
          container.stdout().trim().split("\n"),
          numbers(150).map((step) => JSON.stringify({ type: "step", step })),
        );
        assert.match(container.stderr(), /^that was all$/m);
      },
    );

    await t.step("it ends with the worker's exit code, and so does the run", async () => {
      const run = await outside.submit(directory);
      const container = start(run, "counting.sh", "3", "0", "7");
      assert.equal(await container.code, 7, container.stderr());
      const ended = await outside.ended(run.runId, container);
      assert.deepEqual([ended.state, ended.exitCode], ["FAULTED", 7]);
    });

    await t.step("who is orphaned in it is waited for: no zombies", async () => {
      const run = await outside.submit(directory);
      const container = start(run, "orphans.sh");
      assert.equal(await container.code, 0, container.stderr());
    });

    await t.step(
      "SIGTERM asks the worker first, kills it after the grace period, and its last words arrive",
      async () => {
        const runs = [await outside.submit(directory), await outside.submit(directory)] as const;
        const polite = start(runs[0], "polite.sh");
        const stubborn = start(runs[1], "stubborn.sh");
        for (const container of [polite, stubborn]) await container.untilPrinted(/"step":0}/);
        await polite.signal("SIGTERM");
        await stubborn.signal("SIGTERM");
        assert.equal(await polite.code, 5, polite.stderr());
        assert.equal((await outside.ended(runs[0].runId, polite)).exitCode, 5);
        assert.deepEqual(await outside.steps(runs[0].runId), [0, 1]);
        assert.equal(await stubborn.code, 137, stubborn.stderr());
        assert.equal((await outside.ended(runs[1].runId, stubborn)).exitSignal, "SIGKILL");
      },
    );

    await t.step(
      "killed while the network is away: started again on its volume it delivers what was printed",
      async () => {
        const run = await outside.submit(directory);
        const container = start(run, "counting.sh", "100000", "0.02", "0");
        await container.untilPrinted(/"step":10}/);
        await until(async () => await outside.stored(run.runId) > 0, {
          what: "the first steps to be stored",
        });
        outside.relay.down();
        await container.untilPrinted(/"step":60}/);
        await container.signal("SIGKILL");
        assert.equal(await container.code, 137);
        outside.relay.up();
        const journal = Deno.readTextFileSync(
          `${run.volumes[1]!.from}/trainer/runs/${run.runId}/logs/worker.stdout.log`,
        );
        const printed = journal.trimStart().split("\n").length - 1;
        assert.ok(printed > 60);
        const again = start(run, "counting.sh", "100000", "0.02", "0");
        assert.equal(await again.code, 71, again.stderr());
        const ended = await outside.ended(run.runId, again);
        assert.equal(ended.state, "FAULTED");
        assert.match(ended.reason, /lost/);
        assert.deepEqual(await outside.steps(run.runId), numbers(printed));
      },
    );
  } finally {
    await killProcessesOf(directory);
    Deno.removeSync(directory, { recursive: true });
  }
});
