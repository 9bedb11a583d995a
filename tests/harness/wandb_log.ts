/** W&B's logs, as its library writes them. */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";
import { BLOCK_BYTES, CHUNK, chunkCrc } from "../../src/readers/wandb/leveldb_log.ts";
import { WANDB_HEADER } from "../../src/readers/wandb/wandb_file.ts";

export function chunk(type: number, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(7 + data.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, chunkCrc(type, data), true);
  view.setUint16(4, data.length, true);
  bytes[6] = type;
  bytes.set(data, 7);
  return bytes;
}

/** A log as W&B writes it. */
export function logOf(datas: readonly Uint8Array[]): { file: Uint8Array; starts: number[] } {
  const parts: Uint8Array[] = [WANDB_HEADER];
  let size = WANDB_HEADER.length;
  const put = (bytes: Uint8Array) => {
    parts.push(bytes);
    size += bytes.length;
  };
  const starts = datas.map((data) => {
    let left = BLOCK_BYTES - size % BLOCK_BYTES;
    if (left < 7) put(new Uint8Array(left));
    const start = size;
    let from = 0;
    let first = true;
    do {
      left = BLOCK_BYTES - size % BLOCK_BYTES;
      const to = Math.min(data.length, from + left - 7);
      const last = to === data.length;
      const type = first ? (last ? CHUNK.FULL : CHUNK.FIRST) : last ? CHUNK.LAST : CHUNK.MIDDLE;
      put(chunk(type, data.subarray(from, to)));
      from = to;
      first = false;
    } while (from < data.length);
    return start;
  });
  return { file: joinedBytes(parts), starts };
}

/** `Record` with one field of messages of texts. */
export function message(field: number, write: (record: BinaryWriter) => void): Uint8Array {
  const record = new BinaryWriter();
  record.tag(field, WireType.LengthDelimited).fork();
  write(record);
  return record.join().finish();
}

/** Field 1 of histories and summaries: an item. */
export function item(record: BinaryWriter, key: string, json: string): void {
  record.tag(1, WireType.LengthDelimited).fork();
  record.tag(1, WireType.LengthDelimited).string(key).tag(16, WireType.LengthDelimited).string(json)
    .join();
}

/** A row of the history, or of the summary. */
export function rowOf(field: 2 | 3, values: Record<string, unknown>, step?: number): Uint8Array {
  return message(field, (r) => {
    for (const [key, value] of Object.entries(values)) item(r, key, JSON.stringify(value));
    if (step === undefined) return;
    r.tag(2, WireType.LengthDelimited).fork().tag(1, WireType.Varint).int64(step).join();
  });
}

export interface WandbRun {
  id: string;
  name?: string;
  group?: string;
  tags?: readonly string[];
}

export function runOf({ id, name = "", group = "", tags = [] }: WandbRun): Uint8Array {
  return message(17, (r) => {
    for (const [field, text] of [[1, id], [6, group], [8, name], ...tags.map((t) => [10, t])]) {
      r.tag(field as number, WireType.LengthDelimited).string(text as string);
    }
  });
}

export function configOf(values: Record<string, unknown>): Uint8Array {
  return message(5, (r) => {
    for (const [key, value] of Object.entries(values)) item(r, key, JSON.stringify(value));
  });
}
