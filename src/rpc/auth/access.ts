/**
 * Who may call what. A method that is not in this table is refused, and a test compares the table
 * with everything that is served.
 * - `open`: anybody who can connect (probes)
 * - `read`: read everything except the secrets in configs
 * - `submit`: also submit runs
 * - `operate`: also pause, throttle, cancel, retry and reset any run
 * - `admin`: everything
 * `session` returns the run of a request that the run's own session token may make: the token
 * publishes for that run and nothing else. `worker`: the token of its worker may make it, too.
 */
import type { DescMethod } from "@bufbuild/protobuf";
import { TrainerService } from "../../gen/gymgui/trainer_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { Ingest, type ProxyMessage } from "../../gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { methodPath } from "../../wire/method_path.ts";
import type { Role } from "../../wire/tokens.ts";

export interface Rule {
  needs: "open" | Role;
  /** What a token for its own runs needs, if that is less. */
  ofOwn?: Role;
  /** The run of a message; undefined for one that follows the message that named it. */
  session?: (message: unknown) => string | undefined;
  worker?: boolean;
}

const OPEN: Rule = { needs: "open" };
const READ: Rule = { needs: "read" };
const SUBMIT: Rule = { needs: "submit" };
const OPERATE: Rule = { needs: "operate" };
const ADMIN: Rule = { needs: "admin" };
/** Deletes; who may operate only their own runs may delete those. */
const DELETE: Rule = { needs: "admin", ofOwn: "operate" };
const OWN_RUN: Rule = {
  needs: "admin",
  worker: true,
  session: (message) => (message as { runId: string }).runId,
};
/**
 * A proxy reports how far the journal is stored and how the worker ended: the worker itself must
 * not.
 */
const OWN_CONTROL: Rule = { ...OWN_RUN, needs: "operate" };
const OWN_DELIVERY: Rule = {
  needs: "admin",
  session: (message) => {
    const { message: part } = message as ProxyMessage;
    return part.case === "hello" ? part.value.runId : undefined;
  },
};

/** Only for the proxy: the worker finds the checkpoint on its host, and does not say what it is. */
const OWN_ATTEMPT: Rule = {
  needs: "admin",
  session: (message) => (message as { runId: string }).runId,
};

const trainer = TrainerService.method;
const mosaic = Mosaic.method;

const TABLE: readonly [DescMethod, Rule][] = [
  [Health.method.check, OPEN],
  [Health.method.list, OPEN],
  [Health.method.watch, OPEN],
  [ServerReflection.method.serverReflectionInfo, READ],

  [trainer.submitRun, SUBMIT],
  [trainer.cancelRun, OPERATE],
  [trainer.listRuns, READ],
  [trainer.watchRuns, READ],
  [trainer.heartbeat, OWN_RUN],
  [trainer.registerWorker, OWN_RUN],
  [trainer.controlStream, OWN_CONTROL],
  [trainer.getHealth, READ],
  [trainer.streamRunSteps, READ],
  [trainer.streamRunEpisodes, READ],
  [trainer.publishRunSteps, OWN_RUN],
  [trainer.publishRunEpisodes, OWN_RUN],

  [mosaic.getRun, READ],
  [mosaic.listRuns, READ],
  [mosaic.cancelRun, OPERATE],
  [mosaic.pauseRun, OPERATE],
  [mosaic.resumeRun, OPERATE],
  [mosaic.throttleRun, OPERATE],
  [mosaic.editRun, OPERATE],
  [mosaic.observeFiles, OPERATE],
  [mosaic.retryRun, OPERATE],
  [mosaic.resetRun, OPERATE],
  [mosaic.deleteRun, DELETE],
  [mosaic.restoreRun, DELETE],
  [mosaic.importRun, ADMIN],
  [mosaic.validateConfig, READ],
  [mosaic.streamTelemetry, READ],
  [mosaic.streamEvents, READ],
  [mosaic.streamLogs, READ],
  [mosaic.listSeries, READ],
  [mosaic.listColumns, READ],
  [mosaic.getSeries, READ],
  [mosaic.listArtifacts, READ],
  [mosaic.getHost, READ],
  [mosaic.createSweep, SUBMIT],
  [mosaic.listSweeps, READ],
  [mosaic.getSweep, READ],
  [mosaic.changeSweep, OPERATE],
  [mosaic.deleteSweep, DELETE],
  [mosaic.getGpuUse, READ],
  [mosaic.getDiskUsage, READ],
  [mosaic.recordCode, SUBMIT],
  [mosaic.getCode, READ],
  [mosaic.getLineage, READ],
  [mosaic.getNamedArtifact, READ],
  [mosaic.nameArtifact, OPERATE],
  [mosaic.listNamedArtifacts, READ],
  [mosaic.testMessages, ADMIN],
  [mosaic.shutdown, ADMIN],

  [Ingest.method.deliver, OWN_DELIVERY],
  [Ingest.method.fetch, OWN_ATTEMPT],
  [Ingest.method.reportCode, OWN_ATTEMPT],
];

const RULES = new Map(TABLE.map(([method, rule]) => [methodPath(method), rule]));

/** @param path `/package.Service/Method` */
export function ruleOf(path: string): Rule | undefined {
  return RULES.get(path);
}
