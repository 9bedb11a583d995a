/**
 * A Slurm of the test's own: four nodes on this host, with two fake GPUs each, and a daemon that
 * places runs on it.
 */
import assert from "node:assert/strict";
import { TestDaemon, type TestDaemonOptions } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { until } from "../../harness/wait.ts";

const PROGRAMS = ["slurmctld", "slurmd", "munged", "sbatch"];

/** Why there can be no cluster here; fails where the tests must not be skipped. */
export function missing(): string | undefined {
  const { code } = new Deno.Command("sh", {
    args: ["-c", PROGRAMS.map((name) => `command -v ${name} >/dev/null`).join(" && ")],
  }).outputSync();
  const why = Deno.uid() !== 0
    ? "only root starts a cluster"
    : code === 0
    ? undefined
    : "Slurm is not installed";
  if (why !== undefined) {
    assert.notEqual(Deno.env.get("MOSAIC_TEST_REQUIRE"), "all", why);
    console.error(`SKIPPED: tests on a real Slurm: ${why}`);
  }
  return why;
}

export interface Job {
  id: string;
  name: string;
  state: string;
  node: string;
}

const parentOf = (path: string): string => path.slice(0, path.lastIndexOf("/")) || "/";

function listen(port: number): Deno.Listener | undefined {
  try {
    return Deno.listen({ hostname: "127.0.0.1", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return undefined;
    throw error;
  }
}

/** 400 ports that no other test's cluster has: whoever listens on the last of them has them all. */
function freePorts(): { port: number; held: Deno.Listener } {
  for (let port = 20_000; port < 28_000; port += 400) {
    const held = listen(port + 399);
    // A cluster whose test was killed has its controller's.
    const first = listen(port);
    first?.close();
    if (held !== undefined && first !== undefined) return { port, held };
    held?.close();
  }
  throw new Error("twenty clusters run already");
}

export class Cluster implements AsyncDisposable {
  readonly directory: string;
  readonly conf: string;

  readonly #held: Deno.Listener;

  private constructor(directory: string, held: Deno.Listener, conf: string) {
    this.directory = directory;
    this.#held = held;
    this.conf = conf;
  }

  /**
   * @param killWait seconds between SIGTERM and SIGKILL @param hidden name of a directory in the
   * cluster's own that its nodes do not see
   */
  static async start(
    { hidden, killWait = 5 }: { hidden?: string; killWait?: number } = {},
  ): Promise<Cluster> {
    const directory = Deno.makeTempDirSync({ prefix: "mosaic-slurm-" });
    // munge wants to be reached by everybody: through the test's own temporary directory, too.
    Deno.chmodSync(directory, 0o755);
    for (let at = parentOf(directory); at !== "/tmp" && at !== "/"; at = parentOf(at)) {
      Deno.chmodSync(at, 0o711);
    }
    const { port, held } = freePorts();
    if (hidden !== undefined) Deno.mkdirSync(`${directory}/${hidden}`, { mode: 0o700 });
    const out = await output([new URL("slurm-up.sh", import.meta.url).pathname, directory], {
      BASE_PORT: String(port),
      KILLWAIT: String(killWait),
      ...(hidden === undefined ? {} : { HIDE: `${directory}/${hidden}` }),
    });
    return new Cluster(directory, held, /SLURM_CONF=(.+)/.exec(out)![1]!);
  }

  /** A daemon that places runs here. */
  daemon(options: TestDaemonOptions = {}): Promise<TestDaemon> {
    return TestDaemon.start({ ...options, env: { ...options.env, SLURM_CONF: this.conf } });
  }

  /** Output of one of Slurm's tools; "" while Slurm does not answer. */
  async tool(...argv: string[]): Promise<string> {
    return await output(["timeout", "10", ...argv], { SLURM_CONF: this.conf }).catch(() => "");
  }

  async jobs(): Promise<Job[]> {
    const lines = (await this.tool("squeue", "-h", "-t", "all", "-o", "%i|%j|%T|%N")).split("\n");
    return lines.filter((line) => line !== "").map((line) => {
      const [id, name, state, node] = line.split("|");
      return { id: id!, name: name!, state: state!, node: node! };
    });
  }

  /** Jobs that may have processes. */
  async alive(): Promise<Job[]> {
    return (await this.jobs()).filter(({ state }) =>
      /PENDING|RUNNING|COMPLETING|CONFIGURING/.test(state)
    );
  }

  pid(name: string): number {
    return Number(Deno.readTextFileSync(`${this.directory}/run/${name}.pid`));
  }

  kill(name: string): void {
    Deno.kill(this.pid(name), "SIGKILL");
  }

  /** What Slurm knows now is on its disk: it writes it every few seconds. */
  async saved(): Promise<void> {
    const writtenAt = () =>
      Deno.stat(`${this.directory}/state/job_state`).then(({ mtime }) => mtime!.getTime(), () => 0);
    const now = Date.now();
    // It writes only what has changed.
    await this.tool("sbatch", "--hold", "--output=/dev/null", "--wrap=true");
    await until(async () => await writtenAt() > now, { what: "slurmctld to write its state" });
  }

  /** Starts what does not run. */
  async up(): Promise<void> {
    await output([new URL("slurm-up.sh", import.meta.url).pathname, this.directory], {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await output(
      [new URL("slurm-down.sh", import.meta.url).pathname, "--purge", this.directory],
      {},
    );
    this.#held.close();
  }
}

/** Workers of a run that live: what has its directory in its environment, without proxies. */
export function workersOf(daemon: TestDaemon, runId: string): string[] {
  return processesOf(`/${runId}`).map(({ command }) => command).filter((command) =>
    command.includes("tests/harness/worker.sh") && !command.includes(" proxy ") &&
    !command.startsWith("/bin/sh -c")
  ).filter(() => daemon.stateDir !== "");
}

/** Nothing of the run is left: no job, no worker. */
export async function nothingLeft(
  cluster: Cluster,
  daemon: TestDaemon,
  runId: string,
): Promise<void> {
  await until(async () => (await cluster.alive()).every(({ name }) => !name.includes(runId)), {
    what: `no job of ${runId}`,
    state: () => cluster.jobs(),
  });
  await until(() => workersOf(daemon, runId).length === 0, {
    what: `no worker of ${runId}`,
    state: () => workersOf(daemon, runId),
  });
}

async function output(argv: string[], env: Record<string, string>): Promise<string> {
  const [program, ...args] = argv;
  const { code, stdout, stderr } = await new Deno.Command(program!, { args, env, stdin: "null" })
    .output();
  if (code !== 0) {
    throw new Error(`${argv.join(" ")}: ${code}: ${new TextDecoder().decode(stderr)}`);
  }
  return new TextDecoder().decode(stdout);
}
