/**
 * Recognizes files that mosaic has written itself, by their first bytes: those of `mosaic export`,
 * and the same records that `mosaic metrics`, `episodes` or `steps` have printed into a file.
 * Whoever copies or renames such a file keeps the mark.
 */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { publicFields, TELEMETRY_KINDS } from "../../records/record_fields.ts";
import type { FormatName } from "../format/format_reader.ts";
import { FRAME_BYTES, FRAME_HEADER_BYTES, frameData, frameLength } from "./tfrecord.ts";

/** `source_metadata.writer` in the first event of an exported event file. */
export const EXPORT_WRITER = "mosaic export";
/** So many first bytes suffice to recognize a file. */
export const EXPORT_HEAD_BYTES = 1024;

const LF = 10;
const FIELDS = TELEMETRY_KINDS.map((kind) => publicFields(kind).map(({ name }) => name));
const HEADERS: ReadonlySet<string> = new Set(FIELDS.map((names) => names.join(",")));
/** `{"seq":1,"run_id":"01…","attempt":`, in metrics `"name":`: every record has these first. */
const LINES = [
  ...new Set(
    FIELDS.map(([seq, runId, third]) =>
      `^\\{"${seq}":\\d+,"${runId}":"[0-7][0-9A-HJKMNP-TV-Z]{25}","${third}":`
    ),
  ),
].map((start) => new RegExp(start));
const decoder = new TextDecoder();

/**
 * Whether mosaic has written the file.
 * @param head the file's first bytes, up to `EXPORT_HEAD_BYTES`. Of fewer bytes than its first
 * record the answer is false.
 */
export function isExported(format: FormatName, head: Uint8Array): boolean {
  switch (format) {
    case "csv":
      return head.includes(LF) && HEADERS.has(decoder.decode(head.subarray(0, head.indexOf(LF))));
    case "jsonl": {
      const start = decoder.decode(head);
      return LINES.some((line) => line.test(start));
    }
    case "tfevents":
      return writerOfEvents(head) === EXPORT_WRITER;
    default:
      return false;
  }
}

/**
 * `source_metadata.writer` (fields 10 and 1) of the first event; undefined if it has none, or is
 * incomplete or damaged.
 */
function writerOfEvents(head: Uint8Array): string | undefined {
  const length = head.length < FRAME_HEADER_BYTES ? undefined : frameLength(head, 0);
  if (length === undefined || length + FRAME_BYTES > head.length) return undefined;
  try {
    const metadata = bytesOf(frameData(head, 0, length), 10);
    const writer = bytesOf(metadata, 1);
    return writer && decoder.decode(writer);
  } catch {
    return undefined;
  }
}

/** The last length-delimited field of this number. @throws for bytes that are no message */
function bytesOf(message: Uint8Array | undefined, wanted: number): Uint8Array | undefined {
  if (message === undefined) return undefined;
  const reader = new BinaryReader(message);
  let found: Uint8Array | undefined;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === wanted && wire === WireType.LengthDelimited) found = reader.bytes();
    else reader.skip(wire, field);
  }
  return found;
}
