/**
 * The file behind an open database. Somebody may remove it or put another in its place (`rm`, a backup that is restored):
 * SQLite writes on into the file that it has open, which nobody will find again.
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

  /** What is at its path now; "same" also where that cannot be asked. */
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
