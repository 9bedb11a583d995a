/**
 * The module `mosaic` for programs in Python: one file, printed by `mosaic python-helper` and put
 * on the workers' path.
 */
import { readTextIfThere, writeFileAtomic } from "./files/files.ts";
import text from "./python_helper/mosaic.py" with { type: "text" };

export const PYTHON_HELPER: string = text;

/**
 * Writes it into a directory for PYTHONPATH. A worker that imports it meanwhile gets the old or the
 * new file, complete.
 */
export function installPythonHelper(directory: string): void {
  Deno.mkdirSync(directory, { recursive: true });
  const path = `${directory}/mosaic.py`;
  if (readTextIfThere(path) !== PYTHON_HELPER) writeFileAtomic(path, PYTHON_HELPER);
  // Independent of the daemon's umask, because workers may have users of their own.
  Deno.chmodSync(directory, 0o755);
  Deno.chmodSync(path, 0o644);
}
