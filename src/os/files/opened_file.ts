/**
 * The file behind an open database. If somebody removes or replaces it (`rm`, a restored backup),
 * SQLite continues to write into the open file, and the writes are lost.
 */
export class OpenedFile {
  readonly path: string;
  readonly #inode: string | undefined;

  /** @param path of a file that was just opened */
  constructor(path: string) {
    this.path = path;
    try {
      this.#inode = inodeAt(path);
    } catch (error) {
      // A database in memory has no file.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  /** The state of its path; "same" also if that cannot be determined. */
  check(): "same" | "removed" | "replaced" {
    if (this.#inode === undefined) return "same";
    try {
      return inodeAt(this.path) === this.#inode ? "same" : "replaced";
    } catch (error) {
      return error instanceof Deno.errors.NotFound ? "removed" : "same";
    }
  }
}

function inodeAt(path: string): string {
  const { dev, ino } = Deno.statSync(path);
  return `${dev}:${ino}`;
}
