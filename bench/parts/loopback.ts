/**
 * New connections over loopback TCP, each with one request, beside many sockets of other programs.
 */
import { DaemonUnderTest } from "../daemon_under_test.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const CALLS = new URL("../new_connections.ts", import.meta.url).pathname;
const HELD = new URL("../held_sockets.ts", import.meta.url).pathname;
/** For one process: below the usual limit on descriptors. */
const HELD_BY_ONE = 7500;

/**
 * `/healthz` needs nobody's name; `/api/host` is answered because the caller is the daemon's user.
 */
const PATHS = ["/healthz", "/api/host"];

interface Measured {
  perSecond: number;
  p50: number;
  p99: number;
}

export async function loopback(options: BenchOptions): Promise<Figure[]> {
  const sockets = options.pick(30_000, 30_000, 100);
  const calls = options.pick(20_000, 4000, 50);
  await using bench = await DaemonUnderTest.start(["--listen", "none"]);
  const { http } = bench.daemon;
  const figures: Figure[] = [];
  const measure = async (beside: string) => {
    for (const path of PATHS) {
      const measured = (count: number, atOnce: number) => callsOf(http, path, count, atOnce);
      await measured(options.pick(2000, 500, 20), 16);
      const [rate, one] = [await measured(calls, 16), await measured(calls / 10, 1)];
      const name = `new connections for ${path}${beside}`;
      figures.push({
        part: "loopback",
        name,
        value: rate.perSecond,
        unit: "/s",
        detail: { ...rate },
      });
      figures.push({
        part: "loopback",
        name: `${name}: first byte`,
        value: one.p50,
        unit: "ms",
        detail: { ...one },
      });
    }
  };
  await measure("");
  const holders = await Promise.all(
    Array.from(
      { length: Math.ceil(sockets / HELD_BY_ONE) },
      () => hold(Math.min(sockets, HELD_BY_ONE)),
    ),
  );
  await measure(` beside ${sockets} sockets`);
  await Promise.all(holders.map((end) => end()));
  return figures;
}

const scriptOf = (script: string, ...args: (string | number)[]) =>
  new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, ...args.map(String)],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();

async function callsOf(
  address: string,
  path: string,
  count: number,
  atOnce: number,
): Promise<Measured> {
  const caller = scriptOf(CALLS, address, path, count, atOnce);
  await caller.stdin.close();
  const { success, stdout } = await caller.output();
  if (!success) throw new Error("the caller failed");
  return JSON.parse(new TextDecoder().decode(stdout)) as Measured;
}

/** @returns ends it */
async function hold(sockets: number): Promise<() => Promise<unknown>> {
  const holder = scriptOf(HELD, sockets);
  const { done } = await holder.stdout.getReader().read();
  if (done) throw new Error(`${sockets} sockets could not be opened`);
  return async () => {
    await holder.stdin.close();
    return await holder.status;
  };
}
