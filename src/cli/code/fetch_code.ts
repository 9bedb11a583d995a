/** What ran, as the daemon has it. */
import type { CodeRecord as Message } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { AttemptsCode, CodeRecord, EnvironmentRecord } from "../../provenance/code_record.ts";
import { timeMs } from "../../runs/fields/field_json.ts";
import type { Link } from "../link/daemon_link.ts";

/** By attempt, the submission first; empty if nothing is recorded. */
export async function fetchCode(link: Link, run: string, diffs: boolean): Promise<AttemptsCode[]> {
  const { records } = await link.unary(link.methods.getCode, { run, diffs });
  return records.map(attemptsCode);
}

function attemptsCode({ attempt, at, codeJson, environmentJson, diff }: Message): AttemptsCode {
  return {
    attempt,
    at: timeMs(at) ?? 0,
    // The daemon has checked their form.
    code: JSON.parse(codeJson) as CodeRecord,
    environment: JSON.parse(environmentJson) as EnvironmentRecord,
    diff,
  };
}

export function codeJson({ attempt, at, code, environment }: AttemptsCode) {
  return { attempt, at: new Date(at).toISOString(), code, environment };
}
