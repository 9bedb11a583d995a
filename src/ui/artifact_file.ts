/** Downloads of artifacts: only files that are recorded as one, and only inside the run's directory. */
import type { Core, RunDetail } from "../core/core.ts";
import { MosaicError } from "../errors.ts";

export async function artifactResponse(core: Core, detail: RunDetail, path: string): Promise<Response> {
  const artifact = core.artifacts(detail.row.runId).find((a) => a.path === path);
  if (artifact === undefined) throw new MosaicError("not_found", `the run has no artifact "${path}"`);
  let file: Deno.FsFile;
  try {
    const directory = await Deno.realPath(detail.directory);
    const real = await Deno.realPath(`${directory}/${path}`);
    if (!real.startsWith(`${directory}/`)) {
      throw new MosaicError("permission_denied", `the artifact "${path}" leads out of the run's directory`);
    }
    file = await Deno.open(real);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      throw new MosaicError("not_found", `the artifact "${path}" is recorded, but its file is gone`);
    }
    throw error;
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
