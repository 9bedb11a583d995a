/**
 * Whoever has no credential costs the daemon nothing: each attack on a listener, and what holds it.
 */
import assert from "node:assert/strict";
import { gatekeeper } from "../../src/rpc/auth/gatekeeper.ts";
import { TokenFile } from "../../src/wire/tokens.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { methodPath } from "../../src/wire/method_path.ts";
import { executing, RecordedEngine, withApi } from "../rpc/fixture.ts";

const { method } = TrainerService;

Deno.test("a token that is none: refused by the headers, before any of 64 MiB is read, in every form", async () => {
  await using keys = new RecordedEngine();
  const tokens = new TokenFile(`${keys.directory}/tokens.json`);
  for (const called of [method.registerWorker, method.publishRunSteps]) {
    const stream = called.methodKind !== "unary";
    const types = stream
      ? ["application/connect+proto", "application/connect+json", "application/grpc-web+proto"]
      : ["application/proto", "application/json", "application/grpc-web+proto"];
    for (const type of types) {
      let core: RecordedEngine;
      await withApi("Connect, TCP", async (scene) => {
        core = scene.core;
        executing(core);
        const { hostname, port } = new URL(scene.url);
        using connection = await Deno.connect({ hostname, port: Number(port) });
        // The head of a request of 60 MB, of which nothing comes.
        await connection.write(new TextEncoder().encode(
          `POST ${methodPath(called)} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: ${type}\r\n` +
            "content-length: 60000000\r\nauthorization: Bearer rubbish\r\n\r\n",
        ));
        const buffer = new Uint8Array(4096);
        let answer = "";
        while (!/unauthenticated|grpc-status: ?16/.test(answer)) {
          const length = await connection.read(buffer);
          assert.ok(length !== null, `${type}: ${answer}`);
          answer += new TextDecoder().decode(buffer.subarray(0, length));
        }
      }, {
        gatekeeper: gatekeeper(
          {
            get: (id) => core.registry.get(id),
            sessionTokens: () => [],
            pastAttempt: () => undefined,
          },
          tokens,
          { ofRun: () => "", ofSweep: () => "" },
        ),
      });
    }
  }
});
