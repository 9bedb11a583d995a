/** Certificates that are renewed under a running daemon. */
import assert from "node:assert/strict";
import tls from "node:tls";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { configOf } from "../harness/configs.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { submit } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { certificates } from "../rpc/auth/certificates.ts";

let connections = 0;

/**
 * Of the certificate that a new connection gets. Each asks for another name: this runtime keeps
 * sessions by name, and a resumed one shows the certificate with which it began.
 */
function serialAt(address: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const port = Number(address.split(":")[1]);
    const servername = `peer${++connections}.localhost`;
    const socket = tls.connect(
      { host: "127.0.0.1", port, servername, rejectUnauthorized: false },
      () => {
        resolve(socket.getPeerCertificate().serialNumber);
        socket.destroy();
      },
    );
    socket.once("error", reject);
  });
}

Deno.test("SIGHUP: new connections of both listeners get the new certificate, old ones live on; a broken one changes nothing", async () => {
  const [first, second] = [Deno.makeTempDirSync(), Deno.makeTempDirSync()];
  try {
    const [old, fresh] = [certificates(first), certificates(second)];
    // A port by number: one that the system picks cannot be listened on again without the
    // permission for all.
    const http = ["--http", `127.0.0.1:${20_000 + Math.floor(Math.random() * 12_000)}`];
    await using planned = await PlannedDaemon.start([
      ...http,
      "--tls-cert",
      old.server.cert,
      "--tls-key",
      old.server.key,
    ]);
    const { daemon } = planned;
    const hangUp = () => Deno.kill(daemon.pid, "SIGHUP");
    const serials = async () => [await serialAt(daemon.address), await serialAt(daemon.http)];
    const before = await serials();
    assert.equal(new Set(before).size, 1);

    const port = daemon.http.split(":")[1];
    const client = new MosaicClient(`https://localhost:${port}`, { tls: { ca: old.ca } });
    const events = client.stream(Mosaic.method.streamEvents, { follow: true })
      [Symbol.asyncIterator]();
    await submit(daemon, configOf({ command: ["true"] }));
    assert.equal((await events.next()).done, false);

    Deno.copyFileSync(fresh.server.cert, old.server.cert);
    // The key is still the old one.
    hangUp();
    await until(() => /certificates cannot be used/.test(daemon.output()), {
      what: "the daemon to refuse it",
    });
    assert.deepEqual(await serials(), before);

    Deno.copyFileSync(fresh.server.key, old.server.key);
    hangUp();
    await until(() => /certificates were read again/.test(daemon.output()), {
      what: "the daemon to take it",
    });
    const after = new Set<string>();
    for (let i = 0; i < 20; i++) for (const serial of await serials()) after.add(serial);
    assert.equal(after.size, 1);
    assert.equal(after.has(before[0]!), false);

    const runId = await submit(daemon, configOf({ command: ["true"] }));
    for (let seen = ""; seen !== runId;) {
      const { value, done } = await events.next();
      assert.equal(done, false);
      seen = value!.runId;
    }
    client.close();
  } finally {
    for (const directory of [first, second]) Deno.removeSync(directory, { recursive: true });
  }
});
