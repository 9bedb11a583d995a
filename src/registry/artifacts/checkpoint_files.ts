/** The files of one checkpoint, in chunks, for another host that fetches them. */
import { sha256 } from "../../base/node_modules.ts";
import { MosaicError } from "../../base/errors.ts";
import { openRegular } from "../../os/files/untrusted.ts";
import { crc32c } from "../../base/crc32c.ts";
import { filesAt, relativeWithin } from "./run_directory.ts";
import { type Chunk, MOST_CHUNK_BYTES } from "../../uploads/take_uploads.ts";

const LIMITS = { maxFiles: 5000, maxDepth: 12 };

/**
 * @param directory the run's, absolute
 * @param checkpoint a file or a directory in it
 * @param has bytes of a file that the other side already has; all bytes of a file that it has
 * verified
 * @throws MosaicError `not_found` if there is no such checkpoint
 */
export async function* checkpointFiles(
  directory: string,
  checkpoint: string,
  has: (path: string) => number,
): AsyncGenerator<Chunk> {
  const path = relativeWithin(directory, checkpoint);
  let files = path === undefined ? [] : await filesAt(directory, path, LIMITS);
  if (path !== undefined && files.length === 0) {
    // The program may name it without the extension that its library adds.
    const beside = await filesAt(directory, path.slice(0, path.lastIndexOf("/")) || ".", {
      ...LIMITS,
      maxDepth: 1,
    });
    files = beside.filter((file) => file.path.startsWith(`${path}.`));
  }
  if (files.length === 0) {
    throw new MosaicError("not_found", `there is no checkpoint ${checkpoint} on the daemon's host`);
  }
  for (const { path, bytes: size, changedAt } of files) {
    if (size > 0 && has(path) === size) continue;
    using file = openRegular(`${directory}/${path}`, directory);
    if (file === undefined) throw new MosaicError("not_found", `the checkpoint's ${path} is gone`);
    const hash = sha256();
    const buffer = new Uint8Array(MOST_CHUNK_BYTES);
    for (let offset = 0; offset < size || size === 0;) {
      const read = await file.read(
        offset,
        buffer.subarray(0, Math.min(buffer.length, size - offset)),
      );
      if (read === 0 && size > 0) {
        throw new MosaicError("unavailable", `${path} became shorter while it was read`);
      }
      const data = buffer.subarray(0, read);
      hash.update(data);
      const isLast = offset + read >= size;
      if (offset >= has(path) || isLast) {
        yield {
          path,
          size,
          changedAt,
          offset,
          data,
          crc: crc32c(data),
          sha256: isLast ? hash.digest("hex") : "",
        };
      }
      offset += read;
      if (isLast) break;
    }
  }
}
