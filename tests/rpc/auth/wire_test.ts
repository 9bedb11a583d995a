import assert from "node:assert/strict";
import { connect } from "node:http2";
import { gatekeeper } from "../../../src/rpc/auth/gatekeeper.ts";
import {
  ensureTokens,
  rotateTokens,
  STANDARD_TOKENS,
  TokenFile,
} from "../../../src/wire/tokens.ts";
import type { TlsFiles } from "../../../src/wire/address/tls.ts";
import { GrpcClient } from "../../harness/grpc_client.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Health } from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { hasCode } from "../../registry/fixture.ts";
import { executing, RecordedEngine, type ServerOptions, startRpc } from "../fixture.ts";
import { certificates } from "./certificates.ts";

const { method } = TrainerService;

/** A server that asks for tokens, in a directory of its own. */
async function withGuarded(
  work: (
    f: { core: RecordedEngine; address: string; local: string; directory: string; path: string },
  ) => Promise<void>,
  optionsOf: (directory: string) => Partial<ServerOptions> = () => ({}),
): Promise<void> {
  await using core = new RecordedEngine();
  const { directory } = core;
  const path = `${directory}/tokens.json`;
  const server = await startRpc(core, {
    listen: "127.0.0.1:0",
    log: core.log,
    gatekeeper: gatekeeper(core.registry, new TokenFile(path), {
      ofRun: (ref) => core.registry.resolve(ref).owner,
      ofSweep: (ref) => core.ownerOfSweep(ref),
    }),
    ...optionsOf(directory),
  });
  try {
    await work({ core, address: server.address, local: server.localAddress, directory, path });
  } finally {
    await server.stop(1000);
  }
}

async function using<T>(client: GrpcClient, work: (client: GrpcClient) => Promise<T>): Promise<T> {
  try {
    return await work(client);
  } finally {
    client.close();
  }
}

Deno.test("token: calls of every kind are refused without it, and probes are not", async () => {
  await withGuarded(async ({ core, address, path }) => {
    const runId = executing(core);
    for (const token of [undefined, "guess"]) {
      await using(new GrpcClient(address, { token }), async (client) => {
        await assert.rejects(client.unary(method.listRuns, {}), hasCode("unauthenticated"));
        await assert.rejects(
          client.stream(method.streamRunSteps, { runId }).next(),
          hasCode("unauthenticated"),
        );
        const upload = client.upload(method.publishRunSteps);
        upload.answer.catch(() => {});
        await upload.send({ runId });
        upload.end();
        await assert.rejects(upload.answer, hasCode("unauthenticated"));
        const control = client.duplex(method.controlStream);
        control.send({ runId, event: { case: "pause", value: true } });
        await assert.rejects(control[Symbol.asyncIterator]().next(), hasCode("unauthenticated"));
        await client.unary(Health.method.check, {});
      });
    }
    assert.equal(core.telemetry.head(runId, "steps"), 0);
    assert.deepEqual(core.calls, []);
    const { admin, read } = ensureTokens(path);
    assert.ok(
      !core.logLines.some((line) =>
        line.includes(admin) || line.includes(read) || line.includes("guess")
      ),
    );
  });
});

Deno.test("token: a stranger is refused by the headers, before the message is taken", async () => {
  await withGuarded(async ({ address }) => {
    const session = connect(`http://${address}`);
    try {
      const call = session.request({
        ":method": "POST",
        ":path": "/gymgui.trainer.TrainerService/SubmitRun",
        "content-type": "application/grpc",
        te: "trailers",
      });
      const status = await new Promise((resolve, reject) => {
        call.once(
          "response",
          (headers) => headers["grpc-status"] === undefined || resolve(headers["grpc-status"]),
        );
        call.once("trailers", (headers) => resolve(headers["grpc-status"]));
        call.once("error", reject);
      });
      assert.equal(Number(status), 16);
      call.close();
    } finally {
      await new Promise<void>((resolve) => session.close(resolve));
    }
  });
});

Deno.test("token: long streams keep their bound behind the check", async () => {
  await withGuarded(async ({ core, address, path }) => {
    const runId = executing(core);
    core.observationJson = JSON.stringify("x".repeat(10_000));
    core.addSteps(runId, 1, 20_000);
    await using(new GrpcClient(address, { token: ensureTokens(path).read }), async (client) => {
      const stalled = client.stream(method.streamRunSteps, { runId });
      assert.equal((await stalled.next()).value!.seqId, 1n);
      for (let i = 0; i < 200; i++) await client.unary(method.getHealth, {});
      assert.ok(core.rowsRead < 5000, `${core.rowsRead} rows were read for nobody`);
      await stalled.return();
    });
  });
});

Deno.test("token: the reader looks, the admin acts, a rotation shuts both out", async () => {
  await withGuarded(async ({ core, address, path }) => {
    const runId = executing(core);
    const { admin, read } = ensureTokens(path);
    await using(new GrpcClient(address, { token: read }), async (client) => {
      assert.equal((await client.unary(method.listRuns, {})).runs.length, 1);
      await assert.rejects(client.unary(method.cancelRun, { runId }), hasCode("permission_denied"));
      await using(new GrpcClient(address, { token: admin }), async (boss) => {
        await boss.unary(method.cancelRun, { runId });
        rotateTokens(path, STANDARD_TOKENS);
        await assert.rejects(boss.unary(method.listRuns, {}), hasCode("unauthenticated"));
      });
      await assert.rejects(client.unary(method.listRuns, {}), hasCode("unauthenticated"));
    });
  });
});

