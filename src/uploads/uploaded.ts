/**
 * Names of a run's files on two hosts, if its host shares no disk with the daemon. Pure. The daemon
 * keeps an attempt's files separate, so that no other attempt can overwrite them.
 */
import { RunFiles } from "../base/layout.ts";

const MAX_PATH = 2000;
const MAX_NAME = 180;
const MAX_DEPTH = 16;

/**
 * Control files of an attempt's proxy that are uploaded: the beginning of its journal, and that its
 * lease was over.
 */
export function controlFiles(files: RunFiles, attempt: number): string[] {
  return [files.journalShift(attempt), files.leaseEnd(attempt)].map((path) =>
    path.slice(files.directory.length + 1)
  );
}

/**
 * The attempt's logs, relative to the run's directory. They grow; all other files are uploaded when
 * they are complete.
 */
export function logFiles(files: RunFiles, attempt: number): string[] {
  return [files.stdout(attempt), files.stderr(attempt)].map((path) =>
    path.slice(files.directory.length + 1)
  );
}

/** Whether the name is that of a hidden file, or of one that is still being written. */
export function isLeftOut(name: string): boolean {
  return name.startsWith(".") || /\.(tmp|part|partial|incomplete)$/.test(name);
}

/**
 * Where the daemon stores a file of an attempt, relative to the run's directory. Files of later
 * attempts are in a directory of their own below the first one: `videos/a.mp4` of attempt 2 is
 * `videos/attempt-2/a.mp4`.
 * @param path relative to the run's directory on the attempt's host
 * @returns undefined for a path that an attempt must not write
 */
export function storedPath(workerId: string, attempt: number, path: string): string | undefined {
  const files = new RunFiles("/run", workerId);
  if (controlFiles(files, attempt).includes(path) || logFiles(files, attempt).includes(path)) {
    return path;
  }
  const parts = path.split("/");
  const isFit = (part: string) =>
    part !== "" && part.length <= MAX_NAME && !isLeftOut(part) && !/[\n\0]/.test(part);
  if (
    path.length > MAX_PATH || parts.length > MAX_DEPTH || !parts.every(isFit) || parts[0] === "logs"
  ) {
    return undefined;
  }
  const of = /^attempt-(\d+)$/.exec(parts.length > 1 ? parts[parts.length > 2 ? 1 : 0]! : "")?.[1];
  if (of !== undefined) return Number(of) === attempt ? path : undefined;
  if (attempt === 1) return path;
  const [first, ...rest] = parts;
  return rest.length === 0
    ? `attempt-${attempt}/${first}`
    : [first, `attempt-${attempt}`, ...rest].join("/");
}

/** The name of an attempt's directory on a host that does not share the daemon's disk. */
export function nodeRunName(runId: string, attempt: number): string {
  return `${runId}.${attempt}`;
}

/**
 * A path as a worker on the other host names it, relative to its run's directory: it may be
 * absolute, and only the run's host knows that directory's path.
 */
export function withinRun(runId: string, attempt: number, path: string): string | undefined {
  if (!path.startsWith("/")) return path.replace(/^(\.\/)+/, "");
  for (const name of [nodeRunName(runId, attempt), runId]) {
    const at = path.indexOf(`/${name}/`);
    if (at >= 0) return path.slice(at + name.length + 2);
  }
  return undefined;
}
