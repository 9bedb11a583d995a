/**
 * Messages of bytes in one stream: each behind its length (u32, little endian). The server writes
 * them, the page reads them.
 */
import { joinedBytes } from "../../base/text/joined_bytes.ts";

const LENGTH_BYTES = 4;

export function sized(message: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(LENGTH_BYTES + message.length);
  new DataView(bytes.buffer).setUint32(0, message.length, true);
  bytes.set(message, LENGTH_BYTES);
  return bytes;
}

/** A message is valid until the next is requested. An incomplete last message is dropped. */
export async function* sizedMessages(
  stream: ReadableStream<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  // Not every browser supports `for await` on streams.
  const reader = stream.getReader();
  try {
    let parts: Uint8Array[] = [];
    let have = 0;
    let need = LENGTH_BYTES;
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      parts.push(read.value);
      have += read.value.length;
      while (have >= need) {
        const all = joinedBytes(parts);
        parts = [all];
        need = LENGTH_BYTES + new DataView(all.buffer, all.byteOffset).getUint32(0, true);
        if (have < need) break;
        yield all.subarray(LENGTH_BYTES, need);
        parts = have > need ? [all.subarray(need)] : [];
        have -= need;
        need = LENGTH_BYTES;
      }
    }
  } finally {
    await reader.cancel();
  }
}
