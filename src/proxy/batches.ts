/** A piece of the journal as the message that delivers it. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { BatchSchema } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { EpisodeRecord, WorkerEventRecord } from "../telemetry/batch.ts";
import { StepColumnsBuilder } from "../gen/records/step_columns.ts";
import { type LineContext, readLine, type RecordCheck } from "../telemetry/dialects/parse_line.ts";
import type { JournalPiece } from "./journal.ts";

/** A message may have 64 MiB; this leaves room for what is around the records. */
const MAX_RECORD_BYTES = 63 << 20;
const SAMPLES = 3;
const SAMPLE_LENGTH = 200;

export interface BuiltBatch {
  message: Exclude<MessageInitShape<typeof BatchSchema>, { $typeName: string }>;
  steps: number;
  /** Kinds of the lifecycle records in it, for who waits for one. */
  eventKinds: string[];
}

const encoder = new TextEncoder();
const NOTHING = new Uint8Array(0);

function jsonBytes(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

export function buildBatch(
  piece: JournalPiece,
  context: LineContext,
  check: RecordCheck | undefined,
  maxRecordBytes = MAX_RECORD_BYTES,
): BuiltBatch {
  const columns = new StepColumnsBuilder();
  const episodes: EpisodeRecord[] = [];
  const events: WorkerEventRecord[] = [];
  const violations = new Map<string, number>();
  const malformedSamples: string[] = [];
  const violationSamples: string[] = [];
  let otherLines = 0;
  let malformedLines = piece.overlong;
  if (piece.overlong > 0) malformedSamples.push(`a line of ${piece.to - piece.from} bytes is too long and left out`);

  if (piece.lost !== undefined) {
    const { from, lost: { why, bytes } } = piece;
    events.push({ kind: "journal_lost", dataJson: JSON.stringify({ from, bytes, reason: why }), tsNs: "" });
  }

  const { lines } = piece;
  const violated = (kind: string, rules: readonly string[], i: number) => {
    if (rules.length === 0) return;
    for (const rule of rules) {
      const name = `${kind}: ${rule}`;
      violations.set(name, (violations.get(name) ?? 0) + 1);
    }
    if (violationSamples.length < SAMPLES) violationSamples.push(sample(lines.line(i)));
  };
  for (let i = 0; i < lines.length; i++) {
    const parsed = readLine(lines, i, context, check);
    switch (parsed.type) {
      case "step":
        columns.add(parsed.step);
        violated("step", parsed.violations, i);
        break;
      case "episode":
        episodes.push(parsed.episode);
        violated("episode", parsed.violations, i);
        break;
      case "event":
        events.push(parsed.event);
        break;
      case "other":
        otherLines++;
        break;
      case "malformed":
        malformedLines++;
        if (malformedSamples.length < SAMPLES) malformedSamples.push(sample(`${parsed.why}: ${lines.line(i)}`));
    }
  }

  let steps = columns.size;
  let stepsJson = steps === 0 ? NOTHING : jsonBytes(columns.take());
  let episodesJson = episodes.length === 0 ? NOTHING : jsonBytes(episodes);
  let eventsJson = events.length === 0 ? NOTHING : jsonBytes(events);
  const bytes = stepsJson.length + episodesJson.length + eventsJson.length;
  if (bytes > maxRecordBytes) {
    // Only a single huge line gets here: many short ones make a piece of a megabyte.
    malformedLines += steps + episodes.length + events.length;
    malformedSamples.push(`a record of ${bytes} bytes is too large for a message and left out`);
    stepsJson = episodesJson = eventsJson = NOTHING;
    steps = 0;
  }
  return {
    message: {
      fromPosition: BigInt(piece.from),
      toPosition: BigInt(piece.to),
      stepsJson,
      episodesJson,
      eventsJson,
      otherLines: BigInt(otherLines),
      malformedLines: BigInt(malformedLines),
      malformedSamples,
      violations: Object.fromEntries([...violations].map(([rule, count]) => [rule, BigInt(count)])),
      violationSamples,
    },
    steps,
    eventKinds: events.map((event) => event.kind),
  };
}

/** @returns The beginning, without half of a surrogate pair at its end. */
function sample(line: string): string {
  return line.slice(0, SAMPLE_LENGTH).replace(/[\ud800-\udbff]$/, "");
}