Deno.test("session token: publishes for its run, for no other, and does nothing else", async () => {
  await withGuarded(async ({ core, address }) => {
    const [own, other] = [executing(core, 1), executing(core, 2)];
    core.registry.update(own, { sessionToken: "own-secret" });
    core.registry.update(other, { sessionToken: "other-secret" });
    await using(new GrpcClient(address, { token: "own-secret" }), async (client) => {
      await client.unary(method.heartbeat, { runId: own });
      const publish = async (...runs: string[]) => {
        const upload = client.upload(method.publishRunSteps);
        upload.answer.catch(() => {});
        for (const runId of runs) await upload.send({ runId });
        upload.end();
        return await upload.answer;
      };
      assert.equal((await publish(own, own)).accepted, 2n);
      await assert.rejects(publish(other), hasCode("permission_denied"));
      await assert.rejects(
        client.unary(method.heartbeat, { runId: other }),
        hasCode("permission_denied"),
      );
      await assert.rejects(
        client.unary(method.cancelRun, { runId: own }),
        hasCode("unauthenticated"),
      );
      await assert.rejects(client.unary(method.listRuns, {}), hasCode("unauthenticated"));
      assert.equal(core.telemetry.head(other, "steps"), 0);
    });
  });
});

Deno.test("TLS: clients that know the authority get in, plain ones do not; this machine has its own way in", async () => {
  await withGuarded(async ({ address, local, directory, path }) => {
    const { admin } = ensureTokens(path);
    const ca = `${directory}/ca.pem`;
    await using(
      new GrpcClient(address, { token: admin, tls: { ca }, serverName: "localhost" }),
      async (client) => {
        assert.equal((await client.unary(method.getHealth, {})).healthy, true);
      },
    );
    for (const options of [{ token: admin }, { token: admin, tls: {}, serverName: "localhost" }]) {
      await using(new GrpcClient(address, { ...options, deadlineMs: 20_000 }), async (client) => {
        await assert.rejects(client.unary(method.getHealth, {}), hasCode("unavailable"));
      });
    }
    assert.match(local, /^127\.0\.0\.1:/);
    await using(
      new GrpcClient(local, { token: admin }),
      (client) => client.unary(method.getHealth, {}),
    );
    await using(new GrpcClient(local), async (client) => {
      await assert.rejects(client.unary(method.getHealth, {}), hasCode("unauthenticated"));
    });
  }, (directory) => ({ listen: "0.0.0.0:0", tls: certificates(directory).server }));
});

Deno.test("TLS: with an authority for clients, one without a certificate of it is not let in", async () => {
  let files!: ReturnType<typeof certificates>;
  await withGuarded(async ({ address }) => {
    const { ca, client: own } = files;
    const target = address.replace("0.0.0.0", "127.0.0.1");
    await using(
      new GrpcClient(target, { tls: { ca, ...own }, serverName: "localhost" }),
      async (client) => {
        assert.equal((await client.unary(method.getHealth, {})).healthy, true);
      },
    );
    await using(
      new GrpcClient(target, { tls: { ca }, serverName: "localhost", deadlineMs: 20_000 }),
      async (client) => {
        await assert.rejects(
          client.unary(method.getHealth, {}),
          hasCode("unavailable", /CertificateRequired|EPIPE|ECONNRESET|socket hang up/),
        );
      },
    );
    const wrong: [Partial<TlsFiles>, string, RegExp][] = [
      [{ ca: own.cert }, "localhost", /certificate/],
      [{ ca, ...own }, "somebody-else", /altnames: Host: somebody-else/],
    ];
    for (const [tls, serverName, said] of wrong) {
      await using(
        new GrpcClient(target, { tls, serverName, deadlineMs: 20_000 }),
        async (client) => {
          await assert.rejects(client.unary(method.getHealth, {}), hasCode("unavailable", said));
        },
      );
    }
    const nobody = new GrpcClient("127.0.0.1:1", {
      tls: { ca },
      serverName: "localhost",
      deadlineMs: 20_000,
    });
    await using(nobody, async (client) => {
      await assert.rejects(
        client.unary(method.getHealth, {}),
        hasCode("unavailable", /no daemon answers/),
      );
    });
  }, (directory) => {
    files = certificates(directory);
    return { listen: "0.0.0.0:0", tls: { ...files.server, ca: files.ca }, gatekeeper: undefined };
  });
});

Deno.test("listening on all addresses without TLS and a credential is refused", async () => {
  const refused = hasCode("failed_precondition", /other machines/);
  await assert.rejects(
    withGuarded(() => Promise.resolve(), () => ({ listen: "0.0.0.0:0", gatekeeper: undefined })),
    refused,
  );
  await assert.rejects(withGuarded(() => Promise.resolve(), () => ({ listen: "[::]:0" })), refused);
});

Deno.test("TLS: files that are none are named", async () => {
  await assert.rejects(
    withGuarded(
      () => Promise.resolve(),
      () => ({ tls: { cert: "/no/cert.pem", key: "/no/key.pem" } }),
    ),
    hasCode("failed_precondition", /--tls-cert \/no\/cert\.pem/),
  );
});
