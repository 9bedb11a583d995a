/** Lines per second on one core from a worker's line to the bytes of its batch: `deno run -A bench/dialects.ts`. */
import { parseLine } from "../src/telemetry/dialects/parse_line.ts";
import { StepColumnsBuilder } from "../src/telemetry/dialects/columns.ts";
import { documentedLines } from "./yardstick_lines.ts";

const lines = documentedLines(200_000);
const context = { agentId: "agent_1", workerId: "" };
const encoder = new TextEncoder();

function rate(work: () => void): number {
  let best = 0;
  for (let round = 0; round < 5; round++) {
    const start = performance.now();
    work();
    best = Math.max(best, lines.length / (performance.now() - start) * 1000);
  }
  return Math.round(best);
}

const parse = rate(() => {
  for (const line of lines) JSON.parse(line);
});
const mapped = rate(() => {
  for (const line of lines) parseLine(line, context);
});
let bytes = 0;
const whole = rate(() => {
  const builder = new StepColumnsBuilder();
  bytes = 0;
  for (const line of lines) {
    const parsed = parseLine(line, context);
    if (parsed.type === "step") builder.add(parsed.step);
    if (builder.size === 1024) bytes += encoder.encode(JSON.stringify(builder.take())).length;
  }
});
console.log(`JSON.parse ${parse}/s; parseLine ${mapped}/s; to encoded columns ${whole}/s (${bytes} bytes)`);
