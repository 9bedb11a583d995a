/** A real daemon in a process of its own, for tests. */
import { V8_FLAGS } from "../../src/os/processes/heap.ts";
import { type ProcessRef, processRef } from "../../src/os/processes/identity.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { Layout } from "../../src/base/layout.ts";
import { killProcessesOf } from "./processes.ts";
import { until } from "./wait.ts";

/**
 * What tests run as mosaic's program: the bundle that scripts/test.ts has made, or the source
 * files.
 */
export const MAIN = Deno.env.get("MOSAIC_TEST_MAIN") ??
  new URL("../../src/main.ts", import.meta.url).pathname;

/**
 * An executable to test instead of the source code: `MOSAIC_BIN=dist/mosaic deno task test
 * tests/system/runs`.
 */
const GIVEN = Deno.env.get("MOSAIC_BIN");
export const BUILT = GIVEN ? Deno.realPathSync(GIVEN) : undefined;

/**
 * argv of mosaic without an executable's shell stub: the process is the daemon's itself, with all
 * permissions.
 */
export const RUNTIME_PROGRAM: readonly string[] = [
  ...[Deno.execPath(), "run", "-A", "--no-check", "--no-prompt", "--node-modules-dir=manual"],
  V8_FLAGS,
  MAIN,
];

/** argv of mosaic as tests run it. */
export const PROGRAM: readonly string[] = BUILT ? [BUILT] : RUNTIME_PROGRAM;

export interface TestDaemonOptions {
  /** Further options of `mosaic daemon`. */
  args?: string[];
  /** Added to the test's own environment. */
  env?: Record<string, string>;
  /** `--gpus`; none by default. */
  gpus?: string;
  /** Used instead of a directory of the harness; it is kept then. */
  stateDir?: string;
  /** What to run instead of PROGRAM. */
  program?: string[];
}

export class TestDaemon implements AsyncDisposable {
  readonly stateDir: string;
  readonly layout: Layout;
  readonly #options: TestDaemonOptions;
  readonly #ownsDirectory: boolean;
  #child: Deno.ChildProcess | undefined;
  #process: ProcessRef | undefined;
  #address = "";
  #http = "";
  #socket = "";
  #client: MosaicClient | undefined;
  #ending = false;
  #died: Deno.CommandStatus | undefined;

  private constructor(options: TestDaemonOptions) {
    this.#options = options;
    this.#ownsDirectory = options.stateDir === undefined;
    this.stateDir = options.stateDir ?? Deno.makeTempDirSync({ prefix: "mosaic-test-" });
    this.layout = new Layout(this.stateDir);
  }

  /** Starts a daemon and waits until it answers. */
  static async start(options: TestDaemonOptions = {}): Promise<TestDaemon> {
    const daemon = new TestDaemon(options);
    try {
      await daemon.#start();
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
    return daemon;
  }

  /** gRPC address, HOST:PORT. */
  get address(): string {
    return this.#address;
  }
  /** The page's address, HOST:PORT. */
  get http(): string {
    return this.#http;
  }
  /** Address of its API, which all programs of its user use. */
  get target(): string {
    return `unix:${this.#socket}`;
  }
  /** A client of this daemon; a new one after each start. */
  get client(): MosaicClient {
    return this.#client ??= new MosaicClient(this.target);
  }
  get pid(): number {
    return this.#process!.pid;
  }
  /** How it ended, if the test did not end it; undefined while it lives. */
  get died(): Deno.CommandStatus | undefined {
    return this.#died;
  }
  /** What the daemon printed, for messages. */
  output(): string {
    return readTextIfThere(`${this.stateDir}/test-output.txt`) ?? "";
  }

  /** Ends it like a crash. */
  async kill9(): Promise<void> {
    this.#closeClient();
    this.#ending = true;
    if (this.#child === undefined) return;
    if (this.#process !== undefined) signalProcess(this.#process, "SIGKILL");
    await this.#child.status;
    this.#child = undefined;
  }

  /** Ends it by SIGTERM; runs continue. @returns its exit code */
  async stop(): Promise<number> {
    this.#closeClient();
    this.#ending = true;
    if (this.#child === undefined) return 0;
    const child = this.#child;
    if (this.#process !== undefined) signalProcess(this.#process, "SIGTERM");
    const timer = setTimeout(
      () => this.#process && signalProcess(this.#process, "SIGKILL"),
      60_000,
    );
    const status = await child.status;
    clearTimeout(timer);
    this.#child = undefined;
    return status.code;
  }

  /** Starts it again on the same directory and the same ports. */
  async restart(): Promise<void> {
    await this.kill9();
    await this.#start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill9();
    await killProcessesOf(this.stateDir);
    if (this.#ownsDirectory) await Deno.remove(this.stateDir, { recursive: true });
  }

  async #start(): Promise<void> {
    const given = this.#options.args ?? [];
    this.#ending = false;
    const fixed = this.#address !== "";
    // Fixed ports below the ephemeral range, so that a restart finds them free again.
    for (let attempt = 0;; attempt++) {
      if (!fixed) {
        const port = 20_000 + Math.floor(Math.random() * 6000) * 2;
        this.#address = `127.0.0.1:${port}`;
        this.#http = `127.0.0.1:${port + 1}`;
      }
      const args = [
        ...this.#program(),
        "daemon",
        "--state-dir",
        this.stateDir,
        "--gpus",
        this.#options.gpus ?? "0",
      ];
      // Recorded cards have the same UUIDs in all tests, and several run at a time.
      if (!given.includes("--gpu-locks")) args.push("--gpu-locks", `${this.stateDir}/gpu-locks`);
      if (!given.includes("--listen")) args.push("--listen", this.#address);
      if (!given.includes("--http")) args.push("--http", this.#http);
      const output = `${this.stateDir}/test-output.txt`;
      this.#child = new Deno.Command("/bin/sh", {
        args: ["-c", 'exec "$@" >>"$0" 2>&1', output, ...args, ...given],
        env: this.#options.env,
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn();
      this.#process = processRef(this.#child.pid);
      const ended = await this.#answersOrEnds(this.#child);
      if (ended === undefined) {
        const child = this.#child;
        child.status.then((status) => {
          if (this.#child === child && !this.#ending) this.#died = status;
        });
        return;
      }
      this.#child = undefined;
      if (ended === ADDRESS_TAKEN && !fixed && attempt < 10) continue;
      throw new Error(`the daemon exited with ${ended}:\n${this.output()}`);
    }
  }

  #closeClient(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  #program(): readonly string[] {
    return this.#options.program ?? PROGRAM;
  }

  /** Undefined once the daemon.json of this process exists; the exit code if it ends before. */
  async #answersOrEnds(child: Deno.ChildProcess): Promise<number | undefined> {
    let code: number | undefined;
    child.status.then((status) => code = status.code);
    await until(() => {
      if (code !== undefined) return true;
      const text = readTextIfThere(this.layout.daemonJson);
      if (text === undefined) return false;
      const file = JSON.parse(text) as {
        pid: number;
        listen: string;
        http: string;
        socket: string;
      };
      if (file.pid !== child.pid) return false;
      this.#address = file.listen;
      this.#http = file.http;
      this.#socket = file.socket;
      return true;
    }, { what: "the daemon to be ready", state: () => this.output().slice(-2000) });
    return code;
  }
}

const ADDRESS_TAKEN = 3;
