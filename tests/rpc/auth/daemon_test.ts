import assert from "node:assert/strict";
import { tlsBounds } from "../../../src/daemon/servers.ts";
import { readTokens } from "../../../src/wire/tokens.ts";
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { GrpcClient } from "../../harness/grpc_client.ts";
import { resolveDialOptions } from "../../../src/wire/client/target.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, countingWorker } from "../../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { until } from "../../harness/wait.ts";
import { hasCode } from "../../registry/fixture.ts";
import { certificates } from "./certificates.ts";

async function ended(client: MosaicClient, run: string) {
  return await until(async () => {
    const now = await client.unary(Mosaic.method.getRun, { run });
    return now.outcome === "" ? undefined : now;
  }, { what: "the run to end" });
}

async function mosaic(stateDir: string, ...args: string[]) {
  const { code, stdout, stderr } = await new Deno.Command(PROGRAM[0]!, {
    args: [...PROGRAM.slice(1), ...args],
    env: { MOSAIC_STATE_DIR: stateDir },
  }).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

Deno.test("--auth token: runs work by their session tokens; verbs find the token; nothing shows it", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const { admin, read } = readTokens(daemon.layout.tokensFile)!;
  const client = new GrpcClient(daemon.address, { token: admin, deadlineMs: 60_000 });
  try {
    const { runId } = await client.unary(TrainerService.method.submitRun, {
      configJson: configOf({ command: countingWorker({ steps: 40, everySeconds: 0.05 }) }),
    });
    const secret = await until(() => {
      const start = `${daemon.stateDir}/trainer/custom_scripts/${runId}/.mosaic/proxy-1.json`;
      try {
        assert.equal(Deno.statSync(start).mode! & 0o777, 0o600);
        return JSON.parse(Deno.readTextFileSync(start)).sessionToken as string;
      } catch (error) {
        if (error instanceof Deno.errors.NotFound) return undefined;
        throw error;
      }
    }, { what: "the proxy's start file" });
    const secrets = [admin, read, secret];
    await until(() => processesOf(daemon.stateDir).length >= 2, { what: "daemon and proxy" });
    for (const { command } of processesOf(daemon.stateDir)) {
      assert.ok(
        !secrets.some((text) => command.includes(text)),
        `a token is on the command line: ${command}`,
      );
    }
    const run = await ended(daemon.client, runId);
    assert.deepEqual([run.state, run.telemetry?.steps], ["TERMINATED", 40n], run.reason);
    assert.ok(!secrets.some((text) => run.configJson.includes(text)));
    assert.ok(!secrets.some((text) => daemon.output().includes(text)));

    await assert.rejects(
      new GrpcClient(daemon.address).unary(TrainerService.method.listRuns, {}),
      hasCode("unauthenticated"),
    );
    assert.match((await mosaic(daemon.stateDir, "list", "-o", "json")).out, new RegExp(runId));
    assert.equal(
      (await mosaic(daemon.stateDir, "token", "show", "--role", "read")).out.trim(),
      read,
    );
    await mosaic(daemon.stateDir, "token", "rotate");
    await assert.rejects(
      client.unary(TrainerService.method.listRuns, {}),
      hasCode("unauthenticated"),
    );
    assert.equal((await mosaic(daemon.stateDir, "list")).code, 0);

    const page = (headers: Record<string, string>) =>
      fetch(`http://${daemon.http}/api/session`, { headers }).then(async (r) => {
        await r.body?.cancel();
        return r.status;
      });
    assert.equal(await page({}), 401);
    assert.equal(
      await page({ authorization: `Bearer ${readTokens(daemon.layout.tokensFile)!.read}` }),
      200,
    );
  } finally {
    client.close();
  }
});

