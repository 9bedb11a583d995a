/**
 * Every external program that is waited for runs here, with a time limit. A program that is stuck
 * in a driver or on a network file system ignores SIGTERM, may not end even on SIGKILL, and then
 * cannot be waited for: the wait is given up, too. While it exists no second one is started, so
 * that stuck processes do not pile up.
 */
import { processRef } from "./identity.ts";
import { underShell } from "./shell.ts";
import { signalGroup } from "./signals.ts";

/** From SIGTERM to SIGKILL, and from there to giving up the wait. */
const PATIENCE_MS = 1000;
const SCRIPT_MS = 30_000;
/** Of standard output, and of standard error. */
const MOST_BYTES = 64 << 20;

export interface ProgramOptions {
  /** Its whole environment. */
  env: Record<string, string>;
  cwd?: string;
  /** It gets SIGTERM after this time. The call ends at most two seconds later. */
  limitMs: number;
  /** Gives it up earlier. */
  signal?: AbortSignal | undefined;
  /** Its standard input; absent: empty. */
  stdin?: Uint8Array;
  /**
   * It leads a session of its own, and its whole group is signalled: for programs that start
   * others.
   */
  group?: boolean;
}

export interface ProgramOutput {
  /** 127: there is no such program; 126: it is not executable. */
  code: number;
  signal: Deno.Signal | null;
  stdout: string;
  stderr: string;
}

/** The program has not ended in its time, or one that has not ended before is still there. */
export class ProgramLate extends Error {}

/** Programs that were given up and still exist, and since when. */
const stuck = new Map<string, Date>();

/** A program that does not read all of its input says by its exit code whether that was right. */
async function feed(child: Deno.ChildProcess, input: Uint8Array): Promise<void> {
  try {
    await new Blob([new Uint8Array(input)]).stream().pipeTo(child.stdin);
  } catch {
    // It has closed it.
  }
}

/** @throws ProgramLate @throws if no process can be created */
export async function runProgram(
  argv: readonly string[],
  options: ProgramOptions,
): Promise<ProgramOutput> {
  const { env, cwd, limitMs, signal, stdin, group = false } = options;
  const name = argv[0]!;
  const isScript = name === "/bin/sh";
  const key = argv.slice(0, isScript ? 3 : 1).join(" ");
  const since = stuck.get(key);
  if (since !== undefined) {
    throw new ProgramLate(
      `${name} was killed at ${since.toISOString()} and has still not ended, so it is not started again`,
    );
  }
  if (signal?.aborted) throw new ProgramLate(`${name} is not started any more`);
  const child = new Deno.Command("/bin/sh", {
    ...(isScript ? { args: argv.slice(1), env, clearEnv: true } : underShell(argv, env)),
    ...(cwd === undefined ? {} : { cwd }),
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
    detached: group,
  }).spawn();
  if (stdin !== undefined) void feed(child, stdin);
  const leader = group ? processRef(child.pid) : undefined;
  const kill = (how: "SIGTERM" | "SIGKILL") => {
    try {
      if (leader === undefined) child.kill(how);
      else signalGroup(leader, how);
    } catch {
      // It has ended, or is another user's (a set-uid program): the wait is given up all the same.
    }
  };
  const outputs = [new Collected(child.stdout), new Collected(child.stderr)];
  let status: Deno.CommandStatus | undefined;
  const exited = child.status.then((its) => void (status = its));
  const complete = Promise.all([exited, ...outputs.map(({ read }) => read)]);
  try {
    const cut = await within(limitMs, complete, signal);
    // A process that it has left behind may hold the pipes; what it said itself is complete.
    if (status === undefined || outputs.some(({ full }) => full)) {
      kill("SIGTERM");
      if (await within(PATIENCE_MS, exited)) kill("SIGKILL");
      if (await within(PATIENCE_MS, exited)) {
        stuck.set(key, new Date());
        child.unref();
        exited.finally(() => stuck.delete(key));
      }
      throw new ProgramLate(
        `${name} ${
          outputs.some(({ full }) => full)
            ? `printed more than ${MOST_BYTES >> 20} MiB`
            : cut === "aborted"
            ? "was ended before it had answered"
            : `has not answered in ${limitMs / 1000} s`
        }`,
      );
    }
    const [stdout, stderr] = outputs.map(({ text }) => text);
    return { code: status.code, signal: status.signal, stdout: stdout!, stderr: stderr! };
  } finally {
    for (const output of outputs) output.cancel();
  }
}

/**
 * Standard output of a script that takes milliseconds; undefined if it fails or hangs. `$0`, `$1` …
 * are `words`.
 */
export async function shellOutputLater(
  script: string,
  ...words: string[]
): Promise<string | undefined> {
  try {
    const { code, stdout } = await runProgram(["/bin/sh", "-c", script, ...words], {
      env: {},
      limitMs: SCRIPT_MS,
    });
    return code === 0 ? stdout : undefined;
  } catch (error) {
    if (error instanceof ProgramLate) return undefined;
    throw error;
  }
}

/** What has ended the wait; undefined: the work was done. */
async function within(
  ms: number,
  work: Promise<unknown>,
  signal?: AbortSignal,
): Promise<"late" | "aborted" | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let onAbort = () => {};
  const cut = new Promise<"late" | "aborted">((resolve) => {
    timer = setTimeout(() => resolve("late"), ms);
    onAbort = () => resolve("aborted");
    signal?.addEventListener("abort", onAbort);
  });
  try {
    return await Promise.race([cut, work.then(() => undefined)]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** The beginning of a stream, which may never end. */
class Collected {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  /** Settles at its end, or when it is cancelled. */
  readonly read: Promise<void>;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
    this.read = this.#all().catch(() => {});
  }

  get full(): boolean {
    return this.#bytes > MOST_BYTES;
  }

  get text(): string {
    const decoder = new TextDecoder();
    return this.#chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") +
      decoder.decode();
  }

  cancel(): void {
    this.#reader.cancel().catch(() => {});
  }

  async #all(): Promise<void> {
    while (!this.full) {
      const { value, done } = await this.#reader.read();
      if (done) return;
      this.#chunks.push(value);
      this.#bytes += value.length;
    }
  }
}
