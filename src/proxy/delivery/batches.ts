/** Builds the message that delivers a chunk of the journal. */
import { messageOf } from "../../base/errors.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { BatchSchema } from "../../gen/mosaic/v1/ingest_pb.ts";
import type {
  EpisodeRecord,
  StepRecord,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import { StepColumnsBuilder } from "../../gen/records/step_columns.ts";
import { numberText } from "../../records/step_block.ts";
import { TextColumn } from "../../records/text_column.ts";
import { seal, type Sealed, SEALED_FORM } from "../../records/sealed_steps.ts";
import { hasRenderPayload } from "../../records/render_payload.ts";
import { type LineContext, readLine } from "../../readers/lines/parse_line.ts";
import type { RecordCheck } from "../../readers/lines/parsed_line.ts";
import { joinedObjects } from "../../readers/lines/json_scan.ts";
import { Lines } from "../../readers/lines/lines.ts";
import { StepShapes } from "../../readers/lines/step_shapes.ts";
import type { TextDialect } from "../../readers/text/text_dialects.ts";
import type { JournalChunk } from "../../journal/journal.ts";
import { PROGRESS_KIND, type RunProgress } from "../../readers/text/run_progress.ts";
import { NOT_READ, UnreadLines } from "../../readers/text/not_read.ts";
import { segmentsOf } from "../../readers/text/segments.ts";
import { recordsOf, TextRecords } from "../../readers/text/text_records.ts";

/** A message may have 64 MiB; the rest is for what surrounds the records. */
const MAX_RECORD_BYTES = 63 << 20;
/**
 * A longer unfinished table is not waited for. Less than the least size of a chunk, so that reading
 * always makes progress.
 */
const MAX_HELD_BYTES = 32 << 10;
const SAMPLES = 3;
const SAMPLE_LENGTH = 200;

export interface BuiltBatch {
  /**
   * Where the next batch begins: the end of the chunk, or the beginning of an unfinished table. So
   * any proxy can read each batch on its own.
   */
  to: number;
  lines: number;
  message: Exclude<MessageInitShape<typeof BatchSchema>, { $typeName: string }>;
  steps: number;
  /** Kinds of the lifecycle records in it, for callers that wait for one. */
  eventKinds: string[];
  /** The last record with a render payload. */
  framed: StepRecord | EpisodeRecord | undefined;
}

const encoder = new TextEncoder();
const NOTHING = new Uint8Array(0);

function jsonBytes(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

export interface BatchReading {
  context: LineContext;
  check?: RecordCheck | undefined;
  /** Dialects of printed text that are not read. */
  textOff?: readonly TextDialect[];
  maxRecordBytes?: number;
  /** The block format that the daemon accepts. */
  sealedForm?: string;
  /** When the byte before a position was written, in nanoseconds; "": about now. */
  timeAt?: (position: number) => string;
  /** How far the program is, which is told when it moves. */
  progress?: RunProgress;
  /** Dialects that were reported with a line of theirs: each is reported once. */
  seen?: Set<TextDialect>;
}

/**
 * @param more what may follow the chunk: nothing, or bytes that are written already and later ones.
 */
export function buildBatch(
  chunk: JournalChunk,
  {
    context,
    check,
    textOff = [],
    maxRecordBytes = MAX_RECORD_BYTES,
    sealedForm = "",
    timeAt,
    seen,
    progress,
  }: BatchReading,
  more: { final: true } | { final: false; written: number } = { final: true },
): BuiltBatch {
  const columns = new StepColumnsBuilder(() => new TextColumn());
  const shapes = new StepShapes();
  const episodes: EpisodeRecord[] = [];
  const events: WorkerEventRecord[] = [];
  const violations = new Map<string, number>();
  const malformedSamples: string[] = [];
  const violationSamples: string[] = [];
  let otherLines = 0;
  let malformedLines = chunk.overlong;
  if (chunk.overlong > 0) {
    malformedSamples.push(
      `a line of ${chunk.to - chunk.from} bytes or more is too long and left out`,
    );
  }

  if (chunk.passedOver !== undefined) {
    malformedLines++;
    malformedSamples.push(
      sample(
        `a line of ${
          chunk.to - chunk.from
        } bytes at ${chunk.from} is left out: ${chunk.passedOver}`,
      ),
    );
  }

  if (chunk.lost !== undefined) {
    const { from, lost: { why, bytes } } = chunk;
    events.push({
      kind: "journal_lost",
      dataJson: JSON.stringify({ from, bytes, reason: why }),
      tsNs: "",
    });
  }

  let framed: BuiltBatch["framed"];
  const unread = new UnreadLines();
  // If the first line is not late, none is; a late one gets the time of the journal's growth,
  // unless it tells its own.
  const isLate = timeAt !== undefined && timeAt(chunk.from + 1) !== "";
  let writtenAt = "";
  const violated = (kind: string, rules: readonly string[], lines: Lines, i: number) => {
    if (rules.length === 0) return;
    for (const rule of rules) {
      const name = `${kind}: ${rule}`;
      violations.set(name, (violations.get(name) ?? 0) + 1);
    }
    if (violationSamples.length < SAMPLES) violationSamples.push(sample(lines.line(i)));
  };
  const take = (lines: Lines, text: TextRecords) => {
    for (let i = 0; i < lines.length; i++) {
      if (isLate && lines === chunk.lines) writtenAt = timeAt(chunk.from + lines.ends[i]! + 1);
      try {
        takeLine(lines, i, text);
      } catch (error) {
        // An error of one line costs this line only.
        malformedLines++;
        if (malformedSamples.length < SAMPLES) {
          malformedSamples.push(sample(`not readable (${messageOf(error)}): ${lines.line(i)}`));
        }
      }
    }
  };
  const setTime = (record: { tsNs: string }) => {
    if (record.tsNs === "") record.tsNs = writtenAt;
  };
  /** The record may be that of the next line, too. */
  const addStep = (step: Parameters<typeof columns.add>[0]) => {
    const { tsNs } = step;
    setTime(step);
    columns.add(step);
    step.tsNs = tsNs;
  };
  const takeLine = (lines: Lines, i: number, text: TextRecords) => {
    const parsed = readLine(lines, i, context, check, shapes);
    if (parsed.type === "other" || parsed.type === "malformed") {
      const parts = segmentsOf(lines, i);
      if (parts !== undefined) return takeParts(parts, text);
    }
    if (parsed.type === "other") {
      const fields = text.read(i);
      if (text.unread !== undefined) unread.add(text.unread, () => lines.line(i));
      if (fields === undefined) {
        otherLines++;
        return;
      }
      if (seen?.has(fields.dialect) === false && fields.scalars.length > 0) {
        seen.add(fields.dialect);
        const data = {
          source: "stdout",
          format: fields.dialect,
          label: "stdout",
          line: sample(lines.line(i).trim()),
        };
        events.push({ kind: "source_observed", dataJson: JSON.stringify(data), tsNs: "" });
      }
      const records = recordsOf(fields, context);
      [...records.episodes, ...records.events].forEach(setTime);
      episodes.push(...records.episodes);
      events.push(...records.events);
      return;
    }
    text.pass();
    switch (parsed.type) {
      case "step":
        addStep(parsed.step);
        if (parsed.step.renderPayloadJson !== "") framed = parsed.step;
        violated("step", parsed.violations, lines, i);
        break;
      case "alike":
        addStep(parsed.step);
        break;
      case "episode":
        setTime(parsed.episode);
        episodes.push(parsed.episode);
        if (hasRenderPayload(parsed.episode)) framed = parsed.episode;
        violated("episode", parsed.violations, lines, i);
        break;
      case "event":
        setTime(parsed.event);
        events.push(parsed.event);
        break;
      case "malformed": {
        const joined = joinedObjects(lines.bytes, lines.begin(i), lines.ends[i]!);
        if (joined !== undefined) {
          const apart = Lines.of(...joined.map(({ from, to }) => lines.slice(from, to)));
          return take(apart, new TextRecords(apart, textOff, progress));
        }
        malformedLines++;
        if (malformedSamples.length < SAMPLES) {
          malformedSamples.push(sample(`${parsed.why}: ${lines.line(i)}`));
        }
      }
    }
  };
  /** One line on a terminal, and one line of other output if none of its parts is a record. */
  const takeParts = (parts: Lines, text: TextRecords) => {
    text.pass();
    const others = otherLines;
    take(parts, new TextRecords(parts, textOff, progress));
    otherLines = Math.min(otherLines, others + 1);
  };
  const { lines } = chunk;
  const text = new TextRecords(lines, textOff, progress);
  take(lines, text);
  const part = progress?.take();
  if (part !== undefined) {
    events.push({ kind: PROGRESS_KIND, dataJson: JSON.stringify({ part }), tsNs: "" });
  }
  for (const one of unread.of("stdout")) {
    events.push({ kind: NOT_READ, dataJson: JSON.stringify(one), tsNs: "" });
  }

  let to = chunk.to;
  const openAt = lines.length - text.openLines;
  if (!more.final && openAt < lines.length) {
    const from = chunk.from + lines.begin(openAt);
    if (from > chunk.from || more.written - from <= MAX_HELD_BYTES) {
      to = from;
      otherLines -= text.openLines;
    }
  }

  let steps = columns.size;
  const taken = columns.take();
  const sealed = sealedForm === SEALED_FORM && steps > 0 ? seal(taken) : undefined;
  let stepsJson = steps === 0 || sealed !== undefined ? NOTHING : jsonBytes(taken);
  let episodesJson = episodes.length === 0 ? NOTHING : jsonBytes(episodes);
  let eventsJson = events.length === 0 ? NOTHING : jsonBytes(events);
  const bytes = stepsJson.length + episodesJson.length + eventsJson.length;
  if (bytes > maxRecordBytes) {
    // Only a single huge line gets here: many short lines make a chunk of at most a megabyte.
    malformedLines += steps + episodes.length + events.length;
    malformedSamples.push(`a record of ${bytes} bytes is too large for a message and left out`);
    stepsJson = episodesJson = eventsJson = NOTHING;
    steps = 0;
  }
  return {
    to,
    lines: to < chunk.to ? openAt : lines.length,
    message: {
      fromPosition: BigInt(chunk.from),
      toPosition: BigInt(to),
      stepsJson,
      ...(sealed === undefined ? {} : { sealedSteps: sealedMessage(sealed) }),
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
    framed,
  };
}

export function sealedMessage({ n, labels, block, info, clamped }: Sealed) {
  const { crc, fromNs, toNs, unitNs, cells, hot, raw, body } = block;
  // As in `hot`: JSON has no text for some numbers.
  const texts = cells.map((cell) =>
    typeof cell === "number" ? numberText(cell) : JSON.stringify(cell)
  );
  const head = `["${fromNs}","${toNs}",${unitNs},[${texts}]]`;
  return { n, crc, head, hot, raw, body, ...labels, info, clamped };
}

/** @returns the beginning, without half a surrogate pair at its end. */
function sample(line: string): string {
  return line.slice(0, SAMPLE_LENGTH).replace(/[\ud800-\udbff]$/, "");
}
