/** Whose file it is that lies where several runs may write. Pure. */
import type { FoundFile } from "./discovery.ts";
import type { OwnState } from "./own_source.ts";

export interface FileFacts {
  place: FoundFile["place"];
  /** A process of the worker was seen to write it. */
  isOpen: boolean;
  /** It was begun since the worker was started. */
  isBegun: boolean;
  /** The process that its name tells; undefined where it tells none of this host. */
  pid: number | undefined;
}

/** "unknown": it may be the worker's and may be another run's. */
export function ownerOf(
  { place, isOpen, isBegun, pid }: FileFacts,
  { shared, others, pids, inner }: Pick<OwnState, "shared" | "others" | "pids" | "inner">,
): "worker" | "unknown" | "other" {
  if (place === "run" || place === "asked" || isOpen) return "worker";
  if (!isBegun) return "other";
  const isAlone = !shared && (place === "cwd" || !others);
  if (isAlone || (pid !== undefined && pids?.includes(pid))) return "worker";
  // Processes of other sandboxes have the same numbers within them.
  return pid === undefined || inner?.includes(pid) ? "unknown" : "other";
}
