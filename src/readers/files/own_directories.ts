/**
 * Directories in which the worker writes, as its descriptors and processes show: files there that
 * show nothing themselves (pictures, models, a table that is opened for each row) are the worker's,
 * too.
 */
import type { FoundFile } from "./discovery.ts";

const MAX_DIRECTORIES = 1000;
const directoryOf = (path: string) => path.slice(0, path.lastIndexOf("/")) || "/";

export class OwnDirectories {
  readonly #own = new Set<string>();
  /** Directories with a file that names a process which is not known to be the worker's. */
  readonly #mixed = new Set<string>();
  /** Directories in which a process of another run writes. */
  readonly #others = new Set<string>();

  /**
   * A file that is the worker's. In a place of all programs its experiment is the topmost directory
   * there (`~/ray_results/EXPERIMENT/TRIAL`); in a working directory, where `runs/` may be of
   * several, it is the file's own.
   */
  add(path: string, root: string, place: FoundFile["place"]): void {
    addExperiment(this.#own, path, root, place);
  }

  addMixed(path: string): void {
    if (this.#mixed.size < MAX_DIRECTORIES) this.#mixed.add(directoryOf(path));
  }

  /**
   * A file that a process of another run has written: its directory, in a place of all programs its
   * experiment.
   */
  addOthers(path: string, root: string, place: FoundFile["place"]): void {
    addExperiment(this.#others, path, root, place);
  }

  /** Whether another run writes there. */
  isOthers(path: string): boolean {
    if (this.#others.size === 0) return false;
    for (let at = directoryOf(path); at.length > 1; at = directoryOf(at)) {
      if (this.#others.has(at)) return true;
    }
    return false;
  }

  /** @param isNew whether a directory was made since the worker's start */
  has(path: string, isNew: (directory: string) => boolean): boolean {
    if (this.#own.size === 0 || this.#mixed.has(directoryOf(path))) return false;
    for (let at = directoryOf(path); at.length > 1; at = directoryOf(at)) {
      if (this.#own.has(at)) return isNew(at);
    }
    return false;
  }
}

function addExperiment(
  to: Set<string>,
  path: string,
  root: string,
  place: FoundFile["place"],
): void {
  const top = path.slice(root.length + 1).split("/", 1)[0]!;
  const directory = place === "common" ? `${root}/${top}` : directoryOf(path);
  if (directory === root || directory === path || to.size >= MAX_DIRECTORIES) return;
  to.add(directory);
}
