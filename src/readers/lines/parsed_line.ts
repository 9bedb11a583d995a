/** What a line of a worker was recognised as. */
import type {
  EpisodeRecord,
  StepRecord,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import type { ByteText } from "../../base/text/byte_text.ts";

/**
 * Returns the rules of the run's telemetry schema that a record violates; see src/readers/schemas.
 */
export type RecordCheck = (
  kind: "step" | "episode",
  record: Record<string, unknown>,
) => readonly string[];

export interface ParsedStep {
  type: "step";
  step: StepRecord;
  violations: readonly string[];
}

/** A step whose line has a known shape; valid until the next line is read. */
export interface AlikeStep {
  type: "alike";
  step: StepRecord<string | ByteText>;
}

export type ParsedLine =
  | ParsedStep
  | { type: "episode"; episode: EpisodeRecord; violations: readonly string[] }
  | { type: "event"; event: WorkerEventRecord }
  | { type: "other" }
  /** Only white space. */
  | { type: "blank" }
  | { type: "malformed"; why: string };
