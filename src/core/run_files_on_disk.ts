/** How much disk a run's own files take, and their removal. */
import type { Layout } from "../layout.ts";
import type { RunRow } from "../registry/types.ts";
import { messageOf, MosaicError } from "../errors.ts";

/** Bytes of all files below a directory; links are not followed. */
export function directoryBytes(path: string): number {
  let total = 0;
  const look = (directory: string) => {
    let entries: Deno.DirEntry[];
    try {
      entries = [...Deno.readDirSync(directory)];
    } catch {
      return;
    }
    for (const entry of entries) {
      const full = `${directory}/${entry.name}`;
      if (entry.isDirectory) look(full);
      else if (entry.isFile) total += sizeOf(full);
    }
  };
  look(path);
  return total;
}

function sizeOf(path: string): number {
  try {
    return Deno.lstatSync(path).size;
  } catch {
    return 0;
  }
}

/** Removes a run's directory and configs. @returns the bytes given back */
export async function removeRunFiles(layout: Layout, row: RunRow): Promise<number> {
  const directory = layout.runDir(row.baseDir, row.runId);
  const configs = [layout.configFile(row.runId), layout.workerConfigFile(row.runId, row.workerId)];
  const freed = directoryBytes(directory) + configs.reduce((sum, path) => sum + sizeOf(path), 0);
  for (const path of [directory, ...configs]) {
    try {
      await Deno.remove(path, { recursive: path === directory });
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) continue;
      throw new MosaicError("failed_precondition", `${path} cannot be removed: ${messageOf(error)}`, { cause: error });
    }
  }
  return freed;
}
