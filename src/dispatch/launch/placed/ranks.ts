/** Reads what the ranks of an attempt have recorded (launch/slurm/ranks.ts). */
import type { RunFiles } from "../../../base/layout.ts";
import { parsedObject } from "../../../base/text/json_text.ts";
import { readRecord } from "../../../os/files/untrusted.ts";

export interface Rank {
  rank: number;
  /** Its node; "" before it has begun. */
  node: string;
  /**
   * Its exit code, 128 + n for signal n; null while it runs, and if it was killed because another
   * rank had failed.
   */
  code: number | null;
  /** It failed first, which ended the others. */
  first: boolean;
}

export function readRanks(files: RunFiles, attempt: number, count: number): Rank[] {
  const first = firstFailure(files, attempt)?.rank;
  return Array.from({ length: count }, (_, rank) => {
    const found = read(`${files.rankRecord(attempt)}-${rank}.json`);
    return { rank, node: found?.node ?? "", code: found?.code ?? null, first: rank === first };
  });
}

/** The rank that failed first; undefined if none has recorded a failure. */
export function firstFailure(
  files: RunFiles,
  attempt: number,
): { rank: number; node: string; code: number } | undefined {
  const found = read(`${files.rankRecord(attempt)}-first.json`);
  return found === undefined || found.code === null ? undefined : { ...found, code: found.code };
}

function read(path: string): { rank: number; node: string; code: number | null } | undefined {
  const { rank, node, code } = parsedObject(readRecord(path) ?? "") ?? {};
  if (typeof rank !== "number" || typeof node !== "string") return undefined;
  return { rank, node, code: typeof code === "number" ? code : null };
}
