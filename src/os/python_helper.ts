/** The module `mosaic` for programs in Python: one file, printed by `mosaic python-helper` and put on the workers' path. */
import { readTextIfThere, writeFileAtomic } from "./files.ts";
import text from "./python_helper/mosaic.py" with { type: "text" };

export const PYTHON_HELPER: string = text;

/** Writes it into a directory for PYTHONPATH. A worker that imports it meanwhile finds the old one or the new one, whole. */
export function installPythonHelper(directory: string): void {
  Deno.mkdirSync(directory, { recursive: true });
  const path = `${directory}/mosaic.py`;
  if (readTextIfThere(path) !== PYTHON_HELPER) writeFileAtomic(path, PYTHON_HELPER);
  // Whatever the daemon's mask is: workers may have users of their own.
  Deno.chmodSync(directory, 0o755);
  Deno.chmodSync(path, 0o644);
}
