/** The read-only interface of the registry, which registry.ts implements. */
import type { CodeRow } from "./code/code_rows.ts";
import type { GpuRows } from "./gpus/gpu_rows.ts";
import type { Parameter } from "../records/parameters.ts";
import type {
  ArtifactRow,
  EventFilter,
  EventRow,
  RunFilter,
  RunOutline,
  RunRow,
  TransitionRow,
} from "./row_types.ts";

export interface RunReader {
  /** Not of a run in the trash. */
  get(runId: string): RunRow | undefined;
  /** Also of a run in the trash. */
  known(runId: string): RunRow | undefined;
  /**
   * As `resolve`, of the runs in the trash. @throws MosaicError `not_found`, `invalid_argument`
   * (ambiguous)
   */
  resolveDeleted(ref: string, owner?: string): RunRow;
  /** @throws MosaicError `not_found` */
  require(runId: string): RunRow;
  /**
   * By id, unique id prefix, unique name, or "@last". @param owner only among this owner's
   * @throws MosaicError `not_found`,
   * `invalid_argument` (ambiguous)
   */
  resolve(ref: string, owner?: string): RunRow;
  /**
   * Newest submitted first, or oldest. @throws MosaicError `invalid_argument` for a token that no
   * page returned
   */
  list(
    filter: RunFilter,
    page: { limit: number; token?: string; oldestFirst?: boolean },
  ): { runs: RunRow[]; nextToken: string | undefined };
  count(filter: RunFilter): number;
  /** All matching runs, newest submitted first, without their configs. */
  outlines(filter: RunFilter): RunOutline[];
  /** `metadata.objective` of the runs that have one, by run id. */
  objectives(): Map<string, string>;
  /** By run id, also of runs in the trash. */
  owners(): Map<string, string>;
  countByState(owner?: string): Record<string, number>;
  /** Of the runs that have, or may have, processes. */
  sessionTokens(): { runId: string; token: string }[];
  /** The ended attempt whose proxy or worker had this token. */
  pastAttempt(token: string): { runId: string; attempt: number } | undefined;
  artifacts(runId: string): ArtifactRow[];
  /** Parameters from the run's config and command line, by source. */
  parameters(runId: string): Parameter[];
  /** Parameters of this name, of all runs. */
  parametersNamed(name: string): (Parameter & { runId: string })[];
  /** Names of parameters in all runs. */
  parameterNames(owner?: string): string[];
  /** What ran, by attempt; 0 is the submission. */
  code(runId: string): CodeRow[];
  /** zstd; undefined for an unknown hash. */
  codeText(hash: string): Uint8Array | undefined;
  readonly gpus: Pick<GpuRows, "slots" | "use">;

  /** Of one run, oldest first. */
  transitions(runId: string): TransitionRow[];
  /** Of all runs, those with a higher seq, ascending. */
  transitionsSince(seq: number, limit: number, owner?: string): TransitionRow[];
  /** The newest seq; 0 when there is none. */
  transitionHead(): number;
  /** Resolves when there is a transition after `seq`, or when the signal aborts. */
  waitTransitionsBeyond(seq: number, signal: AbortSignal): Promise<void>;

  /** Those with a higher seq, ascending. */
  eventsSince(seq: number, options: EventFilter & { limit: number }): EventRow[];
  /** The seq after which the newest `count` events of this kind begin; 0 when there are no more. */
  seqBeforeNewest(count: number, filter: EventFilter): number;
  /** The newest seq; 0 when there is none. */
  eventHead(): number;
  /** Resolves when there is an event (of any run) after `seq`, or when the signal aborts. */
  waitEventsBeyond(seq: number, signal: AbortSignal): Promise<void>;

  /** Whether the database can be written. */
  writable(): boolean;
  /** Bytes of the database with its write-ahead log. */
  fileBytes(): number;
}
