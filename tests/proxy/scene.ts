/** A fake daemon, a run's directory and real proxies; whatever is left at the end is killed. */
import { logStart } from "../../src/journal/journal_header.ts";
import { RunFiles } from "../../src/base/layout.ts";
import { groupMembers, isAlive, processRef } from "../../src/os/processes/identity.ts";
import { signalGroup } from "../../src/os/processes/signals.ts";
import { MAIN, PROGRAM } from "../harness/daemon.ts";
import { type ProxyStartFile, writeStartFile } from "../../src/proxy/start/start_file.ts";
import { until } from "../harness/wait.ts";
import { FakeDaemon } from "./fake_daemon.ts";

export const RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

export class Proxy {
  readonly child: Deno.ChildProcess;
  readonly status: Promise<Deno.CommandStatus>;
  readonly output: Promise<{ stdout: string; stderr: string }>;

  constructor(
    args: string[],
    { permissions, under = [], ...options }: {
      env?: Record<string, string>;
      cwd?: string;
      permissions?: string[];
      under?: string[];
    } = {},
  ) {
    const program = [
      ...under,
      ...permissions === undefined
        ? PROGRAM
        : [Deno.execPath(), "run", ...permissions, "--no-prompt", "--no-check", MAIN],
    ];
    this.child = new Deno.Command(program[0]!, {
      args: [...program.slice(1), "proxy", ...args],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      ...options,
    }).spawn();
    this.status = this.child.status;
    this.output = Promise.all([
      new Response(this.child.stdout).text(),
      new Response(this.child.stderr).text(),
    ])
      .then(([stdout, stderr]) => ({ stdout, stderr }));
  }

  async kill(signal: Deno.Signal = "SIGKILL"): Promise<void> {
    try {
      this.child.kill(signal);
    } catch {
      // It has ended by itself.
    }
    if (signal === "SIGKILL") await this.status;
  }

  /** The exit status, once it has left. */
  async code(): Promise<number> {
    const { code } = await this.status;
    await this.output;
    return code;
  }
}

export class Scene {
  readonly daemon = new FakeDaemon();
  readonly directory = Deno.makeTempDirSync({ prefix: "mosaic-proxy-" });
  readonly files = new RunFiles(`${this.directory}/run`, "w1");
  readonly #proxies: Proxy[] = [];

  /** Where the daemon announces itself. */
  get daemonJson(): string {
    return `${this.directory}/daemon.json`;
  }

  announce(): void {
    Deno.writeTextFileSync(this.daemonJson, JSON.stringify(this.daemon.announced));
  }

  /**
   * Starts a proxy as the daemon does.
   * @param options.under a program with its arguments that becomes the proxy
   */
  proxy(
    command: string[],
    options: {
      start?: Partial<ProxyStartFile>;
      args?: string[];
      permissions?: string[];
      under?: string[];
    } = {},
  ): Proxy {
    Deno.mkdirSync(this.files.control, { recursive: true });
    writeStartFile(this.files.proxyFile(1), {
      env: { PATH: "/usr/bin:/bin", LANG: "C.UTF-8" },
      cwd: this.directory,
      sessionToken: "",
      daemonJson: this.daemonJson,
      stateDir: this.directory,
      schema: null,
      supportsPause: false,
      maxBacklogBytes: 0,
      cgroup: null,
      umask: "",
      heartbeatIntervalS: 60,
      ...options.start,
    });
    return this.bare([
      ...[
        "--target",
        this.daemon.target,
        "--run-id",
        RUN,
        "--worker-id",
        "w1",
        "--run-dir",
        this.files.directory,
      ],
      ...options.args ?? [],
      ...(command.length > 0 ? ["--", ...command] : []),
    ], {
      ...(options.permissions === undefined ? {} : { permissions: options.permissions }),
      ...(options.under === undefined ? {} : { under: options.under }),
    });
  }

  shell(script: string, options: Parameters<Scene["proxy"]>[1] = {}): Proxy {
    return this.proxy(["sh", "-c", script], options);
  }

  bare(args: string[], options: ConstructorParameters<typeof Proxy>[1] = {}): Proxy {
    const proxy = new Proxy(args, options);
    this.#proxies.push(proxy);
    return proxy;
  }

  /** The wrapper that leads the worker's group; undefined before it was started. */
  leader(): { pid: number; identity: string } | undefined {
    try {
      return JSON.parse(Deno.readTextFileSync(this.files.workerFile(1)));
    } catch {
      return undefined;
    }
  }

  /** The living processes of the worker's group. */
  group(): number[] {
    const leader = this.leader();
    return leader === undefined ? [] : groupMembers(leader.pid);
  }

  exitRecord(): Record<string, unknown> | undefined {
    try {
      return JSON.parse(Deno.readTextFileSync(this.files.exitFile(1)));
    } catch {
      return undefined;
    }
  }

  /** What the worker has printed. */
  journal(): string {
    using file = Deno.openSync(this.files.stdout(1));
    return Deno.readTextFileSync(this.files.stdout(1)).slice(logStart(file));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const proxy of this.#proxies) {
      await proxy.kill();
      await proxy.output;
    }
    const leader = this.leader();
    if (leader !== undefined) {
      signalGroup(leader, "SIGKILL");
      await until(() => this.group().length === 0, { what: "the worker's group is gone" });
    }
    await this.daemon.stop();
    Deno.removeSync(this.directory, { recursive: true });
  }
}

/** Runs a test in a scene with its daemon up. */
export async function inScene(test: (scene: Scene) => Promise<void>): Promise<void> {
  await using scene = new Scene();
  scene.daemon.start();
  scene.announce();
  await test(scene);
}

/** Shell that prints steps `from` up to but without `to`. */
export function printSteps(from: number, to: number, more = ""): string {
  return `i=${from}; while [ $i -lt ${to} ]; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i${more}}"; i=$((i+1)); done`;
}

export function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

export { isAlive, processRef };
