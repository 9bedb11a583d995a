/** Decides which run owns a file in a place where several runs may write. Pure. */
import type { FoundFile } from "./discovery.ts";
import type { OwnState } from "./own_source.ts";

export interface FileFacts {
  place: FoundFile["place"];
  /** It is in the working directory of another run, which is below this run's. */
  isBelow: boolean;
  /** A process of the worker was seen to write it. */
  isOpen: boolean;
  /** It was created after the worker's start. */
  isNew: boolean;
  /** The process in its name; undefined if the name contains none of this host. */
  pid: number | undefined;
  /**
   * It is in a directory that was made since, and a file there is the worker's by its descriptors
   * or its process.
   */
  isBeside?: boolean;
}

/** "unknown": it may belong to the worker or to another run. */
export function ownerOf(
  { place, isBelow, isOpen, isNew, pid, isBeside = false }: FileFacts,
  { shared, others, pids, inner }: Pick<OwnState, "shared" | "others" | "pids" | "inner">,
): "worker" | "unknown" | "other" {
  if (place === "run" || place === "requested" || isOpen) return "worker";
  if (!isNew) return "other";
  if (pid !== undefined && pids?.includes(pid)) return "worker";
  if (isBelow) return "other";
  if (isBeside && pid === undefined) return "worker";
  const isAlone = !shared && (place === "cwd" || !others);
  if (isAlone) return "worker";
  // Processes in other sandboxes may have the same pids.
  return pid === undefined || inner?.includes(pid) ? "unknown" : "other";
}
