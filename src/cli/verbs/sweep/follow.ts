/** Waits until a sweep has ended, across restarts of the daemon. */
import { sleep } from "../../../base/time/sleep.ts";
import type { SweepJson } from "../../../sweeps/results/sweep_json.ts";
import type { Context } from "../../link/context.ts";
import type { Link } from "../../link/daemon_link.ts";
import { interruptible } from "../../link/interrupt.ts";
import { statesLine, sweepText } from "../../text/sweep_text.ts";

const POLL_MS = 1000;
/** Trials that the end of it lists. */
const LISTED = 10_000;
const ENDED = ["finished", "cancelled"];
const FAILED = ["faulted", "refused"];

/** @returns the exit code */
export async function followSweep(link: Link, context: Context, name: string): Promise<number> {
  return await interruptible(
    context,
    `sweep ${name} continues; "mosaic sweep show ${name}" shows it, "mosaic sweep cancel ${name}" ends it`,
    async (signal) => {
      let said = "";
      while (!signal.aborted) {
        const sweep = await link.unary(link.methods.getSweep, { sweep: name, trials: 0 }, signal);
        const json = JSON.parse(sweep.json) as SweepJson;
        const line = statesLine(json);
        if (line !== said) context.err.write(`mosaic: ${line}\n`);
        said = line;
        if (ENDED.includes(json.state)) {
          const whole = await link.unary(link.methods.getSweep, { sweep: name, trials: LISTED });
          context.out.write(sweepText(JSON.parse(whole.json), context.terminal));
          return FAILED.some((state) => (json.states[state] ?? 0) > 0)
            ? 1
            : json.state === "cancelled"
            ? 5
            : 0;
        }
        await sleep(POLL_MS);
      }
      return 130;
    },
  );
}
