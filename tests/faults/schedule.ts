/** What will be done to whom and when, from a seed. */
import type { Form } from "./lines.ts";
import { Random } from "./random.ts";

export type Fault =
  | { type: "kill-daemon"; downMs: number }
  | { type: "stop-daemon"; forMs: number }
  | { type: "restart-daemon"; downMs: number }
  | { type: "kill-proxy"; run: number }
  | { type: "stop-proxy"; run: number; forMs: number }
  | { type: "kill-worker"; run: number }
  | { type: "stop-worker"; run: number; forMs: number }
  | { type: "cut-connections" }
  | { type: "cancel"; run: number }
  /** The disk of telemetry.sqlite is full for a while. */
  | { type: "fill-disk"; forMs: number }
  /**
   * A page of telemetry.sqlite is overwritten, and `mosaic doctor --repair` run before the daemon
   * starts again.
   */
  | { type: "damage-page"; share: number }
  /** One bit of telemetry.sqlite changes; `mosaic doctor --repair` as above. */
  | { type: "flip-bit"; share: number; bit: number }
  /**
   * telemetry.sqlite loses every commit that no checkpoint has moved into it; `mosaic doctor
   * --repair` as above.
   */
  | { type: "cut-power"; downMs: number }
  /**
   * The worker empties its journal, as `> /dev/stdout` does: a worker of root can, another is
   * refused.
   */
  | { type: "empty-journal"; run: number; afterStartMs: number }
  /** Somebody renames a run's journal (log rotation), and its proxy is killed. */
  | { type: "rename-journal"; run: number; afterStartMs: number }
  /** Somebody removes daemon.lock, daemon.json and the daemon's socket, and a proxy is killed. */
  | { type: "remove-place"; run: number }
  /**
   * The daemon is killed, and somebody else listens on its ports for a while: nobody tells him a
   * token.
   */
  | { type: "squat"; forMs: number };

export interface RunPlan {
  lines: number;
  exitCode: number;
  pauseMs: number;
  form: Form;
  /** The worker ends half-way, and its child goes on printing until it is killed. */
  outlived?: boolean;
}

export interface Schedule {
  seed: number;
  runs: RunPlan[];
  faults: { afterMs: number; fault: Fault }[];
  /**
   * The last run is deleted when all have ended, and the daemon killed so long after it was asked
   * to; undefined: not.
   */
  deleteKilledAfterMs: number | undefined;
  /**
   * The first run's log is thinned. So long after its end the power is cut, and again when the log
   * is thin: the steps that it is rendered from must be in the database by then.
   */
  thinCutAfterMs: number | undefined;
}

const DAMAGE = new Set(["damage-page", "flip-bit", "cut-power"]);

export function scheduleOf(seed: number): Schedule {
  const random = new Random(seed);
  const runs = Array.from({ length: random.int(1, 3) }, (): RunPlan => ({
    lines: random.int(300, 6000),
    exitCode: random.chance(0.2) ? 3 : 0,
    pauseMs: random.int(0, 20),
    form: "mixed",
  }));
  const run = () => random.int(0, runs.length - 1);
  const faults: Schedule["faults"] = Array.from({ length: random.int(2, 6) }, () => {
    const roll = random.next();
    const fault: Fault = roll < 0.24
      ? { type: "kill-daemon", downMs: random.int(0, 800) }
      : roll < 0.32
      ? { type: "stop-daemon", forMs: random.int(50, 900) }
      : roll < 0.40
      ? { type: "restart-daemon", downMs: random.int(0, 400) }
      : roll < 0.62
      ? { type: "kill-proxy", run: run() }
      : roll < 0.70
      ? { type: "stop-proxy", run: run(), forMs: random.int(50, 900) }
      : roll < 0.76
      ? { type: "kill-worker", run: run() }
      : roll < 0.82
      ? { type: "stop-worker", run: run(), forMs: random.int(50, 600) }
      : roll < 0.95
      ? { type: "cut-connections" }
      : { type: "cancel", run: run() };
    return { afterMs: random.int(0, 900), fault };
  });
  // Drawn last: what a seed did before there were these is the same.
  if (random.chance(0.3)) {
    faults.push({
      afterMs: random.int(0, 900),
      fault: { type: "fill-disk", forMs: random.int(100, 2500) },
    });
  }
  if (random.chance(0.3)) {
    faults.push({
      afterMs: random.int(0, 900),
      fault: { type: "damage-page", share: random.next() },
    });
  }
  const deleteKilledAfterMs = random.chance(0.5) ? random.int(0, 60) : undefined;
  if (random.chance(0.3)) {
    faults.push({
      afterMs: random.int(0, 900),
      fault: { type: "cut-power", downMs: random.int(0, 400) },
    });
  }
  if (random.chance(0.2)) {
    faults.push({
      afterMs: random.int(0, 900),
      fault: { type: "squat", forMs: random.int(50, 900) },
    });
  }
  if (random.chance(0.3)) {
    const fault: Fault = { type: "flip-bit", share: random.next(), bit: random.int(0, 7) };
    faults.push({ afterMs: random.int(0, 900), fault });
  }
  // What damage takes from the database comes back from the journals alone, so one is emptied only
  // where there is none.
  const emptied: Fault = { type: "empty-journal", run: run(), afterStartMs: random.int(0, 150) };
  const place = random.int(0, 2);
  if (random.chance(0.4) && !faults.some(({ fault }) => DAMAGE.has(fault.type))) {
    faults.splice(place, 0, { afterMs: 0, fault: emptied });
  }
  // A thinned log gives back nothing that damage takes, nor what was emptied.
  const cutAfterMs = random.int(0, 1500);
  const keeps = faults.every(({ fault: { type } }) =>
    !["damage-page", "flip-bit", "empty-journal"].includes(type)
  );
  const thinCutAfterMs = random.chance(0.9) && keeps ? cutAfterMs : undefined;
  if (thinCutAfterMs !== undefined) {
    Object.assign(runs[0]!, { form: "digits", lines: Math.max(runs[0]!.lines, 3000) });
  }
  const last = runs.at(-1)!;
  const wide = { form: "wide", lines: last.lines + 3000, pauseMs: 60 } as const;
  if (random.chance(0.25) && last.form === "mixed") Object.assign(last, wide);
  const renamed: Fault = { type: "rename-journal", run: run(), afterStartMs: random.int(0, 300) };
  const isEmptied = faults.some(({ fault }) => fault.type === "empty-journal");
  // A renamed log is neither packed nor thinned.
  const mayRename = !isEmptied && (thinCutAfterMs === undefined || renamed.run > 0);
  if (random.chance(0.4) && mayRename) faults.push({ afterMs: random.int(0, 600), fault: renamed });
  if (random.chance(0.3)) {
    faults.push({ afterMs: random.int(0, 600), fault: { type: "remove-place", run: run() } });
  }
  const outlived = run();
  if (random.chance(0.4) && (outlived > 0 || thinCutAfterMs === undefined)) {
    runs[outlived]!.outlived = true;
  }
  return { seed, runs, faults, deleteKilledAfterMs, thinCutAfterMs };
}
