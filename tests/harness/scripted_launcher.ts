/**
 * An engine whose jobs behave as a test says: slow, forgetful, with repeated ids, silent. It starts
 * no process.
 */
import type {
  JobEnd,
  JobRef,
  Launched,
  Launcher,
  Observation,
  Order,
  Sighting,
} from "../../src/dispatch/launch/engine/launcher.ts";

export interface ScriptedJob extends Sighting {
  order: Order;
}

export class ScriptedLauncher implements Launcher {
  /** The name in configs. */
  readonly name = "slurm";
  readonly jobs: ScriptedJob[] = [];
  /** Jobs that only its accounting knows. */
  readonly accounted: Sighting[] = [];
  readonly stops: { job: JobRef; how: string }[] = [];
  /** Why it does not answer; undefined: it answers. */
  silent: string | undefined;
  /** The answer of `launch` although the job is made, and of every later call. */
  late: string | undefined;
  rejects: string | undefined;
  /** It answers, and accepts no job. */
  takesNone: string | undefined;
  launches = 0;
  /** The next id. */
  next = 1;
  queries = 0;

  admit(): string | undefined {
    return undefined;
  }

  async launch(order: Order): Promise<Launched> {
    this.launches++;
    const found = await this.find(order.name);
    if (found.t === "no_answer") return found;
    if (found.jobs.length > 0) return { t: "placed", job: found.jobs[0]!.job };
    if (this.rejects !== undefined) return { t: "rejected", why: this.rejects };
    if (this.takesNone !== undefined) return { t: "not_taken", why: this.takesNone };
    const job = this.make(order);
    if (this.late !== undefined) return { t: "no_answer", why: this.silent = this.late };
    return { t: "placed", job: job.job };
  }

  make(order: Order): ScriptedJob {
    const job: ScriptedJob = {
      job: String(this.next++),
      name: order.name,
      submittedAt: 1_000_000 + this.jobs.length,
      nodes: [],
      state: { t: "queued", reason: "Resources", expectedStart: null },
      order,
    };
    this.jobs.push(job);
    return job;
  }

  observe(): Promise<Observation> {
    this.queries++;
    if (this.silent !== undefined) return Promise.resolve({ t: "no_answer", why: this.silent });
    return Promise.resolve({ t: "answer", jobs: this.jobs.map((job) => ({ ...job })) });
  }

  async find(name: string): Promise<Observation> {
    const all = await this.observe();
    return all.t === "no_answer"
      ? all
      : { t: "answer", jobs: all.jobs.filter((job) => job.name === name) };
  }

  remembered(name: string): Promise<Observation> {
    return Promise.resolve({
      t: "answer",
      jobs: this.accounted.filter((job) => job.name === name),
    });
  }

  stop(job: JobRef, how: "graceful" | "now"): Promise<void> {
    this.stops.push({ job, how });
    for (const one of this.jobs) {
      if (one.name === job.name && (job.job === null || job.job === one.job)) {
        this.end(one, "job_cancelled");
      }
    }
    return Promise.resolve();
  }

  describe({ job, name }: JobRef): string {
    return `job ${job ?? name}`;
  }

  run(job: ScriptedJob, node = "n1"): void {
    job.nodes = [node];
    job.state = { t: "running" };
  }

  end(job: ScriptedJob, kind: JobEnd["kind"], proven = true): void {
    if (job.state.t !== "ended") job.state = { t: "ended", end: { kind, proven, text: kind } };
  }

  forget(job: ScriptedJob): void {
    this.jobs.splice(this.jobs.indexOf(job), 1);
  }

  /** The job is listed no more; accounting has its end. */
  account(job: ScriptedJob, kind: JobEnd["kind"]): void {
    this.end(job, kind);
    this.forget(job);
    this.accounted.push(job);
  }
}
