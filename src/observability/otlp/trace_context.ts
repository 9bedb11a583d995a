/**
 * Trace ids of a run (W3C Trace Context). They are derived from the run's id, so that a restarted
 * daemon continues the same trace, and the worker gets its parent span's id before any span is
 * exported.
 */
import { sha256 } from "../../base/node_modules.ts";

const hex = (text: string, digits: number) => sha256().update(text).digest("hex").slice(0, digits);

export interface TraceIds {
  traceId: string;
  /** Span `trainer.run`. */
  runSpanId: string;
}

export function traceIds(runId: string): TraceIds {
  return { traceId: hex(`trace ${runId}`, 32), runSpanId: hex(`run ${runId}`, 16) };
}

/** Span `trainer.worker.spawn` of an attempt. */
export function spawnSpanId(runId: string, attempt: number): string {
  return hex(`spawn ${runId} ${attempt}`, 16);
}

/**
 * The environment variable TRACEPARENT of an attempt's worker: its spans become children of the
 * run's.
 */
export function traceparent(runId: string): string {
  const { traceId, runSpanId } = traceIds(runId);
  return `00-${traceId}-${runSpanId}-01`;
}
