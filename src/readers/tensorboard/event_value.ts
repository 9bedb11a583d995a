/** Reads one `Summary.Value` of an event file as records. */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { paramsOfTable, readHparams } from "./hparams.ts";
import { imageSize, mediaType } from "../format/media_type.ts";
import { readTensor, type Tensor } from "./tensor.ts";
import type { HistogramRecord, MediaRecord, SourceRecord } from "../format/tracker_records.ts";

const utf8 = new TextDecoder();

/** Step and time of a value. */
export interface Place {
  step: number;
  wallTime: number;
}

/** The plugin of each tag: a writer names it only in the tag's first value. */
export interface TagPlugins {
  /** "" if the tag's values are read by their content. */
  get(tag: string): string;
  set(tag: string, plugin: string): void;
}

interface Metadata {
  plugin: string;
  content: Uint8Array;
  dataClass: number;
}

const NOTHING: Uint8Array = new Uint8Array(0);
const SCALAR_CLASS = 1;

function readMetadata(bytes: Uint8Array): Metadata {
  const reader = new BinaryReader(bytes);
  const metadata: Metadata = { plugin: "", content: NOTHING, dataClass: 0 };
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 4) metadata.dataClass = reader.int32();
    else if (field === 1) {
      const plugin = new BinaryReader(reader.bytes());
      while (plugin.pos < plugin.len) {
        const [name, type] = plugin.tag();
        if (name === 1) metadata.plugin = plugin.string();
        else if (name === 2) metadata.content = plugin.bytes();
        else plugin.skip(type, name);
      }
    } else reader.skip(wire, field);
  }
  return metadata;
}

/** @param bytes the message @throws if it is invalid */
export function readSummaryValue(
  bytes: Uint8Array,
  place: Place,
  plugins: TagPlugins,
  records: SourceRecord[],
): void {
  const reader = new BinaryReader(bytes);
  let tag = "";
  let nodeName = "";
  let simple: number | undefined;
  let metadata: Metadata | undefined;
  /** Field number and bytes of the value's message. */
  let field = 0;
  let value = NOTHING;
  while (reader.pos < reader.len) {
    const [no, wire] = reader.tag();
    switch (no) {
      case 1:
        tag = reader.string();
        break;
      case 2:
        simple = reader.float();
        field = no;
        break;
      case 4:
      case 5:
      case 6:
      case 8:
        value = reader.bytes();
        field = no;
        break;
      case 7:
        nodeName = reader.string();
        break;
      case 9:
        metadata = readMetadata(reader.bytes());
        break;
      default:
        reader.skip(wire, no);
    }
  }
  // Only the first metadata of a tag counts, as in TensorBoard.
  if (metadata !== undefined && plugins.get(tag) === "") plugins.set(tag, pluginOf(metadata));
  if (metadata?.plugin === "hparams") {
    records.push(...readHparams(metadata.content, place.wallTime));
  }
  const at = { tag, step: place.step, wallTime: place.wallTime };
  if (field === 2) records.push({ kind: "scalar", ...at, value: simple! });
  else if (field === 4) records.push(imageOf(value, at));
  else if (field === 5) records.push(histogramOf(value, at));
  else if (field === 6) records.push(audioOf(value, at));
  else if (field === 8) {
    tensorRecords(
      readTensor(value),
      plugins.get(tag),
      { ...at, tag: tag === "" ? nodeName : tag },
      records,
    );
  }
}

/** A summary of another plugin whose data class is scalar is read as scalars. */
function pluginOf({ plugin, dataClass }: Metadata): string {
  return dataClass === SCALAR_CLASS ? "scalars" : plugin;
}

type At = Place & { tag: string };

