/**
 * What this machine does at best with the same records, just now: other figures are judged by their
 * ratio to these.
 */
import { medianOf } from "./measure.ts";
import { PlainInserts } from "./plain_inserts.ts";
import { type Shape, stepColumns, stepLines } from "./records.ts";
import type { Yardsticks } from "./report.ts";
import type { BenchOptions } from "./run.ts";

const ROUNDS = 3;
const BYTES = 16 * 1024 * 1024;

export async function yardsticks(shape: Shape, options: BenchOptions): Promise<Yardsticks> {
  const n = Math.max(
    64,
    Math.min(
      options.pick(65_536, 65_536, 1024),
      Math.floor(BYTES / (shape.observationBytes + 200)),
    ),
  ) &
    ~63;
  const lines = stepLines(n, shape);
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-bench-" });
  try {
    return {
      parse: await medianOf(ROUNDS, () => parse(lines)),
      insert: await medianOf(
        ROUNDS,
        () => insert(`${directory}/${crypto.randomUUID()}.sqlite`, n, shape),
      ),
      pipe: await medianOf(ROUNDS, () => pipe(`${directory}/lines`, lines)),
    };
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

function parse(lines: string[]): number {
  const start = performance.now();
  for (const line of lines) JSON.parse(line);
  return lines.length / (performance.now() - start) * 1000;
}

function insert(path: string, n: number, shape: Shape): number {
  using plain = new PlainInserts(path);
  const columns = stepColumns(0, n, shape);
  const start = performance.now();
  plain.insert(columns);
  return n / (performance.now() - start) * 1000;
}

async function pipe(path: string, lines: string[]): Promise<number> {
  Deno.writeTextFileSync(path, lines.join("\n") + "\n");
  const start = performance.now();
  const child = new Deno.Command("cat", { args: [path], stdout: "piped", stderr: "null" }).spawn();
  let newlines = 0;
  for await (const chunk of child.stdout) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) newlines++;
  }
  await child.status;
  return newlines / (performance.now() - start) * 1000;
}
