/**
 * Stores and reads what ran. The records come from clients and proxies: their form is checked,
 * their content is shown as theirs.
 */
import { MosaicError } from "../../base/errors.ts";
import { zlib } from "../../base/node_modules.ts";
import { changedWords, changesSince } from "../../provenance/changes.ts";
import type { AttemptsCode, CodeRecord, EnvironmentRecord } from "../../provenance/code_record.ts";
import { MOST_DIFF_BYTES, MOST_RECORD_BYTES } from "../../provenance/bounds.ts";
import type { CodeRow } from "../../registry/code/code_rows.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunReader } from "../../registry/run_reader.ts";

export interface CodeToRecord {
  runId: string;
  /** 0: at its submission. */
  attempt: number;
  codeJson: string;
  environmentJson: string;
  diff: Uint8Array;
}

export interface RecordedCode {
  attempt: number;
  at: number;
  codeJson: string;
  environmentJson: string;
  diff: Uint8Array;
}

/** Masks are a little longer than the shortest secrets. */
const DIFF_SLACK = 1 << 20;

export async function recordCode(registry: Registry, record: CodeToRecord): Promise<void> {
  const { runId, attempt, codeJson, environmentJson, diff } = record;
  const row = registry.require(runId);
  if (attempt !== 0 && attempt !== row.attempt) {
    throw new MosaicError(
      "failed_precondition",
      `attempt ${attempt} of run ${runId} is not its newest, ${row.attempt}`,
    );
  }
  if (diff.length > MOST_DIFF_BYTES + DIFF_SLACK) {
    throw new MosaicError(
      "invalid_argument",
      `diff has ${diff.length} bytes; at most ${MOST_DIFF_BYTES} are stored`,
    );
  }
  const { checkedCode, checkedEnvironment } = await import("../../provenance/code_record.ts");
  const code = checkedCode(codeJson);
  const environment = checkedEnvironment(environmentJson);
  const [environmentBody, diffBody] = await Promise.all([
    compressed(new TextEncoder().encode(JSON.stringify(environment))),
    diff.length === 0 ? diff : compressed(diff),
  ]);
  const stored = {
    attempt,
    codeJson: JSON.stringify(code),
    environment: environmentBody,
    diff: diffBody,
  };
  // The run may have been deleted meanwhile.
  registry.recordCode(runId, stored, changeOf);
}

function changeOf(records: readonly CodeRow[]): { text: string; files: string[] } {
  const [first, ...others] = records;
  const newest = others.at(-1);
  if (first?.attempt !== 0 || newest === undefined) return { text: "", files: [] };
  const files = changesSince(
    JSON.parse(first.codeJson) as CodeRecord,
    JSON.parse(newest.codeJson) as CodeRecord,
  );
  return { text: changedWords(files), files };
}

export function recordedCode(runs: RunReader, runId: string, diffs: boolean): RecordedCode[] {
  const decoder = new TextDecoder();
  return runs.code(runId).map(({ attempt, at, codeJson, environment, diff }) => ({
    ...{ attempt, at, codeJson },
    environmentJson: decoder.decode(textOf(runs, environment, MOST_RECORD_BYTES)),
    diff: diffs ? textOf(runs, diff, MOST_DIFF_BYTES + DIFF_SLACK) : new Uint8Array(),
  }));
}

/** The same, read: for readers in this process. */
export function readCode(
  { attempt, at, codeJson, environmentJson, diff }: RecordedCode,
): AttemptsCode {
  return {
    ...{ attempt, at, diff },
    code: JSON.parse(codeJson) as CodeRecord,
    environment: JSON.parse(environmentJson) as EnvironmentRecord,
  };
}

/** Empty if there is none. */
function textOf(runs: RunReader, hash: string, most: number): Uint8Array {
  const body = hash === "" ? undefined : runs.codeText(hash);
  if (body === undefined) return new Uint8Array();
  return new Uint8Array(zlib().zstdDecompressSync(body, { maxOutputLength: most }));
}

/** On another thread. */
function compressed(bytes: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) =>
    zlib().zstdCompress(
      bytes,
      (error, body) => error ? reject(error) : resolve(new Uint8Array(body)),
    )
  );
}
