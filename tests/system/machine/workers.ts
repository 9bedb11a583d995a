/**
 * Workers whose output a test can foresee to the last record, and that go on when they are told to.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, type TestConfig } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { steps, untilState } from "../../harness/runs.ts";

/**
 * Prints steps FROM … TO of $2 bytes of payload each, waits for a file, and so on: arguments are
 * COUNT FILE pairs.
 */
const SCRIPT = `pad=$(printf "%\${1}s" '' | tr ' ' x); shift; i=0
while [ $# -gt 0 ]; do
  end=$((i + $1))
  while [ $i -lt $end ]; do
    printf '{"event_type":"step","step_index":%d,"reward":1,"note":"%s"}\\n' $i "$pad"; i=$((i + 1))
  done
  if [ -n "$2" ]; then while [ ! -e "$2" ]; do sleep 0.05; done; fi
  shift 2
done`;

export class SteppedWorker {
  readonly #gates: string[] = [];
  readonly #counts: number[];
  readonly #padding: number;

  /** @param counts steps of each part; after each but the last the worker waits for `open()` */
  constructor(directory: string, counts: number[], padding = 0) {
    this.#counts = counts;
    this.#padding = padding;
    this.#gates = counts.slice(1).map(() => `${directory}/gate-${crypto.randomUUID()}`);
  }

  get total(): number {
    return this.#counts.reduce((sum, n) => sum + n, 0);
  }

  config(more: Partial<TestConfig> = {}): string {
    const args = this.#counts.flatMap((count, i) => [String(count), this.#gates[i] ?? ""]);
    return configOf({
      command: ["/bin/sh", "-c", SCRIPT, "sh", String(this.#padding), ...args],
      ...more,
    });
  }

  /** Lets it go on after part `part` (0 is the first). */
  open(part = 0): void {
    Deno.writeTextFileSync(this.#gates[part]!, "");
  }

  /** The run ended well, and each of its steps is stored, once and in its place. */
  async assertWhole(daemon: TestDaemon, run: string): Promise<void> {
    await untilState(daemon, run, "TERMINATED");
    const stored = await steps(daemon, run);
    assert.deepEqual(
      stored.map((step) => step.step_index),
      Array.from({ length: this.total }, (_, i) => i),
    );
    assert.deepEqual(
      stored.map((step) => step.seq),
      Array.from({ length: this.total }, (_, i) => i + 1),
    );
  }
}

/** The run's entries in the event log so far. */
export async function events(
  daemon: TestDaemon,
  run: string,
): Promise<{ kind: string; data: Record<string, unknown> }[]> {
  const found: { kind: string; data: Record<string, unknown> }[] = [];
  for await (const event of daemon.client.stream(Mosaic.method.streamEvents, { run })) {
    found.push({ kind: event.kind, data: JSON.parse(event.dataJson) });
  }
  return found;
}
