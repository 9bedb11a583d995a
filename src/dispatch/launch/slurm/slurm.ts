/**
 * Slurm as a launcher: sbatch, squeue, scancel and, with accounting, sacct (docs/how-to/slurm.md).
 */
import type { RunPlan } from "../../../config/plan.ts";
import { messageOf } from "../../../base/errors.ts";
import { RunFiles } from "../../../base/layout.ts";
import { runProgram } from "../../../os/processes/external_program.ts";
import { parentOf } from "../../../os/files/files.ts";
import { writeRecord } from "../../../os/files/untrusted_changes.ts";
import type { JobRef, Launched, Launcher, Observation, Order } from "../engine/launcher.ts";
import { batchScript, sbatchOptions } from "./sbatch.ts";
import {
  endedLines,
  needsNodes,
  SACCT_FORMAT,
  sightingsOf,
  silentNodes,
  SQUEUE_FORMAT,
} from "./squeue.ts";

/** Slurm's own tools give up earlier if its controller is away. */
const TOOL_MS = 30_000;
/** How many days back an end is searched. */
const ACCOUNTED_DAYS = 30;
/**
 * Variables of a proxy on a node: where its programs are, and where the runtime stores its cache.
 */
const PROXY_VARIABLES = ["PATH", "HOME", "LANG", "DENO_DIR", "MOSAIC_CACHE_DIR", "LD_LIBRARY_PATH"];
const TOOL_VARIABLES = ["PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF", "LD_LIBRARY_PATH"];

/**
 * Messages of sbatch for a request that it would reject again. After any other (no controller, no
 * munge, a full queue, a limit on jobs, an unknown text) the run waits, because a Slurm that does
 * not answer must fail no run.
 */
const REJECTIONS =
  /invalid (?:partition|account|qos|generic resource|job array|feature|time|constraint|node|dependency|gres|trackable|licen[cs]e|reservation|numeric value|argument|hostlist|count specification|memory specification|directive)|requested (?:node configuration|time limit|partition configuration)|(?:node|cpu) count specification invalid|memory specification can ?not be satisfied|more processors requested than permitted|unrecognized option|unable to (?:open file|read script)|user's group not permitted|access\/permission denied|batch script (?:is empty|contains)|invalid --/i;
/** Messages of sbatch if Slurm has not answered. */
const SILENCE =
  /unable to contact|connect|timed out|socket|communication|zero bytes|unexpected message|standby|munge|authenticat|configuration source/i;
/** Exit code of a killed tool. */
const KILLED = 128 + 9;

interface Answer {
  code: number;
  out: string;
  error: string;
}

export class Slurm implements Launcher {
  readonly name = "slurm";
  readonly #proxyEnv: Record<string, string>;
  readonly #toolEnv: Record<string, string>;
  readonly #closing = new AbortController();

