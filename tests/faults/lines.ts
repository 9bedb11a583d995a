/**
 * What the checking worker prints as its n-th line: a function of (seed, n) alone, so that a
 * checker can tell it again.
 */
import { Random } from "./random.ts";

export type Line =
  | { kind: "step"; text: string; observation: unknown; agent: string; reward: number }
  | { kind: "episode"; text: string; reward: number }
  | { kind: "event"; text: string }
  /** Not telemetry: plain text, broken JSON, bytes that are no UTF-8 (in `bytes`). */
  | { kind: "garbage"; text: string; bytes?: Uint8Array };

const GARBAGE = [
  "plain text between records",
  '{"event_type":"step","reward":',
  "42",
  "[1,2,3]",
  "",
  "tqdm  10%\r tqdm  20%",
  '{"type":"pong"}',
];

/**
 * - `digits`: text alone, and observations that do not compress: such a log is thinned when its run
 *   has ended
 * - `wide`: so large that the journal is given back while its run lives
 */
export type Form = "mixed" | "digits" | "wide";

export function lineAt(seed: number, n: number, form: Form = "mixed"): Line {
  const random = new Random(Math.imul(seed, 7919) + n);
  const roll = random.next();
  if (roll < 0.02) return { kind: "garbage", text: random.pick(GARBAGE) };
  if (roll < 0.025 && form !== "digits") {
    return {
      kind: "garbage",
      text: "",
      bytes: new Uint8Array([0xff, 0xfe, 0x00, random.int(1, 9), 0x80]),
    };
  }
  if (roll < 0.06) {
    const reward = random.int(-100, 100) / 4;
    return {
      kind: "episode",
      reward,
      text: JSON.stringify({
        event_type: "episode",
        run_id: "R",
        episode: n,
        total_reward: reward,
        steps: 7,
        terminated: true,
        truncated: false,
      }),
    };
  }
  if (roll < 0.07) {
    return {
      kind: "event",
      text: JSON.stringify({
        event: "heartbeat",
        payload: { n },
        run_id: "R",
        timestamp: 1.7e9 + n,
      }),
    };
  }
  const agent = `agent-${random.int(0, 2)}`;
  const reward = random.int(-1000, 1000) / 8;
  // Now and then a record of more than a pipe's 64 KiB.
  const observation = form === "digits"
    ? Array.from({ length: 4 }, () => random.next() + random.next() / 2 ** 32)
    : form === "wide"
    ? { pixels: "x".repeat(random.int(4000, 8000)), n }
    : random.chance(0.004)
    ? { pixels: "x".repeat(random.int(65_000, 200_000)), n }
    : Array.from({ length: random.int(0, 6) }, () => random.int(-9, 9) / 2);
  return {
    kind: "step",
    observation,
    agent,
    reward,
    text: JSON.stringify({
      event_type: "step",
      run_id: "R",
      episode: Math.floor(n / 50),
      step_index: n,
      action: n % 2,
      observation,
      reward,
      terminated: false,
      truncated: false,
      agent_id: agent,
    }),
  };
}
