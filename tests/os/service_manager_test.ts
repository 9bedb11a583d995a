import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";
import { serviceManager } from "../../src/os/files/service_manager.ts";

Deno.test("service manager: ready, signs of life while alive, and stopping reach the socket", async () => {
  const path = `${Deno.makeTempDirSync()}/notify`;
  const socket = Deno.listenDatagram({ transport: "unixpacket", path });
  const receive = async () => new TextDecoder().decode((await socket.receive())[0]);
  const environment: Record<string, string> = { NOTIFY_SOCKET: path, WATCHDOG_USEC: "20000" };
  const manager = serviceManager((name) => environment[name], createLogger(), `${path}.own`);
  try {
    await manager.ready("listening");
    assert.deepEqual((await receive()).split("\n"), [
      "READY=1",
      `MAINPID=${Deno.pid}`,
      "STATUS=listening",
    ]);
    let alive = true;
    manager.keepAlive(() => alive);
    assert.equal(await receive(), "WATCHDOG=1");
    assert.equal(await receive(), "WATCHDOG=1");
    alive = false;
    await manager.stopping();
    let last = await receive();
    while (last === "WATCHDOG=1") last = await receive();
    assert.equal(last, "STOPPING=1");
  } finally {
    manager.close();
    socket.close();
  }
});

Deno.test("service manager: without one, or with one that is gone, the daemon goes on", async () => {
  const none = serviceManager(() => undefined, createLogger(), "/nowhere");
  await none.ready("listening");
  none.close();
  const lines: string[] = [];
  const gone = serviceManager(
    (name) => name === "NOTIFY_SOCKET" ? `${Deno.makeTempDirSync()}/nobody` : undefined,
    createLogger({ sinks: [(line) => lines.push(line)] }),
    `${Deno.makeTempDirSync()}/own`,
  );
  await gone.ready("listening");
  gone.close();
  assert.match(lines.join(""), /cannot send a message/);
});
