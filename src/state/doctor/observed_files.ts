/** Reads again, as the proxies did, what attempts left in files besides their journals. */
import { childPlaceOf } from "../../readers/files/child_places.ts";
import { createLogger } from "../../base/log.ts";
import type { RunFiles } from "../../base/layout.ts";
import { infoOf, readRecord } from "../../os/files/untrusted.ts";
import { parsed, type ReadBatch } from "../../proxy/delivery/left_journal.ts";
import { FileSources } from "../../readers/files/file_sources.ts";
import type { Company } from "../../readers/files/own_source.ts";
import type { ProxyStartFile } from "../../proxy/start/start_file.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import type { KnownRun } from "./registry_state.ts";

/** A run with its files, among all runs. */
export interface RunOnDisk {
  run: KnownRun;
  files: RunFiles;
  others: readonly { run: KnownRun; files: RunFiles }[];
}

export const NO_RECORDS = {
  ...{
    steps: { n: 0 },
    episodes: [],
    events: [],
    otherLines: 0,
    malformedLines: 0,
    violations: {},
  },
};
const MAX_BATCH_BYTES = 1 << 20;
const ALONE: Company = { shared: false, others: false, below: [] };

/**
 * @param cursors those of the attempt, and of earlier ones
 * @param which "new": what is after the cursors, and files without one; "known": only the former;
 * "again": what is before
 *   the cursors
 */
export function* leftInFiles(
  known: RunOnDisk,
  attempt: number,
  cursors: readonly SourceCursor[],
  which: "new" | "known" | "again" = "new",
): Generator<ReadBatch> {
  const { run, files } = known;
  const start = JSON.parse(readRecord(files.proxyFile(attempt)) ?? "{}") as Partial<ProxyStartFile>;
  const isOver = isEnded(run.state) || attempt < run.attempt;
  // The proxy of a live attempt continues by itself.
  if (
    !start.observe || (!isOver && which !== "again") ||
    readRecord(files.workerFile(attempt)) === undefined
  ) return;
  const sources = new FileSources({
    ...{
      files,
      attempt,
      observation: start.observe,
      excluded: start.stateDir ? [start.stateDir] : [],
    },
    context: { agentId: run.agentId, workerId: run.workerId },
    stderr: (start.textOff ?? []).length === 0,
    log: createLogger({ sinks: [] }),
    endedAt: isOver ? endOf(files, attempt) : Date.now(),
  });
  const company = which === "new" ? companyOf(known, attempt, start.cwd ?? "") : ALONE;
  for (
    const { cursor, episodesJson, eventsJson } of sources.left(
      cursors,
      company,
      MAX_BATCH_BYTES,
      which,
    )
  ) {
    // Its records are those of a run within the run.
    if (childPlaceOf(cursor?.name ?? "")?.aloneIsParent === false) continue;
    const { name = "", label = "", state = "", serial } = cursor!;
    yield {
      ...NO_RECORDS,
      source: { name, label, state },
      ...{ from: Number(serial) - 1, to: Number(serial) },
      ...{ episodes: parsed(episodesJson, []), events: parsed(eventsJson, []) },
    };
  }
}

/**
 * Files that a later attempt continues to read: what is after an earlier attempt's cursors belongs
 * to the later one.
 */
export function readLater(
  run: KnownRun,
  attempt: number,
  cursorsOf: (attempt: number) => readonly SourceCursor[],
): Set<string> {
  const names = new Set<string>();
  for (let later = attempt + 1; later <= run.attempt; later++) {
    for (const { name } of cursorsOf(later)) {
      names.add(name);
    }
  }
  return names;
}

/** When the attempt was over, by the clock of its files. */
function endOf(files: RunFiles, attempt: number): number {
  for (const path of [files.exitFile(attempt), files.stdout(attempt)]) {
    try {
      const info = infoOf(path);
      if (info !== undefined) return info.mtime?.getTime() ?? Date.now();
    } catch {
      // The next file has nearly the same time.
    }
  }
  return Date.now();
}

/** Which other runs existed at the same time, and where they worked. */
function companyOf({ files, others }: RunOnDisk, attempt: number, cwd: string): Company {
  const begin = begunAt(files, attempt);
  const end = endOf(files, attempt);
  const below: string[] = [];
  const company = { ...ALONE, below };
  for (const { run, files: its } of others) {
    for (let other = 1; other <= run.attempt; other++) {
      if (
        its.directory === files.directory || begunAt(its, other) > end || endOf(its, other) < begin
      ) continue;
      const start = JSON.parse(readRecord(its.proxyFile(other)) ?? "{}") as Partial<ProxyStartFile>;
      company.others = true;
      company.shared ||= start.cwd === cwd;
      if (start.cwd?.startsWith(`${cwd}/`)) below.push(start.cwd.slice(cwd.length + 1));
    }
  }
  return company;
}

function begunAt(files: RunFiles, attempt: number): number {
  try {
    return infoOf(files.workerFile(attempt))?.mtime?.getTime() ?? Infinity;
  } catch {
    return Infinity;
  }
}
