/**
 * Files of a run for the page: only plain ones, only inside the run's directory or, by reference, its working directory,
 * regardless of links that a worker creates. The first bytes decide the type: videos, audio and images are shown in place,
 * everything else is a download. The response's policy forbids a file that is opened as a document to run or load anything.
 */
import type { Core, RunDetail } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import { planOf } from "../../config/plan.ts";
import { requireOfRun } from "../../os/files/run_owner.ts";
import { openRegular, type RegularFile } from "../../os/files/untrusted.ts";
import { explainMissing } from "../../permissions/missing.ts";
import { mediaType } from "../../readers/format/media_type.ts";
import { byteRange, isSameContent } from "../http/byte_range.ts";

const FILE_POLICY = "default-src 'none'; img-src 'self'; media-src 'self'; sandbox";
/** Enough to recognize each type. */
const SIGNATURE_BYTES = 16;

/**
 * The plain file at `path` below a directory; undefined if there is none. @param path relative, without ".." @throws
 * `permission_denied` for anything but a plain file, and behind any link
 */
export function openWithin(directory: string, path: string): RegularFile | undefined {
  return openRegular(`${directory}/${path}`, directory);
}

/**
 * An artifact by reference is outside of the run's directory, and a worker chose its path. So it is opened only below the
 * run's working directory, sent only if it is a video, audio or an image, and, if the worker has a user of its own, only if
 * that user owns it.
 */
function openReferred(detail: RunDetail, path: string): RegularFile | undefined {
  const directory = planOf(detail.row.configJson).worker.cwd || Deno.cwd();
  const inside = path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : "";
  if (inside === "" || inside.split("/").includes("..")) {
    throw new MosaicError("permission_denied", `"${path}" is not in the run's working directory ${directory}`, {
      hint: "mosaic sends no other file by reference; copy it on the host itself.",
    });
  }
  try {
    return openWithin(directory, inside);
  } catch (error) {
    throw explainMissing(error);
  }
}

function opened(core: Core, detail: RunDetail, path: string): RegularFile {
  const artifact = core.runs.artifacts(detail.row.runId).find((a) => a.path === path);
  if (artifact === undefined) throw new MosaicError("not_found", `the run has no artifact "${path}"`);
  const file = path.startsWith("/") ? openReferred(detail, path) : openWithin(detail.directory, path);
  if (file === undefined) {
    throw new MosaicError("not_found", `the artifact "${path}" is recorded, but its file is gone`);
  }
  requireOfRun(file, path.startsWith("/") ? path : `${detail.directory}/${path}`, detail.directory);
  return file;
}

/** A recorded artifact, or the requested part of it. @throws `not_found` */
export function artifactResponse(core: Core, detail: RunDetail, path: string, request: Request): Response {
  const file = opened(core, detail, path);
  try {
    const response = answer(file, path, request);
    if (response.body === null) file.close();
    return response;
  } catch (error) {
    file.close();
    throw error;
  }
}

function answer(file: RegularFile, path: string, { method, headers: requestHeaders }: Request): Response {
  const { size, ino, mtimeMs } = file.stat();
  const beginning = new Uint8Array(SIGNATURE_BYTES);
  const type = mediaType(beginning.subarray(0, file.readSync(0, beginning)));
  if (type === "" && path.startsWith("/")) {
    throw new MosaicError("permission_denied", `"${path}" is no film, sound or picture by its first bytes`, {
      hint: "mosaic sends no other file from outside of a run's directory; copy it on the host itself.",
    });
  }
  const changedAt = new Date(mtimeMs);
  const etag = `"${ino.toString(36)}-${size.toString(36)}-${Math.trunc(mtimeMs * 1000).toString(36)}"`;
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
  if (requestHeaders.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
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
