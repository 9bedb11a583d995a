/** PublishRunSteps and PublishRunEpisodes: the original's proxy delivers one record per message. */
import type { RunEpisode, RunStep } from "../../gen/gymgui/trainer_pb.ts";
import { episodeOfMessage, stepOfMessage } from "../../gen/records/run_frames.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import type { Caller, Incoming } from "../call/handlers.ts";
import { turn } from "../call/turns.ts";
import { untilStored } from "../call/until_stored.ts";
import { nsOfTimestamp } from "../../wire/time.ts";

type Store<T> = (runId: string, messages: T[]) => void;

export function publishSteps(core: Core, incoming: Incoming<RunStep>, caller: Caller) {
  const store = (runId: string, steps: RunStep[]) =>
    core.publish(runId, steps.map((step) => stepOfMessage(step, nsOfTimestamp)), []);
  return publish(core, incoming, caller, store);
}

export function publishEpisodes(core: Core, incoming: Incoming<RunEpisode>, caller: Caller) {
  const store = (runId: string, episodes: RunEpisode[]) =>
    core.publish(runId, [], episodes.map((episode) => episodeOfMessage(episode, nsOfTimestamp)));
  return publish(core, incoming, caller, store);
}

async function publish<T extends { runId: string }>(
  core: Core,
  incoming: Incoming<T>,
  caller: Caller,
  store: Store<T>,
): Promise<{ accepted: bigint; dropped: bigint }> {
  let runId: string | undefined;
  /** The attempt in which the stream began. */
  let attempt: number | undefined;
  let accepted = 0;
  for (;;) {
    const messages = await incoming.take();
    if (messages.length === 0) return { accepted: BigInt(accepted), dropped: 0n };
    const wrong = messages.findIndex((message) =>
      message.runId === "" || message.runId !== (runId ??= message.runId)
    );
    // Messages before an invalid one are stored.
    const good = wrong === -1 ? messages : messages.slice(0, wrong);
    if (good.length > 0) {
      const run = core.runs.get(runId!);
      if (run === undefined) throw new MosaicError("not_found", `run not registered: "${runId}"`);
      attempt ??= run.attempt;
      if (attempt !== run.attempt) {
        throw new MosaicError(
          "failed_precondition",
          `attempt ${attempt} of run ${runId} has ended; the run is in attempt ${run.attempt}`,
        );
      }
      // The stream waits and is not refused: the original's proxy would drop what it could not
      // send.
      await untilStored(() => store(runId!, good), {
        signal: caller.signal,
        failed: ({ message }) =>
          core.log.warn(
            { rpc: caller.path, cause: message },
            "telemetry cannot be stored now; its sender waits",
          ),
      });
      accepted += good.length;
    }
    if (wrong !== -1) throw wrongRun(messages[wrong]!.runId, runId);
    await turn();
  }
}

function wrongRun(got: string, first: string | undefined): MosaicError {
  return got === ""
    ? new MosaicError("invalid_argument", "run_id is empty: every record names its run")
    : new MosaicError(
      "invalid_argument",
      `run_id changed from "${first}" to "${got}": one stream carries one run`,
    );
}
