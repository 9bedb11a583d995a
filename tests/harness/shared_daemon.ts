/** Cases that share one daemon, because a daemon's start takes half a second of a processor. */
import { TestDaemon, type TestDaemonOptions } from "./daemon.ts";

export type DaemonCase = readonly [name: string, work: (daemon: TestDaemon) => Promise<void>];

/**
 * One test whose steps are the cases, in order. A case may kill the daemon, and starts it again
 * then.
 */
export function testWithDaemon(
  name: string,
  options: TestDaemonOptions,
  cases: readonly DaemonCase[],
): void {
  Deno.test(name, async (t) => {
    await using daemon = await TestDaemon.start(options);
    for (const [step, work] of cases) {
      const passed = await t.step(step, () => work(daemon));
      // Whatever a failed case has left, the next ones begin with a daemon that lives.
      if (!passed) await daemon.restart();
    }
  });
}
