/** Decoding other trackers' files: processor time for 100 000 scalars of ten series. */
import { scalarFrame, versionFrame } from "../../src/cli/export/event_file.ts";
import { openFormat } from "../../src/readers/formats.ts";
import { TextLines } from "../../src/readers/text/text_lines.ts";
import type { FormatName } from "../../src/readers/format/format_reader.ts";
import { medianOf, processorSeconds } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const SERIES = Array.from({ length: 10 }, (_, i) => `losses/series_${i}`);
const SCALARS = 100_000;
/** Bytes that a poll of a busy file reads. */
const CHUNK = 256 << 10;

function rows<T>(row: (step: number, values: number[]) => T): T[] {
  return Array.from(
    { length: SCALARS / SERIES.length },
    (_, step) => row(step, SERIES.map((_, i) => Math.sin(step * SERIES.length + i))),
  );
}

function files(): [format: FormatName, file: Uint8Array][] {
  const text = (lines: string[]) => new TextEncoder().encode(lines.join("\n") + "\n");
  const frames = rows((step, values) =>
    values.map((value, i) => scalarFrame({ tag: SERIES[i]!, value, step, wallTime: 1.7e9 + step }))
  ).flat();
  return [
    ["tfevents", Uint8Array.from([versionFrame(1.7e9), ...frames].flatMap((frame) => [...frame]))],
    [
      "csv",
      text([["step", ...SERIES].join(","), ...rows((step, values) => [step, ...values].join(","))]),
    ],
    ["jsonl", text(rows((step, values) => objectOf(step, values)))],
  ];
}

function objectOf(step: number, values: number[]): string {
  return JSON.stringify({
    step,
    ...Object.fromEntries(values.map((value, i) => [SERIES[i]!, value])),
  });
}

/** @returns the number of records */
function decode(format: FormatName, file: Uint8Array): number {
  const reader = openFormat(format);
  let records = 0;
  for (;;) {
    const result = reader.read(file.subarray(reader.offset, reader.offset + CHUNK));
    records += result.records.length;
    JSON.stringify(reader.state());
    if (!result.again) return records;
  }
}

function complete(name: string, scalars: number): void {
  if (scalars !== SCALARS) throw new Error(`${name}: ${scalars} scalars decoded of ${SCALARS}`);
}

export async function formats(options: BenchOptions): Promise<Figure[]> {
  const rounds = options.pick(5, 1, 1);
  const figures: Figure[] = [];
  const measure = async (name: string, bytes: number, work: () => number) => {
    // The first round includes compiling the code, as in a program that has just started.
    const cold = processorSeconds(() => complete(name, work()));
    const value = await medianOf(
      rounds,
      () => processorSeconds(() => complete(name, work())) * 1000,
    );
    const detail = { "bytes a scalar": bytes / SCALARS, "first ms": cold * 1000 };
    figures.push({ part: "formats", name, value, unit: "CPU ms per 100 k", detail });
  };
  for (const [format, file] of files()) {
    await measure(format, file.length, () => decode(format, file));
  }
  const texts: [name: string, lines: string[]][] = [
    [
      "key=value lines",
      rows((step, values) => `step=${step}, ${values.map((v, i) => `s${i}=${v}`).join(", ")}`),
    ],
    ["JSON lines on standard output", rows(objectOf)],
    [
      "Python dicts on standard output",
      rows((step, values) => objectOf(step, values).replaceAll('"', "'")),
    ],
  ];
  for (const [name, lines] of texts) {
    const bytes = lines.reduce((sum, line) => sum + line.length + 1, 0);
    await measure(name, bytes, () => {
      const text = new TextLines();
      return lines.reduce((sum, line) => sum + (text.read(line)?.scalars.length ?? 0), 0);
    });
  }
  return figures;
}
