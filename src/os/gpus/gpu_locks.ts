/**
 * Which daemon of this host gives a card to runs: a lock (flock) of a file for each card, in a
 * directory that all of the host's daemons use. It is only asked for, and the kernel releases it
 * when its holder dies. Users share the directory, as they share /tmp: a file is made with O_EXCL
 * and else opened for reading only, and nothing is ever written into it.
 */
import { messageOf } from "../../base/errors.ts";
import { hostEnvironment } from "../processes/environment.ts";
import { runProgram } from "../processes/external_program.ts";

/** For a directory on a file system that is away, or a FIFO in the place of a file. */
const LIMIT_MS = 2000;

interface Open {
  file: Deno.FsFile;
  dev: number;
  ino: number;
  held: boolean;
}

export class GpuLocks implements Disposable {
  readonly #directory: string;
  readonly #open = new Map<string, Open>();
  /** Why cards cannot be locked; "" if they can. */
  #problem = "";

  constructor(directory: string) {
    this.#directory = directory;
  }

  get problem(): string {
    return this.#problem;
  }

  /** Opens the files of these cards, also of those whose file somebody has removed. */
  async look(uuids: readonly string[]): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) =>
      timer = setTimeout(() => reject(new Error("it does not answer")), LIMIT_MS)
    );
    try {
      await Promise.race([this.#openAll(uuids), late]);
      this.#problem = "";
    } catch (error) {
      this.#problem = `${this.#directory}: ${messageOf(error)}`;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @returns false if another process has it; a card whose file is not open counts as locked */
  lock(uuid: string): boolean {
    const open = this.#open.get(uuid);
    if (open === undefined || open.held) return true;
    open.held = open.file.tryLockSync(true);
    return open.held;
  }

  unlock(uuid: string): void {
    const open = this.#open.get(uuid);
    if (open === undefined || !open.held) return;
    open.file.unlockSync();
    open.held = false;
  }

  isLockedByOther(uuid: string): boolean {
    const open = this.#open.get(uuid);
    if (open === undefined || open.held) return false;
    const isFree = open.file.tryLockSync(false);
    if (isFree) open.file.unlockSync();
    return !isFree;
  }

  /** Those of these cards that other processes have locked, with a pid if it may be known. */
  async lockedByOthers(uuids: readonly string[]): Promise<Map<string, number | undefined>> {
    const taken = uuids.filter((uuid) => this.isLockedByOther(uuid));
    if (taken.length === 0) return new Map();
    const pids = await holders();
    return new Map(taken.map((uuid) => [uuid, pids.get(this.#open.get(uuid)!.ino)]));
  }

  [Symbol.dispose](): void {
    for (const { file } of this.#open.values()) file.close();
    this.#open.clear();
  }

  async #openAll(uuids: readonly string[]): Promise<void> {
    await this.#makeDirectory();
    for (const uuid of uuids) {
      const path = `${this.#directory}/${uuid.replace(/[^\w-]/g, "_").slice(0, 200)}`;
      const open = this.#open.get(uuid);
      const there = await Deno.lstat(path).catch(absent);
      if (open !== undefined && there?.dev === open.dev && there.ino === open.ino) continue;
      if (there !== undefined && !there.isFile) throw new Error(`${path} is not a regular file`);
      const file = await Deno.open(path, { read: true, write: true, createNew: true, mode: 0o644 })
        .catch(async (error) => {
          if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
          return await Deno.open(path, { read: true });
        });
      const { dev, ino } = await file.stat();
      // The lock of a file that is not there any more protects nothing.
      const held = open?.held === true && file.tryLockSync(true);
      this.#open.set(uuid, { file, dev, ino: ino!, held });
      open?.file.close();
    }
  }

  /** Any user of the host may make files in it, and remove only own ones. */
  async #makeDirectory(): Promise<void> {
    const there = await Deno.lstat(this.#directory).catch(absent);
    // A link could lead a daemon of root into any directory.
    if (there?.isDirectory === false) throw new Error("it is not a directory");
    if (there !== undefined) return;
    try {
      await Deno.mkdir(this.#directory);
      await Deno.chmod(this.#directory, 0o1777);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}

function absent(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

/** Who holds locks, by inode. */
async function holders(): Promise<Map<number, number>> {
  try {
    const { stdout } = await runProgram(["/bin/sh", "-c", "cat /proc/locks"], {
      env: hostEnvironment(),
      limitMs: LIMIT_MS,
    });
    return new Map(
      stdout.split("\n").flatMap((line) => {
        const [, pid, ino] = /^\d+: FLOCK .{0,40}? (\d+) [\da-f]+:[\da-f]+:(\d+) /.exec(line) ?? [];
        return pid === undefined ? [] : [[Number(ino), Number(pid)] as const];
      }),
    );
  } catch {
    // The text is then without the pid.
    return new Map();
  }
}
