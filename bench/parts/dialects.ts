/** The proxy's work on one core: from a worker's lines to the bytes of its batches. */
import { JOURNAL_BOUNDS } from "../../src/journal/journal.ts";
import { StepColumnsBuilder } from "../../src/gen/records/step_columns.ts";
import { Lines } from "../../src/readers/lines/lines.ts";
import { readLine } from "../../src/readers/lines/parse_line.ts";
import { TextColumn } from "../../src/records/text_column.ts";
import { medianOf } from "../measure.ts";
import { stepLines } from "../records.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

const SHAPE = { observationBytes: 0 };
const BATCH = JOURNAL_BOUNDS.lines;

export async function dialects(options: BenchOptions): Promise<Figure[]> {
  const machine = await yardsticks(SHAPE, options);
  const count = options.pick(200_000, 50_000, 5000);
  const lines = stepLines(count, SHAPE);
  const context = { agentId: "agent_1", workerId: "" };
  const encoder = new TextEncoder();
  const chunks: { bytes: Uint8Array; ends: readonly number[] }[] = [];
  for (let i = 0; i < count; i += BATCH) chunks.push(Lines.of(...lines.slice(i, i + BATCH)));
  /** Each chunk from its bytes, as the journal returns it. */
  const rate = (work: (chunk: Lines) => void) =>
    medianOf(5, () => {
      const start = performance.now();
      for (const { bytes, ends } of chunks) work(new Lines(bytes, ends));
      return count / (performance.now() - start) * 1000;
    });
  const mapped = await rate((chunk) => {
    for (let i = 0; i < chunk.length; i++) readLine(chunk, i, context);
  });
  let bytes = 0;
  const builder = new StepColumnsBuilder(() => new TextColumn());
  const encoded = await rate((chunk) => {
    for (let i = 0; i < chunk.length; i++) {
      const parsed = readLine(chunk, i, context);
      if (parsed.type === "step") builder.add(parsed.step);
    }
    bytes += encoder.encode(JSON.stringify(builder.take())).length;
  });
  const of = { part: "dialects", unit: "lines/s", yardsticks: machine };
  return [
    { ...of, name: "lines to records", value: mapped },
    {
      ...of,
      name: "lines to encoded columns",
      value: encoded,
      detail: { "bytes a line": bytes / 5 / count },
    },
  ];
}
