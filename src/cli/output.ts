/** The two outputs of a verb: data on stdout, messages on stderr. */

/** Thrown when the reader of stdout is gone (`| head`): the verb ends, quietly and well. */
export class ReaderGone extends Error {
  override readonly name = "ReaderGone";
}

export interface Output {
  /** Text as it is; newlines are the caller's. */
  write(text: string): void;
  /** Bytes as they are. */
  writeBytes(bytes: Uint8Array): void;
}

const encoder = new TextEncoder();

/** All of it is written before it returns: the kernel's pipe is the only queue, so a slow reader slows the writer. */
export function fileOutput(file: { writeSync(p: Uint8Array): number }): Output {
  const writeBytes = (bytes: Uint8Array) => {
    try {
      for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
    } catch (error) {
      if (error instanceof Deno.errors.BrokenPipe) throw new ReaderGone();
      throw error;
    }
  };
  return { write: (text) => writeBytes(encoder.encode(text)), writeBytes };
}
