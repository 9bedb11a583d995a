/** Files of a run for the page: only plain ones, only inside the run's directory, whatever links a worker puts there. */
import type { Core, RunDetail } from "../dispatch/core/core.ts";
import { MosaicError } from "../base/errors.ts";
import { openRegular, type RegularFile } from "../os/untrusted.ts";

/**
 * The plain file at `path` below a run's directory; undefined when there is none.
 *
 * @param path relative, without ".."
 * @throws `permission_denied` for what is no plain file, and behind any link
 */
export function openWithin(directory: string, path: string): RegularFile | undefined {
  const file = openRegular(`${directory}/${path}`, directory);
  if (file === undefined) return undefined;
  try {
    file.requireBelow(directory);
    return file;
  } catch (error) {
    file.close();
    throw error;
  }
}

/** A download of a recorded artifact. @throws `not_found` */
export function artifactResponse(core: Core, detail: RunDetail, path: string): Response {
  const artifact = core.runs.artifacts(detail.row.runId).find((a) => a.path === path);
  if (artifact === undefined) throw new MosaicError("not_found", `the run has no artifact "${path}"`);
  const file = openWithin(detail.directory, path);
  if (file === undefined) {
    throw new MosaicError("not_found", `the artifact "${path}" is recorded, but its file is gone`);
  }
  const { size } = file.stat();
  const name = path.split("/").at(-1)!;
  return new Response(file.readable(size), {
    headers: {
      "content-type": "application/octet-stream",
      "content-length": String(size),
      "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
    },
  });
}
