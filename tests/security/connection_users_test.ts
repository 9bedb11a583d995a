/**
 * Whose a TCP connection is: what the kernel answers about one connection, and which requests ask
 * it at all.
 */
import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";
import { front } from "../../src/daemon/front.ts";
import { oncePerConnection } from "../../src/daemon/servers.ts";
import type { MlflowApi } from "../../src/mlflow/tracking_api.ts";
import { SocketDiagnosis } from "../../src/os/host/sock_diag.ts";
import { PeerOwners, type TcpEnd } from "../../src/os/host/socket_owners.ts";
import type { HttpApi } from "../../src/rpc/connect/http_api.ts";
import { listenHttp } from "../../src/wire/http/http_listener.ts";
import { until } from "../harness/wait.ts";

const endOf = ({ hostname: address, port }: Deno.NetAddr): TcpEnd => ({ address, port });
const noTables = () => Promise.reject(new Error("the tables are read"));

/** Whether this machine answers queries of one connection. */
async function canAsk(): Promise<boolean> {
  using kernel = new SocketDiagnosis();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using peer = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  using _accepted = await listener.accept();
  return await kernel.userOf("7f000001", peer.localAddr.port, "7f000001", listener.addr.port) ===
    Deno.uid();
}

const ASKS = await canAsk();
if (!ASKS) {
  console.log(
    "MISSING HERE: perl, or the kernel's sock_diag: queries of one connection are not tried",
  );
}

for (const hostname of ["127.0.0.1", "::1"]) {
  Deno.test({
    name: `sock_diag: the user of a connection by ${hostname}, until its end is closed`,
    ignore: !ASKS,
    async fn() {
      // The helper keeps no process alive, and nothing else here does.
      const alive = setInterval(() => {}, 1000);
      using _alive = { [Symbol.dispose]: () => clearInterval(alive) };
      using kernel = new SocketDiagnosis();
      const owners = new PeerOwners((...connection) => kernel.userOf(...connection), noTables);
      using listener = Deno.listen({ hostname, port: 0 });
      const dial = async () => [
        await Deno.connect({ hostname, port: listener.addr.port }),
        await listener.accept(),
      ];
      const [peer, accepted] = await dial() as [Deno.TcpConn, Deno.TcpConn];
      using _accepted = accepted;
      const [from, to] = [endOf(accepted.remoteAddr), endOf(accepted.localAddr)];
      assert.equal(await owners.of(from, to), Deno.uid());
      // Many at once get each its own answer; a port of nobody's, and the listener's own address,
      // get none.
      const asked = [from, { ...from, port: 1 }, from, to, { ...from, address: "10.0.0.7" }];
      const known = await Promise.all(asked.map((end) => owners.of(end, to)));
      assert.deepEqual(known, [Deno.uid(), undefined, Deno.uid(), undefined, undefined]);
      // The kernel shows a closed end as one of root's until the other end is closed, too.
      peer.close();
      assert.equal(await owners.of(from, to), undefined);
    },
  });
}

Deno.test("sock_diag: where it cannot be asked, the tables are read; where it has found somebody, they never are", async () => {
  const [peer, local] = [{ address: "127.0.0.1", port: 0xABCD }, {
    address: "127.0.0.1",
    port: 8055,
  }];
  const row =
    "  1: 0100007F:ABCD 0100007F:1F77 01 00000000:00000000 00:00000000 00000000  1000 0 7 1 0\n";
  const answers = [undefined, "none", 65534, 1000] as const;
  const users = await Promise.all(
    answers.map((answer) =>
      new PeerOwners(
        () => Promise.resolve(answer),
        answer === undefined ? () => Promise.resolve(row) : noTables,
      )
        .of(peer, local)
    ),
  );
  assert.deepEqual(users, [1000, undefined, undefined, 1000]);
});

Deno.test("a connection's user is asked for once, and not for a probe or a request with a credential", async () => {
  let asked = 0;
  const seen: (number | undefined)[] = [];
  const answer = (uid: number | undefined) => {
    seen.push(uid);
    return new Response("answer");
  };
  const handler = front({
    api: { answer: (_path, _request, peer) => answer(peer.uid) } as Partial<HttpApi> as HttpApi,
    mlflow: {} as MlflowApi,
    page: { token: "", stop: () => {}, fetch: (_request, from) => answer(from?.uid) },
    bound: "127.0.0.1",
    tokens: true,
    // Unknown at first: then it is asked for again.
    userOf: oncePerConnection(() =>
      Promise.resolve({ owner: false, uid: asked++ === 0 ? undefined : 1000 })
    ),
  });
  const listener = listenHttp({
    address: { hostname: "127.0.0.1", port: 0 },
    handler,
    log: createLogger({ level: "fatal", format: "json", sinks: [] }),
  });
  const port = Number(listener.address.split(":")[1]);
  const call = async (connection: Deno.Conn, path: string, header = "") => {
    const before = seen.length;
    const text = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n${header}\r\n`;
    await connection.write(new TextEncoder().encode(text));
    await connection.read(new Uint8Array(4096));
    await until(() => seen.length > before, { what: "the answer" });
    return [seen.at(-1), asked];
  };
  try {
    using one = await Deno.connect({ hostname: "127.0.0.1", port });
    assert.deepEqual(await call(one, "/healthz"), [undefined, 0]);
    assert.deepEqual(await call(one, "/mosaic.v1.Mosaic/GetHost", "authorization: Bearer x\r\n"), [
      undefined,
      0,
    ]);
    assert.deepEqual(await call(one, "/api/runs"), [undefined, 1]);
    assert.deepEqual(await call(one, "/api/runs"), [1000, 2]);
    assert.deepEqual(await call(one, "/mosaic.v1.Mosaic/GetHost"), [1000, 2]);
    using other = await Deno.connect({ hostname: "127.0.0.1", port });
    assert.deepEqual(await call(other, "/api/runs"), [1000, 3]);
  } finally {
    await listener.stop();
  }
});