function tensorRecords(tensor: Tensor, plugin: string, at: At, records: SourceRecord[]): void {
  const { numbers, strings, shape } = tensor;
  switch (plugin) {
    case "images":
      // Width, height, then the pictures.
      strings?.slice(2).forEach((bytes, index) => records.push(picture(bytes, index, at)));
      return;
    case "audio":
      // Rows of sound and label.
      strings?.filter((_, i) => shape.length < 2 || i % shape[1]! === 0)
        .forEach((bytes, index) => records.push(media("audio", bytes, index, at)));
      return;
    case "histograms":
      if (numbers !== undefined) records.push(bucketsOf(numbers, at));
      return;
    case "scalars":
    case "text":
    case "":
      break;
    default:
      return; // another plugin's own
  }
  if (strings !== undefined) {
    const text = strings.map((bytes) => utf8.decode(bytes)).join("\n");
    records.push({ kind: "text", ...at, text });
    const params = paramsOfTable(at.tag, text, at.wallTime);
    if (params !== undefined) records.push(params);
  } else if (numbers?.length === 1) {
    records.push({ kind: "scalar", ...at, value: numbers[0]! });
  }
}

function media(kind: "image" | "audio", bytes: Uint8Array, index: number, at: At): MediaRecord {
  const type = mediaType(bytes);
  return {
    kind: "media",
    media: kind,
    ...at,
    index,
    type,
    width: undefined,
    height: undefined,
    // A copy, because the caller reuses the frame's buffer.
    bytes: bytes.slice(),
    path: undefined,
    caption: "",
  };
}

function picture(bytes: Uint8Array, index: number, at: At): MediaRecord {
  const size = imageSize(bytes);
  return { ...media("image", bytes, index, at), width: size?.width, height: size?.height };
}

/** `Summary.Image` */
function imageOf(bytes: Uint8Array, at: At): MediaRecord {
  const reader = new BinaryReader(bytes);
  let width: number | undefined;
  let height: number | undefined;
  let encoded = NOTHING;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) height = reader.int32();
    else if (field === 2) width = reader.int32();
    else if (field === 4) encoded = reader.bytes();
    else reader.skip(wire, field);
  }
  const record = picture(encoded, 0, at);
  return { ...record, width: width ?? record.width, height: height ?? record.height };
}

/** `Summary.Audio` */
function audioOf(bytes: Uint8Array, at: At): MediaRecord {
  const reader = new BinaryReader(bytes);
  let encoded = NOTHING;
  let type = "";
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 4) encoded = reader.bytes();
    else if (field === 5) type = reader.string();
    else reader.skip(wire, field);
  }
  const record = media("audio", encoded, 0, at);
  return { ...record, type: type === "" ? record.type : type };
}

/** Rows of left edge, right edge and count, one per bucket. */
function bucketsOf(rows: number[], at: At): HistogramRecord {
  const column = (c: number) => rows.filter((_, i) => i % 3 === c);
  return {
    kind: "histogram",
    ...at,
    left: column(0),
    right: column(1),
    count: column(2),
    stats: undefined,
  };
}

function doubles(reader: BinaryReader, wire: WireType, into: number[]): void {
  if (wire !== WireType.LengthDelimited) {
    into.push(reader.double());
    return;
  }
  const packed = reader.bytes();
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
  for (let i = 0; i + 8 <= packed.length; i += 8) into.push(view.getFloat64(i, true));
}

/**
 * `HistogramProto`. Its outermost limits may be ±1.8e308; as in TensorBoard, empty buckets at both
 * ends are dropped, and the ends are the minimum and the maximum.
 */
function histogramOf(bytes: Uint8Array, at: At): HistogramRecord {
  const reader = new BinaryReader(bytes);
  const stats = { min: 0, max: 0, num: 0, sum: 0, sumSquares: 0 };
  const limits: number[] = [];
  const counts: number[] = [];
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) stats.min = reader.double();
    else if (field === 2) stats.max = reader.double();
    else if (field === 3) stats.num = reader.double();
    else if (field === 4) stats.sum = reader.double();
    else if (field === 5) stats.sumSquares = reader.double();
    else if (field === 6) doubles(reader, wire, limits);
    else if (field === 7) doubles(reader, wire, counts);
    else reader.skip(wire, field);
  }
  const start = counts.findIndex((count) => count > 0);
  if (start < 0) return { kind: "histogram", ...at, left: [], right: [], count: [], stats };
  const last = counts.findLastIndex((count) => count > 0);
  const inner = limits.slice(start, last);
  return {
    kind: "histogram",
    ...at,
    left: [stats.min, ...inner],
    right: [...inner, stats.max],
    count: counts.slice(start, last + 1),
    stats,
  };
}
