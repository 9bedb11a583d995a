/** When a file was made and changed, in Unix milliseconds. */

/** Whole milliseconds. */
export function changedAt(info: Deno.FileInfo): number {
  return Math.floor(info.mtime?.getTime() ?? 0);
}

/** When it was made, where the file system tells; else when it was changed. */
export function createdAt(info: Deno.FileInfo): number {
  return info.birthtime?.getTime() ?? changedAt(info);
}
