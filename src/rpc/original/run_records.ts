/** Runs in the messages of the original's clients. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type RunRecordSchema, RunStatus } from "../../gen/gymgui/trainer_pb.ts";
import type { RunState } from "../../registry/lifecycle/lifecycle.ts";
import type { RunRow, TransitionRow } from "../../registry/row_types.ts";
import { optionalTimestamp, timestampOfMs } from "../../wire/time.ts";

/** The original has no status for CANCELLED: it is TERM with the failure reason `user_cancel`. */
const STATUS: Record<RunState, RunStatus> = {
  INIT: RunStatus.INIT,
  HANDSHAKE: RunStatus.HSHK,
  READY: RunStatus.RDY,
  EXECUTING: RunStatus.EXEC,
  PAUSED: RunStatus.PAUSE,
  FAULTED: RunStatus.FAULT,
  TERMINATED: RunStatus.TERM,
  CANCELLED: RunStatus.TERM,
};

const STATES = Object.keys(STATUS) as RunState[];

type RunRecordInit = MessageInitShape<typeof RunRecordSchema>;

/**
 * Invalid status numbers are ignored; if none is left, all runs match (undefined), as in the
 * original.
 */
export function statesOf(filter: readonly RunStatus[]): RunState[] | undefined {
  const wanted = new Set(filter);
  const states = STATES.filter((state) => wanted.has(STATUS[state]));
  return states.length === 0 ? undefined : states;
}

function failureReason(state: RunState, reason: string | null): string | undefined {
  if (state === "CANCELLED") return reason ?? "user_cancel";
  return state === "FAULTED" ? reason ?? "unknown" : undefined;
}

export function runRecord(row: RunRow): RunRecordInit {
  return {
    runId: row.runId,
    status: STATUS[row.state],
    digest: row.digest,
    createdAt: timestampOfMs(row.createdAt),
    updatedAt: timestampOfMs(row.updatedAt),
    lastHeartbeat: optionalTimestamp(row.lastHeartbeatAt),
    gpuSlot: row.gpuSlots[0],
    failureReason: failureReason(row.state, row.reason),
    gpuSlots: row.gpuSlots,
    seqId: 0n,
  };
}

/** The run at a transition; fields that transitions do not store have their current values. */
export function runRecordAt(row: RunRow, transition: TransitionRow): RunRecordInit {
  return {
    ...runRecord(row),
    status: STATUS[transition.to],
    updatedAt: timestampOfMs(transition.at),
    failureReason: failureReason(transition.to, transition.reason),
    seqId: BigInt(transition.seq),
  };
}
