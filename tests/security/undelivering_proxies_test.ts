/**
 * A run whose proxies die whenever they have connected ends: it keeps neither its GPU nor its
 * worker for ever.
 */
import assert from "node:assert/strict";
import { processRef } from "../../src/os/processes/identity.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { processesOf } from "../harness/processes.ts";
import { getRun, submit } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

Deno.test("proxies that die after each connection, with nothing delivered: the run ends as proxy_lost", async () => {
  await using daemon = await TestDaemon.start({ args: ["--grace", "0.5"] });
  const run = await submit(daemon, configOf({ command: ["/bin/sh", "-c", "exec sleep 600"] }));
  const killed = new Set<number>();
  const row = await until(async () => {
    const row = await getRun(daemon, run);
    if (row.reason !== "") return row;
    // The registry has a proxy's pid with a worker's once the proxy has connected.
    const pid = Number(row.proxyPid);
    if (row.state === "READY" && pid > 0 && !killed.has(pid)) {
      const proxy = processRef(pid);
      if (proxy !== undefined && await connected(daemon, pid) && signalProcess(proxy, "SIGKILL")) {
        killed.add(pid);
      }
    }
    return undefined;
  }, { what: "the run's end", timeoutMs: 120_000 });
  assert.equal(row.reason, "proxy_lost");
  assert.ok(killed.size >= 5 && killed.size <= 7, `${killed.size} proxies`);
  await until(
    () =>
      !processesOf(daemon.stateDir).some(({ pid, command }) =>
        pid !== daemon.pid && command.includes(run)
      ),
    {
      what: "the processes to go",
    },
  );
});

async function connected(daemon: TestDaemon, pid: number): Promise<boolean> {
  const log = await Deno.readTextFile(daemon.layout.daemonLog).catch(() => "");
  return log.includes('"proxy connected"') && log.includes(`"proxy":${pid}`);
}
