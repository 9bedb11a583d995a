import assert from "node:assert/strict";
import { GrpcClient } from "../harness/grpc_client.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import { withServer } from "./fixture.ts";

/** HTTP/2: the server's settings and its GOAWAY, as a server sends them that stops just then. */
const SETTINGS = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/** Takes TCP connections, and gives each to `serve` with its number, from 0. */
function listening(serve: (connection: Deno.Conn, n: number) => Promise<void>) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let accepted = 0;
  let open = 0;
  const served = (async () => {
    const all: Promise<void>[] = [];
    for await (const connection of listener) {
      open++;
      all.push(
        serve(connection, accepted++).catch(() => {}).finally(() => {
          open--;
          try {
            connection.close();
          } catch {
            // It is closed already.
          }
        }),
      );
    }
    await Promise.all(all);
  })();
  return {
    target: `127.0.0.1:${(listener.addr as Deno.NetAddr).port}`,
    get accepted() {
      return accepted;
    },
    get open() {
      return open;
    },
    async close() {
      listener.close();
      await served;
    },
  };
}

async function drained(connection: Deno.Conn): Promise<void> {
  for await (const _ of connection.readable) {
    // Nobody answers.
  }
}

Deno.test("client: a connection that ends as it begins is followed by another", async () => {
  await withServer(async ({ server }) => {
    const { hostname, port } = new URL(`http://${server.address}`);
    const peer = listening(async (connection, n) => {
      if (n === 0) {
        await connection.write(new Uint8Array([...SETTINGS, ...GOAWAY]));
        return await drained(connection);
      }
      const daemon = await Deno.connect({ hostname, port: Number(port) });
      await Promise.all([connection.readable.pipeTo(daemon.writable), daemon.readable.pipeTo(connection.writable)]);
    });
    const client = new GrpcClient(peer.target);
    try {
      const answers = () =>
        client.unary(Mosaic.method.getHost, {}).catch((error) => {
          if (!hasCode("unavailable")(error)) throw error;
        });
      await until(answers, { what: "the daemon to be reached" });
      assert.equal(peer.accepted, 2);
    } finally {
      client.close();
      await peer.close();
    }
  });
});

Deno.test("client: where every connection ends as it begins, a call and a stream fail as unavailable", async () => {
  const peer = listening(async (connection) => {
    await connection.write(new Uint8Array([...SETTINGS, ...GOAWAY]));
    await drained(connection);
  });
  const client = new GrpcClient(peer.target);
  try {
    await assert.rejects(client.unary(Mosaic.method.getHost, {}), hasCode("unavailable"));
    const stream = client.stream(Mosaic.method.streamEvents, {});
    await assert.rejects(stream.next(), hasCode("unavailable"));
  } finally {
    client.close();
    await peer.close();
  }
});

Deno.test("client: connections on which nobody answered are closed, however many calls run out of time", async () => {
  const peer = listening(async (connection) => {
    await connection.write(new Uint8Array(SETTINGS));
    await drained(connection);
  });
  const client = new GrpcClient(peer.target, { deadlineMs: 50 });
  try {
    for (let i = 0; i < 5; i++) {
      await assert.rejects(client.unary(Mosaic.method.getHost, {}), hasCode("deadline_exceeded"));
    }
    await until(() => peer.open === 0, { what: "all connections to be closed" });
  } finally {
    client.close();
    await peer.close();
  }
});
