/** Whether another process holds the exclusive lock of a file; the check briefly takes a shared lock. */
export function isLocked(path: string): boolean {
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true });
  } catch {
    return false;
  }
  try {
    return !file.tryLockSync(false);
  } finally {
    file.close();
  }
}
