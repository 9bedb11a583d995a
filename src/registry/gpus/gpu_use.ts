/** Time of GPUs: one card for one millisecond is 1. */

export interface GpuTime {
  /** Their utilisation was known. */
  measuredMs: number;
  /** It was below IDLE_PERCENT. */
  idleMs: number;
}

export interface GpuUse extends GpuTime {
  runId: string;
  name: string;
  /** Who submitted the run: a token's name, or uid:N; "": not known. */
  submitter: string;
  /** None of a run that was deleted for good. */
  tags: readonly string[];
  /** From its claim to its release. */
  gpuMs: number;
}

/** A card is idle below this utilisation, percent. */
export const IDLE_PERCENT = 5;
