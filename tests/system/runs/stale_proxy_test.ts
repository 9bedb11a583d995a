/**
 * A proxy on another host whose link breaks while its run is cancelled and tried again: its worker
 * must not live on.
 */
import assert from "node:assert/strict";
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTokens } from "../../../src/wire/tokens.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { killProcessesOf, processesOf } from "../../harness/processes.ts";
import { noSecondHost, SecondHost } from "../../harness/second_host.ts";
import { until } from "../../harness/wait.ts";
import { certificates } from "../../rpc/auth/certificates.ts";

const why = noSecondHost();
if (why !== undefined) {
  assert.notEqual(Deno.env.get("MOSAIC_TEST_REQUIRE"), "all", why);
  console.error(`SKIPPED: a proxy on a second host: ${why}`);
}

const port = 27_000 + Deno.pid % 1000;

Deno.test({
  name:
    "a proxy whose attempt is over when its link is back ends its worker; the next attempt has the run alone",
  ignore: why !== undefined,
  async fn() {
    using second = new SecondHost();
    const directory = await Deno.makeTempDir();
    const { ca, server } = certificates(directory);
    const http = `${second.address}:${port}`;
    const args = [
      "--http",
      http,
      "--auth",
      "token",
      "--grace",
      "1",
      "--tls-cert",
      server.cert,
      "--tls-key",
      server.key,
    ];
    await using daemon = await TestDaemon.start({ args });
    const client = new MosaicClient(daemon.target, {
      token: readTokens(daemon.layout.tokensFile)!.admin,
    });
    const run = () => client.unary(Mosaic.method.getRun, { run: runId });
    const inAttempt = (attempt: number, state: string) =>
      until(async () => {
        const now = await run();
        return now.attempt === attempt && now.state === state ? now : undefined;
      }, {
        what: `attempt ${attempt} to be ${state}`,
        state: () => run().then(({ attempt, state }) => ({ attempt, state })),
      });
    const { runId } = await client.unary(TrainerService.method.submitRun, {
      configJson: configOf({ command: ["unused"], metadata: { worker: { external: true } } }),
    });
    const children: Deno.ChildProcess[] = [];
    const proxy = async (attempt: number, prefix: string[]) => {
      const { directory: runDirectory } = await inAttempt(attempt, "HANDSHAKE");
      const token = `${directory}/token-${attempt}`;
      await Deno.copyFile(`${runDirectory}/.mosaic/session-token`, token);
      const home = `${directory}/host-${attempt}`;
      const worker = countingWorker({ steps: 100_000, everySeconds: 0.1 });
      const own = [
        "--target",
        `https://${http}`,
        "--tls-ca",
        ca,
        "--tls-server-name",
        "localhost",
        "--token-file",
        token,
      ];
      const [program, ...rest] = [
        ...prefix,
        ...PROGRAM,
        "proxy",
        "--run-id",
        runId,
        "--attempt",
        `${attempt}`,
        ...own,
        "--",
        ...worker,
      ];
      const env = { MOSAIC_STATE_DIR: home };
      children.push(
        new Deno.Command(program!, {
          args: rest,
          env,
          stdin: "null",
          stdout: "null",
          stderr: "null",
        }).spawn(),
      );
      await inAttempt(attempt, "EXECUTING");
      return () =>
        processesOf(home).filter(({ command }) =>
          /worker\.sh \d/.test(command) && !command.includes(" proxy ")
        );
    };
    try {
      const first = await proxy(1, second.on());
      second.cut();
      await client.unary(Mosaic.method.cancelRun, { run: runId });
      await inAttempt(1, "CANCELLED");
      await client.unary(Mosaic.method.retryRun, { run: runId });
      const next = await proxy(2, []);
      assert.notEqual(first().length, 0, "the first attempt's worker cannot know yet");
      second.heal();
      const healed = performance.now();
      await until(() => first().length === 0, {
        ...{ what: "the first attempt's worker to end", timeoutMs: 10_000 },
        state: first,
      });
      console.error(
        `the stale worker was gone ${
          ((performance.now() - healed) / 1000).toFixed(1)
        } s after the link was back`,
      );
      assert.notEqual(next().length, 0);
      assert.equal((await run()).attempt, 2);
    } finally {
      client.close();
      await killProcessesOf(directory);
      for (const child of children) await child.status;
      await Deno.remove(directory, { recursive: true });
    }
  },
});
