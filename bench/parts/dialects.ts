/** The proxy's work on one core: from a worker's lines to the bytes of its batches. */
import { StepColumnsBuilder } from "../../src/telemetry/dialects/columns.ts";
import { parseLine } from "../../src/telemetry/dialects/parse_line.ts";
import { medianOf } from "../measure.ts";
import { stepLines } from "../records.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";
import { yardsticks } from "../yardsticks.ts";

const SHAPE = { observationBytes: 0 };
const BATCH = 1024;

export async function dialects(options: BenchOptions): Promise<Figure[]> {
  const machine = await yardsticks(SHAPE);
  const lines = stepLines(options.quick ? 50_000 : 200_000, SHAPE);
  const context = { agentId: "agent_1", workerId: "" };
  const encoder = new TextEncoder();
  const rate = (work: () => void) =>
    medianOf(5, () => {
      const start = performance.now();
      work();
      return lines.length / (performance.now() - start) * 1000;
    });
  const mapped = await rate(() => {
    for (const line of lines) parseLine(line, context);
  });
  let bytes = 0;
  const encoded = await rate(() => {
    const builder = new StepColumnsBuilder();
    bytes = 0;
    for (const line of lines) {
      const parsed = parseLine(line, context);
      if (parsed.type === "step") builder.add(parsed.step);
      if (builder.size === BATCH) bytes += encoder.encode(JSON.stringify(builder.take())).length;
    }
  });
  const of = { part: "dialects", unit: "lines/s", yardsticks: machine };
  return [
    { ...of, name: "lines to records", value: mapped },
    { ...of, name: "lines to encoded columns", value: encoded, detail: { "bytes a line": bytes / lines.length } },
  ];
}
