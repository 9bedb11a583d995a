/**
 * `mosaic proxy --read-files`: reads files that somebody has named while the run ran or after its
 * end, and prints what is not stored, for the daemon, which has no permission to read them itself.
 * A line is `{file}`, `{batch}` or `{more: true}`.
 */
import { createLogger } from "../../base/log.ts";
import { MosaicError } from "../../base/errors.ts";
import type { EpisodeRecord, WorkerEventRecord } from "../../gen/records/record_types.ts";
import { readRecordInProxy } from "../../os/files/untrusted.ts";
import type { Observation } from "../../readers/files/observation.ts";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import { FileSources, type NamedFile } from "../../readers/files/file_sources.ts";
import type { ProxyArguments } from "../start/arguments.ts";
import type { StartPlan } from "../start/start_plan.ts";
import { parsed } from "./left_journal.ts";

const BATCH_BYTES = 1 << 20;
/** After so much output the daemon stores it, and calls again. */
const PRINTED_BYTES = 8 << 20;

/** What the daemon asks for: the content of `RunFiles.namedFiles`. */
export interface NamedFiles {
  globs: Observation["globs"];
  /** Of the files that were read before. */
  cursors: SourceCursor[];
  /** Only lists them: the run's proxy reads them. */
  lists: boolean;
}

/** What is printed. */
export interface NamedLine {
  file?: NamedFile;
  batch?: {
    cursor: SourceCursor;
    path: string;
    count: number;
    episodes: EpisodeRecord[];
    events: WorkerEventRecord[];
  };
  /** There is more content. */
  more?: true;
}

/** @throws MosaicError `failed_precondition` if the daemon has named no files */
export function printNamedFiles(
  { attempt, agentId, workerId }: ProxyArguments,
  { files, start }: StartPlan,
): void {
  const text = readRecordInProxy(files.namedFiles);
  if (text === undefined) {
    throw new MosaicError("failed_precondition", `${files.namedFiles} is missing`);
  }
  const { globs, cursors, lists } = JSON.parse(text) as NamedFiles;
  const sources = new FileSources({
    ...{ files, attempt, since: 1, endedAt: Date.now() },
    observation: { roots: [], globs, user: start.observe?.user ?? start.user ?? undefined },
    excluded: [],
    context: { agentId, workerId },
    log: createLogger({ sinks: [] }),
  });
  let printed = 0;
  for (const one of sources.named(cursors, BATCH_BYTES, !lists)) {
    if ("file" in one) {
      print({ file: one.file });
      continue;
    }
    if (lists) break;
    if (printed > PRINTED_BYTES) {
      print({ more: true });
      break;
    }
    const { cursor, episodesJson, eventsJson } = one.message;
    const { name = "", label = "", state = "", serial } = cursor!;
    printed += print({
      batch: {
        cursor: { name, label, state, serial: Number(serial) },
        ...{
          path: one.path,
          count: one.count,
          episodes: parsed(episodesJson, []),
          events: parsed(eventsJson, []),
        },
      },
    });
  }
}

function print(line: NamedLine): number {
  const bytes = new TextEncoder().encode(`${JSON.stringify(line)}\n`);
  for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  return bytes.length;
}
