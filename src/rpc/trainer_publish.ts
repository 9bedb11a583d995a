/** PublishRunSteps and PublishRunEpisodes: the original's proxy delivers one record a message. */
import type { RunEpisode, RunStep } from "../gen/gymgui/trainer_pb.ts";
import type { Core } from "../dispatch/core/core.ts";
import { MosaicError } from "../base/errors.ts";
import type { Caller, Incoming } from "./handlers.ts";
import { episodeRecord, stepRecord } from "./step_records.ts";
import { turn } from "./turns.ts";
import { pause } from "../wire/waiting.ts";

/** While the disk is full the stream is held, not refused: the original's proxy would drop what it could not send. */
const RETRY_MS = 1000;

type Store<T> = (runId: string, messages: T[]) => void;

export function publishSteps(core: Core, incoming: Incoming<RunStep>, caller: Caller) {
  return publish(core, incoming, caller, (runId, steps: RunStep[]) => core.publish(runId, steps.map(stepRecord), []));
}

export function publishEpisodes(core: Core, incoming: Incoming<RunEpisode>, caller: Caller) {
  return publish(
    core,
    incoming,
    caller,
    (runId, episodes: RunEpisode[]) => core.publish(runId, [], episodes.map(episodeRecord)),
  );
}

async function publish<T extends { runId: string }>(
  core: Core,
  incoming: Incoming<T>,
  caller: Caller,
  store: Store<T>,
): Promise<{ accepted: bigint; dropped: bigint }> {
  let runId: string | undefined;
  let accepted = 0;
  for (;;) {
    const messages = await incoming.take();
    if (messages.length === 0) return { accepted: BigInt(accepted), dropped: 0n };
    const wrong = messages.findIndex((message) => message.runId === "" || message.runId !== (runId ??= message.runId));
    // What came before a wrong message counts.
    const good = wrong === -1 ? messages : messages.slice(0, wrong);
    if (good.length > 0) {
      if (core.runs.get(runId!) === undefined) {
        throw new MosaicError("not_found", `run not registered: "${runId}"`);
      }
      await stored(core, caller, () => store(runId!, good));
      accepted += good.length;
    }
    if (wrong !== -1) throw wrongRun(messages[wrong]!.runId, runId);
    await turn();
  }
}

function wrongRun(got: string, first: string | undefined): MosaicError {
  return got === ""
    ? new MosaicError("invalid_argument", "run_id is empty: every record names its run")
    : new MosaicError("invalid_argument", `run_id changed from "${first}" to "${got}": one stream carries one run`);
}

/** Stores, waiting for as long as the store cannot be written. */
async function stored(core: Core, caller: Caller, store: () => void): Promise<void> {
  for (;;) {
    try {
      return store();
    } catch (error) {
      if (!(error instanceof MosaicError) || error.code !== "unavailable") throw error;
      core.log.warn(
        { rpc: caller.path, cause: error.message },
        "telemetry cannot be stored just now; its sender waits",
      );
      await pause(RETRY_MS, caller.signal);
      if (caller.signal.aborted) throw error;
    }
  }
}
