/**
 * TensorBoard's event files: TFRecord frames with one `tensorflow.Event` each. Scalars come as
 * `simple_value` (tensorboardX, torch) or as tensors (TensorFlow 2); texts, pictures, sounds and
 * histograms also in both ways. A frame with a wrong checksum is reported and skipped. If a frame's
 * length is damaged, reading continues at the next header with a right checksum. (TensorBoard stops
 * in both cases.)
 */
import { crc32c } from "../../base/crc32c.ts";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { readSummaryValue, type TagPlugins } from "./event_value.ts";
import { BaseReader, MAX_RECORD_BYTES, type Output } from "../format/base_reader.ts";
import { findFrame, FRAME_BYTES, FRAME_HEADER_BYTES, frameData, frameLength } from "./tfrecord.ts";
import type { FormatState } from "../format/format_reader.ts";
import type { SourceRecord } from "../format/tracker_records.ts";

/**
 * Beyond this number of tags the plugin is not remembered; their tensors are read by their content.
 */
const MAX_TAGS = 4000;
/**
 * Up to this many zeros at the end of a file may be bytes that are still being written (a hole, a
 * cache of NFS).
 */
const MAX_ZEROS = 1 << 20;
const SESSION_START = 1;

/**
 * Scalars and texts are recognized by their tensors, so only tags of other plugins are stored, by
 * their checksums.
 */
class Plugins implements TagPlugins {
  readonly #byTag = new Map<string, string>();

  get(tag: string): string {
    return this.#byTag.size === 0 ? "" : this.#byTag.get(keyOf(tag)) ?? "";
  }

