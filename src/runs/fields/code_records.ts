/** The daemon's answer to GetCode, as records. */
import type { CodeRecord as Message } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { AttemptsCode, CodeRecord, EnvironmentRecord } from "../../provenance/code_record.ts";
import { timeMs } from "./field_json.ts";

/** The daemon has checked the form of what they contain. */
export function attemptsCode(
  { attempt, at, codeJson, environmentJson, diff }: Message,
): AttemptsCode {
  return {
    attempt,
    at: timeMs(at) ?? 0,
    code: JSON.parse(codeJson) as CodeRecord,
    environment: JSON.parse(environmentJson) as EnvironmentRecord,
    diff,
  };
}
