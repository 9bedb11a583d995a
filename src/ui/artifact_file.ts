/** Files of a run for the page: only plain ones, only inside the run's directory, whatever links a worker puts there. */
import type { Core, RunDetail } from "../dispatch/core/core.ts";
import { MosaicError } from "../base/errors.ts";

/**
 * The plain file at `path` below a run's directory; undefined when there is none.
 *
 * @throws `permission_denied` when a link leads out of the directory, or to what is no plain file
 */
export async function openWithin(directory: string, path: string): Promise<Deno.FsFile | undefined> {
  try {
    const root = await Deno.realPath(directory);
    const real = await Deno.realPath(`${root}/${path}`);
    if (!real.startsWith(`${root}/`)) {
      throw new MosaicError("permission_denied", `"${path}" leads out of the run's directory`);
    }
    // A named pipe would be waited for without end.
    if (!(await Deno.lstat(real)).isFile) throw new MosaicError("permission_denied", `"${path}" is no plain file`);
    return await Deno.open(real);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** A download of a recorded artifact. @throws `not_found` */
export async function artifactResponse(core: Core, detail: RunDetail, path: string): Promise<Response> {
  const artifact = core.artifacts(detail.row.runId).find((a) => a.path === path);
  if (artifact === undefined) throw new MosaicError("not_found", `the run has no artifact "${path}"`);
  const file = await openWithin(detail.directory, path);
  if (file === undefined) {
    throw new MosaicError("not_found", `the artifact "${path}" is recorded, but its file is gone`);
  }
  const { size } = await file.stat();
  const name = path.split("/").at(-1)!;
  return new Response(file.readable, {
    headers: {
      "content-type": "application/octet-stream",
      "content-length": String(size),
      "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
    },
  });
}