  set(tag: string, plugin: string): void {
    if (plugin === "" || plugin === "scalars" || plugin === "text" || plugin === "hparams") return;
    if (this.#byTag.size < MAX_TAGS) this.#byTag.set(keyOf(tag), plugin);
  }

  clear(): void {
    this.#byTag.clear();
  }

  /** Keys of tags by plugin. */
  toJSON(): Record<string, string[]> {
    const tags: Record<string, string[]> = {};
    for (const [tag, plugin] of this.#byTag) (tags[plugin] ??= []).push(tag);
    return tags;
  }

  /** @param json also of earlier versions, which stored the tags themselves */
  static of(json: Record<string, string[]>): Plugins {
    const plugins = new Plugins();
    for (const [plugin, tags] of Object.entries(json)) {
      for (const tag of tags) {
        if (KEY.test(tag)) plugins.#byTag.set(tag, plugin);
        else plugins.set(tag, plugin);
      }
    }
    return plugins;
  }
}

const KEY = /^#[0-9a-z]{1,7}$/;
const encoder = new TextEncoder();

/** A tag may have hundreds of characters, and a file thousands of tags. */
function keyOf(tag: string): string {
  return `#${crc32c(encoder.encode(tag)).toString(36)}`;
}

export class EventFileReader extends BaseReader {
  readonly format = "tfevents";
  #plugins = new Plugins();
  /** Bytes of a too large record that are still to be skipped. */
  #skip = 0;
  /** Position where the damaged part that is being skipped begins; -1: none. */
  #lost = -1;

  constructor(state?: FormatState) {
    super();
    if (state === undefined) return;
    this.restoreBase(state);
    this.#plugins = Plugins.of(state["plugins"] as Record<string, string[]>);
    this.#skip = state["skip"] as number;
    this.#lost = state["lost"] as number;
  }

  protected memory(): Record<string, unknown> {
    return { plugins: this.#plugins.toJSON(), skip: this.#skip, lost: this.#lost };
  }

  protected forget(): void {
    this.#plugins.clear();
    this.#skip = 0;
    this.#lost = -1;
  }

  protected decode(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (this.#skip > 0) {
      const used = Math.min(this.#skip, left);
      this.#skip -= used;
      return used;
    }
    if (left < FRAME_HEADER_BYTES) {
      if (this.#lost >= 0 && out.end) return this.#passed(left, out);
      out.need = FRAME_HEADER_BYTES;
      return 0;
    }
    if (this.#lost >= 0) return this.#resync(bytes, at, out);
    const length = frameLength(bytes, at);
    if (length === undefined) return this.#broken(bytes, at, out);
    const total = length + FRAME_BYTES;
    if (length > MAX_RECORD_BYTES) {
      const detail = `a record of ${length} bytes; at most ${MAX_RECORD_BYTES} are read`;
      out.problems.push({ what: "too_large", at: this.position, bytes: total, detail });
      this.#skip = total - FRAME_HEADER_BYTES;
      return FRAME_HEADER_BYTES;
    }
    if (left < total) {
      out.need = total;
      return 0;
    }
    const data = frameData(bytes, at, length);
    if (data === undefined && left === total && !out.end) {
      // The file's length may be visible before its last bytes (NFS).
      out.need = total + 1;
      return 0;
    }
    const why = data === undefined ? "wrong checksum" : this.#event(data, out.records);
    if (why !== undefined) {
      out.problems.push({ what: "corrupt", at: this.position, bytes: total, detail: why });
    }
    return total;
  }

  #broken(bytes: Uint8Array, at: number, out: Output): number {
    const left = bytes.length - at;
    if (!out.end && left < MAX_ZEROS && bytes.subarray(at).every((byte) => byte === 0)) {
      out.need = left + 1;
      return 0;
    }
    this.#lost = this.position;
    return 1;
  }

  #resync(bytes: Uint8Array, at: number, out: Output): number {
    const found = findFrame(bytes, at, MAX_RECORD_BYTES);
    if (found < 0 && !out.end) return bytes.length - at - FRAME_HEADER_BYTES + 1;
    const used = this.#passed((found < 0 ? bytes.length : found) - at, out);
    // A frame begins here: nothing to skip.
    return used === 0 ? this.decode(bytes, at, out) : used;
  }

  /** The damaged part ends after `used` bytes. */
  #passed(used: number, out: Output): number {
    const detail = "no record begins here: the length's checksum is wrong";
    out.problems.push({
      what: "corrupt",
      at: this.#lost,
      bytes: this.position + used - this.#lost,
      detail,
    });
    this.#lost = -1;
    return used;
  }

  /** @returns why the data is not an event; then it gives no records */
  #event(data: Uint8Array, records: SourceRecord[]): string | undefined {
    const before = records.length;
    try {
      readEvent(data, this.#plugins, records);
      return undefined;
    } catch (error) {
      records.length = before;
      return `no tensorflow.Event: ${error instanceof Error ? error.message : error}`;
    }
  }
}

function readEvent(data: Uint8Array, plugins: TagPlugins, records: SourceRecord[]): void {
  const reader = new BinaryReader(data);
  let wallTime = 0;
  let step = 0;
  let summary: Uint8Array | undefined;
  let session: Uint8Array | undefined;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) wallTime = reader.double();
    else if (field === 2) step = Number(reader.int64());
    else if (field === 5) summary = reader.bytes();
    else if (field === 7) session = reader.bytes();
    else reader.skip(wire, field);
  }
  if (session !== undefined && isStart(session)) records.push({ kind: "rewind", step, wallTime });
  if (summary === undefined) return;
  const values = new BinaryReader(summary);
  while (values.pos < values.len) {
    const [field, wire] = values.tag();
    if (field === 1) readSummaryValue(values.bytes(), { step, wallTime }, plugins, records);
    else values.skip(wire, field);
  }
}

/** `SessionLog`, as written by `SummaryWriter(purge_step=…)`. */
function isStart(bytes: Uint8Array): boolean {
  const reader = new BinaryReader(bytes);
  let status = 0;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) status = reader.int32();
    else reader.skip(wire, field);
  }
  return status === SESSION_START;
}
