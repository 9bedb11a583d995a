/**
 * WatchRuns, StreamRunSteps and StreamRunEpisodes of the original's contract: streams that never
 * end by themselves.
 */
import type { DescMessage } from "@bufbuild/protobuf";
import type { RunRecordSchema, WatchRunsRequest } from "../../gen/gymgui/trainer_pb.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import type { RunState } from "../../registry/lifecycle/lifecycle.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { Credits } from "../call/credits.ts";
import { recordChunks, sinceOf } from "../records/cursors.ts";
import { messagesOf } from "../../wire/message_frames.ts";
import type { Form } from "../records/record_forms.ts";
import type { SharedEncodings } from "../records/shared_encodings.ts";
import { runRecord, runRecordAt, statesOf } from "./run_records.ts";
import type { Caller, Outgoing } from "../call/handlers.ts";
import { turn } from "../call/turns.ts";
import { anyOf } from "../../wire/http/waiting.ts";

const TRANSITIONS_A_READ = 256;
const RUNS_A_PAGE = 100;

/**
 * Every run that matches the filter, oldest submitted first, a page at a time, so that other work
 * can run in between.
 */
export async function* everyRun(
  core: Core,
  states: RunState[] | undefined,
): AsyncGenerator<RunRow[], void> {
  let token: string | undefined;
  do {
    const page = { limit: RUNS_A_PAGE, token, oldestFirst: true };
    const { runs, nextToken } = core.runs.list(states === undefined ? {} : { states }, page);
    yield runs;
    token = nextToken;
    if (token !== undefined) await turn();
  } while (token !== undefined);
}

/** The current runs (if `since_seq` is 0 or from another registry), then every later transition. */
export async function watchRuns(
  core: Core,
  request: WatchRunsRequest,
  out: Outgoing<typeof RunRecordSchema>,
  caller: Caller,
): Promise<void> {
  const states = statesOf(request.statusFilter);
  const wanted = states && new Set(states);
  let cursor = sinceOf(request.sinceSeq);
  const head = core.runs.transitionHead();
  if (cursor === 0 || cursor > head) {
    // The head was read first: a transition in between may be sent twice, but is never missed.
    cursor = head;
    for await (const runs of everyRun(core, states)) {
      for (const row of runs) await out.send(runRecord(row));
    }
  }
  const closed = core.activity.subscribers.opened(
    "grpc",
    "transitions",
    () => core.runs.transitionHead() - cursor,
  );
  try {
    while (!caller.signal.aborted) {
      const transitions = core.runs.transitionsSince(cursor, TRANSITIONS_A_READ);
      if (transitions.length === 0) {
        await core.runs.waitTransitionsBeyond(cursor, caller.signal);
        continue;
      }
      for (const transition of transitions) {
        cursor = transition.seq;
        if (wanted !== undefined && !wanted.has(transition.to)) continue;
        const row = core.runs.get(transition.runId);
        if (row !== undefined && row.parent === null) await out.send(runRecordAt(row, transition));
      }
      await turn();
    }
  } finally {
    closed();
  }
}

function required(runId: string): string {
  if (runId === "") {
    throw new MosaicError("invalid_argument", "run_id is empty: name the run to stream");
  }
  return runId;
}

/** Records of one kind; each needs a credit if the subscriber requested credits. */
export async function streamRecords<K extends "steps" | "episodes">(
  core: Core,
  credits: Credits,
  encodings: SharedEncodings,
  form: Form<K>,
  request: { runId: string; sinceSeq: bigint },
  out: Outgoing<DescMessage>,
  caller: Caller,
): Promise<void> {
  const runId = required(request.runId);
  caller.follows(runId);
  const options = {
    since: sinceOf(request.sinceSeq),
    signal: caller.signal,
    follow: "forever",
  } as const;
  using run = core.records.follow(runId);
  using open = anyOf(caller.signal, run.deleted);
  const credited = credits.open(core, caller, runId, form.kind);
  try {
    for await (const { framed } of recordChunks(core, run, encodings, form, options)) {
      if (credited === undefined) {
        await out.sendFrames(framed);
        continue;
      }
      for (const message of messagesOf(framed)) {
        await credited.take(open.signal);
        await out.sendBytes(message);
      }
    }
  } finally {
    credited?.close();
  }
}
