/** The original's contract, `gymgui.trainer.TrainerService`, on the core. */
import { COMMIT } from "../../base/version.ts";
import type { TrainerService } from "../../gen/gymgui/trainer_pb.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import { submitters } from "../call/calls.ts";
import { Credits } from "../call/credits.ts";
import { runRecord, statesOf } from "./run_records.ts";
import { SharedEncodings } from "../records/shared_encodings.ts";
import type { Handlers } from "../call/handlers.ts";
import { timestampOfMs } from "../../wire/time.ts";
import { controlStream } from "./trainer_control.ts";
import { publishEpisodes, publishSteps } from "./trainer_publish.ts";
import { RUN_EPISODES, RUN_STEPS } from "../records/record_forms.ts";
import { everyRun, streamRecords, watchRuns } from "./trainer_streams.ts";

/** The run, by its exact id, as the original's clients give it. */
function known(core: Core, runId: string) {
  const row = core.runs.get(runId);
  if (row === undefined) {
    throw new MosaicError("not_found", `run not found: "${runId}"`, {
      hint: "ListRuns shows the runs there are.",
    });
  }
  return row;
}

/** Fields of GetHealth that the core does not know. */
export interface Health {
  /** The daemon's listen address. */
  address: () => string;
  healthy: () => boolean;
}

export function trainerHandlers(
  core: Core,
  health: Health,
  credits = new Credits(),
): Handlers<typeof TrainerService> {
  const encodings = new SharedEncodings(core);
  const submitterOf = submitters();
  return {
    submitRun(request, caller) {
      const submitted = core.submit(
        request.configJson,
        request.runId === "" ? undefined : request.runId,
        submitterOf(caller),
      );
      caller.run = submitted.runId;
      return submitted;
    },
    cancelRun(request) {
      core.cancel(known(core, request.runId).runId);
      return {};
    },
    async listRuns(request) {
      const records = [];
      for await (const runs of everyRun(core, statesOf(request.statusFilter))) {
        records.push(...runs.map(runRecord));
      }
      return { runs: records };
    },
    watchRuns: (request, out, caller) => watchRuns(core, request, out, caller),
    heartbeat(request) {
      core.heartbeat(known(core, request.runId).runId);
      return {};
    },
    registerWorker(request) {
      if (request.runId === "") {
        throw new MosaicError(
          "invalid_argument",
          "run_id is empty: name the run the worker belongs to",
        );
      }
      known(core, request.runId);
      const { $typeName: _, $unknown: __, ...fields } = request;
      return core.registerWorker(fields);
    },
    controlStream: (incoming, out, caller) => controlStream(core, credits, incoming, out, caller),
    getHealth() {
      return {
        pid: BigInt(Deno.pid),
        startedAt: timestampOfMs(core.startedAt),
        listenAddress: health.address(),
        healthy: health.healthy(),
        version: core.version,
        commit: COMMIT ?? "",
      };
    },
    streamRunSteps: (request, out, caller) =>
      streamRecords(core, credits, encodings, RUN_STEPS, request, out, caller),
    streamRunEpisodes: (request, out, caller) =>
      streamRecords(core, credits, encodings, RUN_EPISODES, request, out, caller),
    publishRunSteps: (incoming, caller) => publishSteps(core, incoming, caller),
    publishRunEpisodes: (incoming, caller) => publishEpisodes(core, incoming, caller),
  };
}
