/** What ran, as the daemon has it. */
import type { AttemptsCode } from "../../provenance/code_record.ts";
import { attemptsCode } from "../../runs/fields/code_records.ts";
import type { Link } from "../link/daemon_link.ts";

/** By attempt, the submission first; empty if nothing is recorded. */
export async function fetchCode(link: Link, run: string, diffs: boolean): Promise<AttemptsCode[]> {
  const { records } = await link.unary(link.methods.getCode, { run, diffs });
  return records.map(attemptsCode);
}

export function codeJson({ attempt, at, code, environment }: AttemptsCode) {
  return { attempt, at: new Date(at).toISOString(), code, environment };
}
