/** Memory cost of connections that make one call each, as from `watch mosaic list` and probes. */
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { processFigures, timed } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const CALLS = new URL("../short_connections.ts", import.meta.url).pathname;

export async function connections(options: BenchOptions): Promise<Figure[]> {
  const count = options.pick(100_000, 5000, 20);
  const figures: Figure[] = [];
  await using bench = await DaemonUnderTest.start(["--listen", "none"]);
  const { daemon } = bench;
  for (
    const [way, target] of [["Unix socket", `unix:${daemon.layout.trainer}/daemon.sock`], [
      "TCP",
      daemon.http,
    ]]
  ) {
    // The first connections load code that stays in memory.
    await callsOf(target!, options.pick(2000, 2000, 20));
    const before = processFigures(daemon.pid)!.rssBytes;
    const ms = await timed(() => callsOf(target!, count));
    figures.push({
      part: "connections",
      name: `memory after ${count} connections, ${way}`,
      value: (processFigures(daemon.pid)!.rssBytes - before) / 2 ** 20,
      unit: "MiB",
      detail: { before: before / 2 ** 20, connectionsPerSecond: count / ms * 1000 },
    });
  }
  return figures;
}

async function callsOf(target: string, count: number): Promise<void> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CALLS, target, String(count)],
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("the caller failed");
}
