/**
 * Files of a run for the page: only plain ones, only inside the run's directory or, by reference,
 * its working directory, regardless of links that a worker creates. The first bytes decide the
 * type: videos, audio and images are shown in place, everything else is a download. The response's
 * policy forbids a file that is opened as a document to run or load anything.
 */
import type { Core, RunDetail } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import { planOf } from "../../config/plan.ts";
import { isWorkersOwn, requireOfRun } from "../../os/files/run_owner.ts";
import { openRegular, type RegularFile } from "../../os/files/untrusted.ts";
import type { ServedFile } from "../../os/files/untrusted_elsewhere.ts";
import { mediaType } from "../../readers/format/media_type.ts";
import { byteRange, isSameContent } from "../http/byte_range.ts";

const FILE_POLICY = "default-src 'none'; img-src 'self'; media-src 'self'; sandbox";
/** Enough to recognize each type. */
const SIGNATURE_BYTES = 16;

/**
 * The plain file at `path` below a directory; undefined if there is none. @param path relative,
 * without ".." @throws `permission_denied` for anything but a plain file, and behind any link
 */
export function openWithin(directory: string, path: string): RegularFile | undefined {
  return openRegular(`${directory}/${path}`, directory);
}

/**
 * An artifact by reference is outside of the run's directory, and a worker chose its path. So it is
 * opened only below the run's working directory, and sent only if the worker's user owns it, or if
 * it is a video, audio or an image. Where the daemon's own permissions end, a helper opens it by
 * the same rules.
 */
async function openReferred(detail: RunDetail, path: string): Promise<ServedFile | undefined> {
  const directory = planOf(detail.row.configJson).worker.cwd || Deno.cwd();
  const inside = path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : "";
  if (inside === "" || inside.split("/").includes("..")) {
    throw new MosaicError(
      "permission_denied",
      `"${path}" is not in the run's working directory ${directory}`,
      {
        hint:
          "mosaic sends no other file by reference; copy it on the host itself, or let the run write to its own directory.",
      },
    );
  }
  let file: ServedFile | undefined;
  try {
    file = served(openWithin(directory, inside));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    const { openElsewhere } = await import("../../os/files/untrusted_elsewhere.ts");
    file = await openElsewhere(directory, inside);
  }
  if (
    file === undefined || mediaType(file.beginning) !== "" || isWorkersOwn(file, detail.directory)
  ) return file;
  file.close();
  throw new MosaicError(
    "permission_denied",
    `"${path}" is no film, sound or picture, and not its worker's own file`,
    {
      hint:
        "mosaic sends no such file from outside of a run's directory; copy it on the host itself.",
    },
  );
}

function served(file: RegularFile | undefined): ServedFile | undefined {
  if (file === undefined) return undefined;
  try {
    const { size, ino, mtimeMs, uid, gid, mode } = file.stat();
    const beginning = new Uint8Array(SIGNATURE_BYTES);
    return {
      ...{ size, ino, mtimeMs, uid, gid, mode },
      beginning: beginning.subarray(0, file.readSync(0, beginning)),
      readable: (begin, end) => file.readable(begin, end),
      close: () => file.close(),
    };
  } catch (error) {
    file.close();
    throw error;
  }
}

async function opened(core: Core, detail: RunDetail, path: string): Promise<ServedFile> {
  const artifact = core.runs.artifacts(detail.row.runId).find((a) => a.path === path);
  if (artifact === undefined) {
    throw new MosaicError("not_found", `the run has no artifact "${path}"`);
  }
  const file = path.startsWith("/")
    ? await openReferred(detail, path)
    : served(openWithin(detail.directory, path));
  if (file === undefined) {
    throw new MosaicError("not_found", `the artifact "${path}" is recorded, but its file is gone`);
  }
  requireOfRun(file, path.startsWith("/") ? path : `${detail.directory}/${path}`, detail.directory);
  return file;
}

/** A recorded artifact, or the requested part of it. @throws `not_found` */
export async function artifactResponse(
  core: Core,
  detail: RunDetail,
  path: string,
  request: Request,
): Promise<Response> {
  const file = await opened(core, detail, path);
  try {
    const response = answer(file, path, request);
    if (response.body === null) file.close();
    return response;
  } catch (error) {
    file.close();
    throw error;
  }
}

function answer(
  file: ServedFile,
  path: string,
  { method, headers: requestHeaders }: Request,
): Response {
  const { size, ino, mtimeMs } = file;
  const type = mediaType(file.beginning);
  const changedAt = new Date(mtimeMs);
  const etag = `"${ino.toString(36)}-${size.toString(36)}-${
    Math.trunc(mtimeMs * 1000).toString(36)
  }"`;
  const name = encodeURIComponent(path.split("/").at(-1)!);
  const headers: Record<string, string> = {
    "content-type": type || "application/octet-stream",
    "content-disposition": `${type === "" ? "attachment" : "inline"}; filename*=UTF-8''${name}`,
    "content-security-policy": FILE_POLICY,
    "accept-ranges": "bytes",
    "cache-control": "private, no-cache",
    "last-modified": changedAt.toUTCString(),
    etag,
  };
  if (requestHeaders.get("if-none-match") === etag) {
    return new Response(null, { status: 304, headers });
  }
  const range = isSameContent(requestHeaders.get("if-range"), etag, changedAt)
    ? byteRange(requestHeaders.get("range"), size)
    : undefined;
  if (range === "unsatisfiable") {
    const body = { error: { code: "out_of_range", message: `the artifact has ${size} bytes` } };
    file.close();
    return Response.json(body, { status: 416, headers: { "content-range": `bytes */${size}` } });
  }
  const { begin, end } = range ?? { begin: 0, end: size };
  if (range !== undefined) headers["content-range"] = `bytes ${begin}-${end - 1}/${size}`;
  headers["content-length"] = String(end - begin);
  const body = method === "HEAD" ? null : file.readable(begin, end);
  return new Response(body, { status: range === undefined ? 200 : 206, headers });
}
