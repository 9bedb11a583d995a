/** Debian's Prometheus and its promtool, as far as tests use them. */
import { processRef } from "../../src/os/processes/identity.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { until } from "../harness/wait.ts";

export function isInstalled(): boolean {
  return ["prometheus", "promtool"].every((program) => {
    try {
      return new Deno.Command(program, { args: ["--version"], stdout: "null", stderr: "null" })
        .outputSync().success;
    } catch {
      return false;
    }
  });
}

/** What `promtool check metrics` has to say of an exposition: nothing is best. */
export async function lint(exposition: string): Promise<string> {
  const child = new Deno.Command("promtool", {
    args: ["check", "metrics"],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(exposition));
  await writer.close();
  const { success, stdout, stderr } = await child.output();
  const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  return success ? said : `${said || "it failed"}\n`;
}

interface Answer {
  status: string;
  error?: string;
  data: { result: { metric: Record<string, string>; value: [number, string] }[] };
}

/** A Prometheus of its own, which scrapes one target every second. */
export class Prometheus implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #directory: string;
  readonly #address: string;

  private constructor(child: Deno.ChildProcess, directory: string, address: string) {
    this.#child = child;
    this.#directory = directory;
    this.#address = address;
  }

  /** @param target HOST:PORT of what is scraped at /metrics */
  static async start(target: string): Promise<Prometheus> {
    for (let attempt = 1;; attempt++) {
      const address = `127.0.0.1:${26_000 + Math.floor(Math.random() * 6000)}`;
      const started = await Prometheus.#tryAt(address, target);
      if (typeof started !== "string") return started;
      // The port may have been taken.
      if (attempt === 5) throw new Error(`prometheus did not start:\n${started}`);
    }
  }

  static async #tryAt(address: string, target: string): Promise<Prometheus | string> {
    const directory = Deno.makeTempDirSync({ prefix: "mosaic-prometheus-" });
    Deno.writeTextFileSync(
      `${directory}/prometheus.yml`,
      `global: { scrape_interval: 1s }
scrape_configs:
  - { job_name: mosaic, static_configs: [{ targets: ["${target}"] }] }
`,
    );
    const child = new Deno.Command("/bin/sh", {
      args: [
        ...["-c", 'exec "$@" >"$0" 2>&1', `${directory}/output.txt`, "prometheus"],
        ...[`--config.file=${directory}/prometheus.yml`, `--storage.tsdb.path=${directory}/data`],
        `--web.listen-address=${address}`,
      ],
      stdin: "null",
    }).spawn();
    const prometheus = new Prometheus(child, directory, address);
    let ended = false;
    child.status.then(() => ended = true);
    try {
      await until(async () => ended || await prometheus.#isReady(), {
        what: "prometheus to be ready",
      });
      if (!ended) return prometheus;
    } catch (error) {
      await prometheus[Symbol.asyncDispose]();
      throw error;
    }
    const said = prometheus.output();
    await prometheus[Symbol.asyncDispose]();
    return said;
  }

  output(): string {
    return readTextIfThere(`${this.#directory}/output.txt`) ?? "";
  }

  /** An instant query. @throws Error with what Prometheus says of it. */
  async query(expression: string): Promise<Answer["data"]["result"]> {
    const response = await fetch(`http://${this.#address}/api/v1/query`, {
      method: "POST",
      body: new URLSearchParams({ query: expression }),
    });
    const answer: Answer = await response.json();
    if (answer.status !== "success") throw new Error(`${expression}: ${answer.error}`);
    return answer.data.result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const process = processRef(this.#child.pid);
    if (process !== undefined) signalProcess(process, "SIGKILL");
    await this.#child.status;
    Deno.removeSync(this.#directory, { recursive: true });
  }

  async #isReady(): Promise<boolean> {
    try {
      const response = await fetch(`http://${this.#address}/-/ready`);
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false;
    }
  }
}