  /** @param env the daemon's environment */
  constructor(env: Readonly<Record<string, string>>) {
    const some = (names: readonly string[]) =>
      Object.fromEntries(
        names.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]]),
      );
    this.#proxyEnv = some(PROXY_VARIABLES);
    this.#toolEnv = { ...some(TOOL_VARIABLES), LC_ALL: "C", SLURM_TIME_FORMAT: "%s" };
  }

  admit(plan: RunPlan): string | undefined {
    const { sandbox, worker, slurm } = plan;
    if (this.nodeDirectory(plan) !== undefined && slurm.nodes * slurm.tasksPerNode > 1) {
      return "metadata.slurm.node_dir is for runs with one rank: ranks on several nodes need a shared disk";
    }
    const elsewhere = "metadata.launcher is slurm: the run is not on the daemon's host";
    if (worker.external) {
      return `${elsewhere}, and metadata.worker.external says that somebody else starts its proxy`;
    }
    if (sandbox.kind !== "none") {
      return `${elsewhere}, and metadata.sandbox works on that host only`;
    }
    if (slurm.fields.warn_seconds !== undefined && !worker.supportsPause) {
      return "metadata.slurm.warn_seconds is a control message on the worker's standard input, which only a worker with " +
        "metadata.worker.supports_pause: true reads";
    }
    return undefined;
  }

  nodeDirectory({ launcher, slurm }: RunPlan): string | undefined {
    return launcher === this.name ? slurm.fields.node_dir : undefined;
  }

  async launch({ name, comment, plan, files, attempt, node, argv, env }: Order): Promise<Launched> {
    const found = await this.find(name);
    if (found.t === "no_answer") return found;
    const [job] = found.jobs;
    if (job !== undefined) return { t: "placed", job: job.job };
    const script = `${files.control}/job-${attempt}.sh`;
    const logFile = node === undefined ? files.jobLog : `${parentOf(node.directory)}/${name}.log`;
    const there = node === undefined ? files : new RunFiles(node.directory, files.workerId);
    const placed = node && { made: node, logFile };
    writeRecord(
      script,
      batchScript(argv, { ...this.#proxyEnv, ...env }, there.workerFile(attempt), placed),
    );
    const answer = await this.#tool(
      "sbatch",
      sbatchOptions(plan, { name, comment, logFile, script }),
    );
    // In a federation: JOB;CLUSTER.
    const id = /^(\d+)(?:;.*)?$/m.exec(answer.out)?.[1];
    if (answer.code === 0 && id !== undefined) return { t: "placed", job: id };
    const why = plainText(answer);
    if (REJECTIONS.test(why)) return { t: "rejected", why };
    return {
      t: answer.code < 0 || answer.code === KILLED || SILENCE.test(why) ? "no_answer" : "not_taken",
      why,
    };
  }

  observe(): Promise<Observation> {
    return this.#jobs([]);
  }

  find(name: string): Promise<Observation> {
    return this.#jobs([`--name=${name}`]);
  }

  async #jobs(further: string[]): Promise<Observation> {
    const answer = await this.#tool("squeue", [
      "--noheader",
      "--me",
      "--states=all",
      `--format=${SQUEUE_FORMAT}`,
      ...further,
    ]);
    if (answer.code !== 0) return { t: "no_answer", why: plainText(answer) };
    return await this.#withNodes(answer.out);
  }

  /** Without an accounting database sacct fails. */
  async remembered(name: string): Promise<Observation> {
    const answer = await this.#tool("sacct", [
      ...[
        "--noheader",
        "--parsable2",
        "--allocations",
        "--duplicates",
        `--starttime=now-${ACCOUNTED_DAYS}days`,
      ],
      ...[`--name=${name}`, `--format=${SACCT_FORMAT}`],
    ]);
    if (answer.code !== 0) return { t: "no_answer", why: plainText(answer) };
    return await this.#withNodes(endedLines(answer.out));
  }

  async #withNodes(lines: string): Promise<Observation> {
    const jobs = sightingsOf(lines);
    if (!needsNodes(jobs)) return { t: "answer", jobs };
    const nodes = await this.#tool("sinfo", ["--noheader", "--Node", "--format=%N|%T"]);
    if (nodes.code !== 0) return { t: "no_answer", why: plainText(nodes) };
    return { t: "answer", jobs: sightingsOf(lines, silentNodes(nodes.out)) };
  }

  /** By name, because the id may belong to another job by now. */
  async stop({ name, job }: JobRef, how: "graceful" | "now"): Promise<void> {
    const which = [`--name=${name}`, ...(job === null ? ["--me"] : [job])];
    if (how === "now") await this.#tool("scancel", ["--signal=KILL", "--full", ...which]);
    const answer = await this.#tool("scancel", which);
    // There is no such job (any more).
    if (answer.code !== 0 && !/invalid job id/i.test(answer.error)) {
      throw new Error(plainText(answer));
    }
  }

  close(): void {
    this.#closing.abort();
  }

  describe({ name, job, nodes }: JobRef & { nodes: readonly string[] }): string {
    return `Slurm job ${job ?? name}${nodes.length === 0 ? "" : ` on ${nodes.join(", ")}`}`;
  }

  /** @returns its output; never throws */
  async #tool(program: string, args: string[]): Promise<Answer> {
    try {
      const { code, stdout, stderr } = await runProgram([program, ...args], {
        env: this.#toolEnv,
        limitMs: TOOL_MS,
        signal: this.#closing.signal,
      });
      return { code, out: stdout, error: `${program}: ${stderr}` };
    } catch (error) {
      return { code: -1, out: "", error: `${program}: ${messageOf(error)}` };
    }
  }
}

/** A tool's error messages, without its name at the start of each line. */
function plainText({ error, code }: Answer): string {
  const text = error.replaceAll(/^(?:\w+: )+(?:error: )?/gm, "").split("\n").filter((line) =>
    line !== ""
  ).join("; ");
  return text === "" ? `exit ${code}` : text.slice(0, 300);
}
