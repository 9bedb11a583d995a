/**
 * Small file systems that a test may fill; a state directory with some of its directories on them.
 */
import { statfsSync } from "node:fs";
import { Layout } from "../../../src/base/layout.ts";

function command(program: string, ...args: string[]): boolean {
  try {
    return new Deno.Command(program, { args, stdin: "null", stdout: "null", stderr: "null" })
      .outputSync().success;
  } catch {
    return false;
  }
}

/**
 * Whether this user may mount here. Says so aloud where not: the tests that need it prove nothing
 * then.
 */
function mayMount(): boolean {
  const probe = Deno.makeTempDirSync();
  const may = command("mount", "-t", "tmpfs", "-o", "size=64k", "none", probe) &&
    command("umount", probe);
  Deno.removeSync(probe);
  if (!may) console.log("NOT ALLOWED HERE: no file system can be mounted, so no disk is filled");
  return may;
}

/** An error that ends the whole test file skips what its tests dispose of. */
const mounted = new Set<SmallDisk>();
addEventListener("unload", () => {
  for (const { path } of mounted) command("umount", "-l", path);
});

export class SmallDisk implements Disposable {
  readonly path: string;
  readonly #filler: string;

  constructor(path: string, size: string) {
    this.path = path;
    this.#filler = `${path}/.filler`;
    Deno.mkdirSync(path, { recursive: true, mode: 0o700 });
    if (!command("mount", "-t", "tmpfs", "-o", `size=${size},mode=700`, "none", path)) {
      throw new Error(`no tmpfs could be mounted on ${path}`);
    }
    mounted.add(this);
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.path);
    return bavail * bsize;
  }

  /** Fills it up, but for so many bytes. */
  fill(leave = 0): void {
    const file = Deno.openSync(this.#filler, { write: true, create: true });
    try {
      file.seekSync(0, Deno.SeekMode.End);
      for (const size of [1 << 20, 1 << 16, 4096]) {
        const chunk = new Uint8Array(size);
        while (this.freeBytes >= leave + size) file.writeSync(chunk);
      }
    } finally {
      file.close();
    }
  }

  free(): void {
    Deno.removeSync(this.#filler);
  }

  remount(how: "ro" | "rw"): void {
    if (!command("mount", "-o", `remount,${how}`, this.path)) {
      throw new Error(`${this.path} cannot be made ${how}`);
    }
  }

  [Symbol.dispose](): void {
    // At once, whoever still looks at it.
    if (!command("umount", "-l", this.path)) throw new Error(`${this.path} cannot be unmounted`);
    mounted.delete(this);
  }
}

/** A state directory of the test's own, with small disks in it. */
export class Stage implements Disposable {
  readonly stateDir = Deno.makeTempDirSync({ prefix: "mosaic-disk-" });
  readonly layout = new Layout(this.stateDir);
  readonly #disks = new DisposableStack();

  disk(path: string, size: string): SmallDisk {
    return this.#disks.use(new SmallDisk(path, size));
  }

  /** Undefined where nothing may be mounted. */
  diskIfAllowed(path: string, size: string): SmallDisk | undefined {
    return allowed ? this.disk(path, size) : undefined;
  }

  [Symbol.dispose](): void {
    this.#disks.dispose();
    Deno.removeSync(this.stateDir, { recursive: true });
  }
}

const allowed = mayMount();

/**
 * A test that gets a state directory; passes without having proven anything where nothing may be
 * mounted.
 */
export function diskTest(name: string, work: (stage: Stage) => void | Promise<void>): void {
  Deno.test(name, async () => {
    if (!allowed) return;
    using stage = new Stage();
    await work(stage);
  });
}
