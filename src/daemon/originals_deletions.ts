/**
 * Deletes the runs that the run manager of the original's GUI has deleted. It removes a run's files
 * below the shared directory, and its rows in databases of its own: mosaic sees that the config and
 * the directories go. Only files that this daemon has seen count, so that a restored or an imported
 * run without files stays.
 */
import { messageOf } from "../base/errors.ts";
import { BASE_DIRS, type Layout } from "../base/layout.ts";
import type { Logger } from "../base/log.ts";
import { entriesOf, infoOf } from "../os/files/untrusted.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../registry/registry.ts";
import { auditLine } from "../wire/audit.ts";

const INTERVAL_MS = 5000;

const HALF =
  "its config file is gone, and its directory is there: the run stays in the list until mosaic delete";

export interface OriginalsDeletionsOptions {
  layout: Layout;
  registry: Pick<Registry, "known">;
  deleteRun: (runId: string) => Promise<unknown>;
  log: Logger;
}

export class OriginalsDeletions {
  readonly #options: OriginalsDeletionsOptions;
  #seen: ReadonlySet<string> = new Set();
  #changedAt: number | undefined;
  /**
   * Runs whose config is gone, with what was last said of them: their directory may follow, or
   * their end.
   */
  readonly #gone = new Map<string, string>();
  /** Of these: ended, with a directory. */
  readonly #halves = new Set<string>();

  constructor(options: OriginalsDeletionsOptions) {
    this.#options = options;
  }

  /** Costs one system call where nothing has changed. */
  async look(): Promise<void> {
    const { layout } = this.#options;
    const configs = infoOf(layout.configs);
    // A directory that is away as a whole is no deletion of runs.
    if (configs === undefined || !this.#isShared()) return;
    if (configs.mtime?.getTime() !== this.#changedAt) {
      this.#changedAt = configs.mtime?.getTime();
      const there = this.#configured();
      for (const runId of this.#seen) if (!there.has(runId)) this.#gone.set(runId, "");
      for (const runId of there) this.#gone.delete(runId);
      this.#seen = there;
    }
    for (const [runId, said] of [...this.#gone]) await this.#follow(runId, said);
  }

  /** The original's GUI keeps its own telemetry here. */
  #isShared(): boolean {
    const { telemetryDb, olderTelemetryDb } = this.#options.layout;
    return telemetryDb !== olderTelemetryDb && infoOf(olderTelemetryDb) !== undefined;
  }

  #configured(): Set<string> {
    const { configs } = this.#options.layout;
    const ids = entriesOf(configs, configs).map(({ name }) =>
      /^config-([0-9A-Za-z]{1,64})\.json$/.exec(name)?.[1]
    );
    return new Set(ids.filter((id) => id !== undefined));
  }

  async #follow(runId: string, said: string): Promise<void> {
    const { layout, registry, log } = this.#options;
    const row = registry.known(runId);
    if (row === undefined) {
      this.#halves.delete(runId);
      return void this.#gone.delete(runId);
    }
    // The original deletes live runs, too, without stopping them. Such a run is deleted when it has
    // ended.
    if (!isEnded(row.state)) return;
    if (BASE_DIRS.some((base) => infoOf(layout.runDir(base, runId)) !== undefined)) {
      this.#sayHalf(runId);
      return;
    }
    let outcome = "ok";
    try {
      await this.#options.deleteRun(runId);
      this.#gone.delete(runId);
      log.warn(
        { run_id: runId, name: row.name },
        "run deleted: the original's run manager had removed its files",
      );
    } catch (error) {
      outcome = messageOf(error);
      if (outcome === said) return;
      this.#gone.set(runId, outcome);
      log.warn(
        { run_id: runId, error: outcome },
        "its files are removed by the original's run manager; not deleted yet",
      );
    }
    const entry = {
      who: "owner",
      address: "files",
      action: "original/delete",
      run: runId,
      outcome,
    };
    try {
      Deno.writeTextFileSync(layout.auditFile, auditLine(entry), { append: true, mode: 0o600 });
    } catch (error) {
      log.warn({ run_id: runId, error: messageOf(error) }, "cannot write the audit log");
    }
  }

  /**
   * The original leaves the directories of custom scripts. A config alone may have been removed by
   * hand: nothing is deleted. Said at the second look, because the original may be at work during
   * the first.
   */
  #sayHalf(runId: string): void {
    const said = this.#gone.get(runId);
    if (!this.#halves.has(runId)) this.#halves.add(runId);
    else if (said === "") {
      this.#gone.set(runId, HALF);
      this.#options.log.warn({ run_id: runId }, HALF);
    }
  }
}

export function watchOriginalsDeletions(
  options: OriginalsDeletionsOptions,
): { close(): Promise<void> } {
  const deletions = new OriginalsDeletions(options);
  let said = "";
  const look = async () => {
    try {
      await deletions.look();
      said = "";
    } catch (error) {
      const message = messageOf(error);
      if (message !== said) {
        options.log.warn(
          { error: message },
          "cannot look for runs that the original's GUI deleted",
        );
      }
      said = message;
    }
  };
  let looking = look();
  const timer = setInterval(() => void (looking = looking.then(look)), INTERVAL_MS);
  return {
    async close() {
      clearInterval(timer);
      await looking;
    },
  };
}
