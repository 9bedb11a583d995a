/** undefined where there is no such file. */
export function statOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** Unix milliseconds, whole. */
export function changedAt(info: Deno.FileInfo): number {
  return Math.floor(info.mtime?.getTime() ?? 0);
}

/** When it was created, if the file system records that; else when it was changed. */
export function begunAt(info: Deno.FileInfo): number {
  return info.birthtime?.getTime() ?? changedAt(info);
}
