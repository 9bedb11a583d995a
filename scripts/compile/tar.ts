/**
 * A tar archive (ustar) of small files whose bytes depend on nothing but their names and contents.
 */
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";

export interface ArchivedFile {
  /** At most 100 bytes. */
  name: string;
  bytes: Uint8Array;
}

const BLOCK = 512;

export function tarOf(files: readonly ArchivedFile[]): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (const { name, bytes } of files.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    blocks.push(
      header(name, bytes.length),
      bytes,
      new Uint8Array((BLOCK - bytes.length % BLOCK) % BLOCK),
    );
  }
  blocks.push(new Uint8Array(2 * BLOCK));
  return joinedBytes(blocks);
}

function header(name: string, size: number): Uint8Array {
  const encoder = new TextEncoder();
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => block.set(encoder.encode(text), at);
  if (encoder.encode(name).length > 100) {
    throw new Error(`${name} is too long a name for the archive`);
  }
  put(0, name);
  put(100, "0000600\0");
  put(108, "0000000\0");
  put(116, "0000000\0");
  put(124, `${size.toString(8).padStart(11, "0")}\0`);
  put(136, `${"0".repeat(11)}\0`);
  put(148, " ".repeat(8));
  put(156, "0");
  put(257, "ustar\x0000");
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}