Deno.test("the state directory: what a daemon makes is for its user only", async () => {
  await using daemon = await TestDaemon.start();
  const client = new GrpcClient(daemon.address, { deadlineMs: 60_000 });
  try {
    const { runId } = await client.unary(TrainerService.method.submitRun, {
      configJson: configOf({ command: countingWorker({ steps: 1 }) }),
    });
    await ended(daemon.client, runId);
  } finally {
    client.close();
  }
  const open: string[] = [];
  const look = (directory: string) => {
    for (const { name, isDirectory } of Deno.readDirSync(directory)) {
      // It holds nothing but the program's own text, which workers of other users import.
      if (name === "python-helper") continue;
      const path = `${directory}/${name}`;
      if ((Deno.lstatSync(path).mode! & 0o077) !== 0) open.push(path);
      if (isDirectory) look(path);
    }
  };
  for (const part of ["trainer", "telemetry", "logs"]) {
    if ((Deno.statSync(`${daemon.stateDir}/${part}`).mode! & 0o077) !== 0) open.push(part);
    look(`${daemon.stateDir}/${part}`);
  }
  assert.deepEqual(open, []);
});

Deno.test("a daemon that other machines could reach: refused unprotected, and with TLS it works for both sides", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-tls-" });
  try {
    const open = await mosaic(
      directory,
      "daemon",
      "--listen",
      "0.0.0.0:0",
      "--http",
      "none",
      "--gpus",
      "0",
    );
    assert.equal(open.code, 2);
    assert.match(open.err, /0\.0\.0\.0:0 can be reached from other machines and lacks TLS/);

    const { ca, server } = certificates(directory);
    await using daemon = await TestDaemon.start({
      args: [
        "--listen",
        "0.0.0.0:0",
        "--http",
        "off",
        "--auth",
        "token",
        "--tls-cert",
        server.cert,
        "--tls-key",
        server.key,
      ],
    });
    const { admin } = readTokens(daemon.layout.tokensFile)!;
    const far = new GrpcClient(daemon.address, {
      token: admin,
      tls: { ca },
      serverName: "localhost",
      deadlineMs: 60_000,
    });
    const { target } = resolveDialOptions({ stateDir: daemon.stateDir, env: () => undefined });
    const near = new MosaicClient(target, { deadlineMs: 60_000 });
    try {
      const { runId } = await far.unary(TrainerService.method.submitRun, {
        configJson: configOf({ command: countingWorker({ steps: 5 }) }),
      });
      assert.equal((await ended(near, runId)).telemetry?.steps, 5n);
      const seqs: bigint[] = [];
      for await (const step of far.stream(TrainerService.method.streamRunSteps, { runId })) {
        if (seqs.push(step.seqId) === 5) break;
      }
      assert.deepEqual(seqs, [1n, 2n, 3n, 4n, 5n]);
    } finally {
      far.close();
      near.close();
    }
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("TLS: peers that only connect do not keep others out, even with a low limit on connections", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-tls-" });
  const silent: Deno.Conn[] = [];
  try {
    const { ca, server } = certificates(directory);
    await using daemon = await TestDaemon.start({
      args: [
        "--listen",
        "none",
        "--max-connections",
        "8",
        "--tls-cert",
        server.cert,
        "--tls-key",
        server.key,
      ],
    });
    const port = Number(daemon.http.split(":")[1]);
    // They are accepted in this order, before the client.
    for (let i = 0; i < 12; i++) silent.push(await Deno.connect({ hostname: "127.0.0.1", port }));
    const client = new MosaicClient(`https://localhost:${port}`, { tls: { ca } });
    try {
      assert.ok(await client.unary(Mosaic.method.getHost, {}));
    } finally {
      client.close();
    }
  } finally {
    for (const connection of silent) connection.close();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("TLS: waiting connections never use all places, with any limits", () => {
  for (const maxConnections of [4, 8, 100, 2048]) {
    for (const descriptors of [undefined, 64, 256, 1024, 4096, 20_000, 1 << 20]) {
      const { open, most } = tlsBounds(maxConnections, descriptors);
      assert.ok(most >= 1 && 3 * most < open, `${most} of ${open}`);
    }
  }
});
