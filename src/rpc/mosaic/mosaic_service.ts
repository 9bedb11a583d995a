/**
 * `mosaic.v1.Mosaic`: calls that the original's contract lacks. Runs are named by id, unique
 * prefix, name or "@last".
 */
import { sweepOf } from "../../dispatch/queue/users.ts";
import type { Bounds } from "../../base/load_limits.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { parameterNames } from "../../dispatch/core/run_parameters.ts";
import { MosaicError } from "../../base/errors.ts";
import type { Mosaic } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { RUN_STATES, type RunState } from "../../registry/lifecycle/lifecycle.ts";
import type { RunFilter, RunRow } from "../../registry/row_types.ts";
import { bytesOfOwners } from "../../registry/retention/disk_usage.ts";
import { presentConfig } from "../../config/present_config.ts";
import { streamLogs } from "./log_stream.ts";
import { streamEvents, streamTelemetry } from "./mosaic_streams.ts";
import { artifactMessage, hostMessage } from "../../runs/fields/host_json.ts";
import { lineageMessage, namedMessage } from "../../dispatch/lineage/lineage_message.ts";
import { sweepMessage } from "./sweep_message.ts";
import { runMessage } from "../../runs/fields/run_json.ts";
import { SharedEncodings } from "../records/shared_encodings.ts";
import { submitters } from "../call/calls.ts";
import type { Handlers } from "../call/handlers.ts";
import { msOfTimestamp, timestampOfMs } from "../../wire/time.ts";

const DEFAULT_LIMIT = 1000;
const MAX_LIMIT = 10_000;
const DEFAULT_BUCKETS = 500;
const MAX_BUCKETS = 10_000;

function statesOf(names: readonly string[]): RunState[] | undefined {
  if (names.length === 0) return undefined;
  return names.map((name) => {
    const state = RUN_STATES.find((s) => s === name.toUpperCase());
    if (state === undefined) {
      throw new MosaicError(
        "invalid_argument",
        `states has "${name}": a state is one of ${RUN_STATES.join(", ")}`,
      );
    }
    return state;
  });
}

export function mosaicHandlers(
  core: Core,
  bounds: Pick<Bounds, "logLines">,
): Handlers<typeof Mosaic> {
  const named = (ref: string): string => {
    if (ref !== "") return ref;
    throw new MosaicError(
      "invalid_argument",
      "run is empty: give its id, a prefix of it, its name or @last",
    );
  };
  const resolve = (ref: string): RunRow => core.runs.resolve(named(ref));
  /** Also one in the trash. */
  const anyRun = (ref: string): string => {
    try {
      return resolve(ref).runId;
    } catch (error) {
      if (!(error instanceof MosaicError && error.code === "not_found")) throw error;
      return core.runs.resolveDeleted(ref).runId;
    }
  };
  const encodings = new SharedEncodings(core);
  const submitterOf = submitters();
  const answer = (row: RunRow) => runMessage(core.detail(row));

  return {
    getRun(request, { principal }) {
      const row = resolve(request.run);
      const run = runMessage(core.whole(row));
      const hidden = principal.type === "role" && principal.role !== "admin";
      return hidden ? { ...run, configJson: presentConfig(row.configJson, false).text } : run;
    },
    async listRuns(request, caller) {
      const filter: RunFilter = {
        states: statesOf(request.states),
        nameContains: request.nameContains === "" ? undefined : request.nameContains,
        tags: request.tags.length === 0 ? undefined : request.tags,
        submittedSince: request.submittedSince && msOfTimestamp(request.submittedSince),
        within: request.within === "" ? undefined : resolve(request.within).runId,
        deleted: request.deleted,
        owner: request.mine ? submitterOf(caller) : undefined,
      };
      const limit = request.limit === 0 ? DEFAULT_LIMIT : Math.min(request.limit, MAX_LIMIT);
      const token = request.pageToken === "" ? undefined : request.pageToken;
      const { where, sort, columns } = request;
      const { runs, values, nextToken, total } = await core.query(filter, {
        where,
        sort,
        columns,
        limit,
        token,
      });
      return {
        runs: runs.map(runMessage),
        values: columns.length === 0
          ? []
          : values.map((row) => ({ json: row.map((value) => JSON.stringify(value)) })),
        nextPageToken: nextToken ?? "",
        total: BigInt(total),
      };
    },
    cancelRun(request) {
      const row = resolve(request.run);
      const grace = request.graceSeconds;
      if (grace !== undefined && !(grace >= 0 && grace <= 3600)) {
        throw new MosaicError(
          "invalid_argument",
          `grace_seconds is ${grace}: give 0 to 3600 seconds`,
        );
      }
      return answer(core.cancel(row.runId, { graceSeconds: grace }));
    },
    pauseRun: (request) => answer(core.pause(resolve(request.run).runId)),
    resumeRun: (request) => answer(core.resume(resolve(request.run).runId)),
    throttleRun: (request) => answer(core.throttle(resolve(request.run).runId, request.maxRateHz)),
    editRun: ({ run, name, addTags, removeTags, notes }) =>
      answer(core.edit(resolve(run).runId, { name, addTags, removeTags, notes })),
    async observeFiles({ run, patterns }) {
      const { runId } = resolve(run);
      const files = await core.observe(runId, patterns);
      return {
        run: answer(core.runs.require(runId)),
        files: files.map((f) => ({ ...f, records: BigInt(f.records) })),
      };
    },
    retryRun: (request) => answer(core.retry(resolve(request.run).runId)),
    resetRun: async ({ run, fromCheckpoint }) =>
      answer(await core.reset(resolve(run).runId, fromCheckpoint)),
    importRun: async ({ directory }) => answer(await core.importRun(directory)),
    async deleteRun({ run, forever }) {
      const { freedBytes, until } = await core.delete(
        forever ? anyRun(run) : resolve(run).runId,
        forever,
      );
      return {
        freedBytes: BigInt(freedBytes),
        keptUntil: until === null ? undefined : timestampOfMs(until),
      };
    },
    restoreRun: ({ run }) => answer(core.restore(core.runs.resolveDeleted(named(run)).runId)),
    validateConfig: (request) => core.validate(request.configJson),
    streamTelemetry: (request, out, caller) =>
      streamTelemetry(core, encodings, request, out, caller),
    streamEvents: (request, out, caller) => streamEvents(core, request, out, caller),
    streamLogs: (request, out, caller) => streamLogs(core, bounds.logLines, request, out, caller),
    listSeries(request) {
      const { runId } = resolve(request.run);
      return {
        series: (request.sources ? core.records.listSources(runId) : core.records.listSeries(runId))
          .map((
            { name, points, nonFinite, last, min, max, mean, minStep, maxStep, label, copyOf },
          ) => ({
            source: label,
            copyOf: copyOf ?? "",
            name,
            points: BigInt(points),
            nonFinite: BigInt(nonFinite),
            last: last ?? undefined,
            min: min ?? undefined,
            max: max ?? undefined,
            mean: mean ?? undefined,
            minStep: minStep === null ? undefined : BigInt(minStep),
            maxStep: maxStep === null ? undefined : BigInt(maxStep),
          })),
      };
    },
    listColumns: () => ({ parameters: parameterNames(core), metrics: core.records.seriesNames() }),
    getSeries(request) {
      const { runId } = resolve(request.run);
      if (request.name === "") {
        throw new MosaicError("invalid_argument", "name is empty: ListSeries gives the names");
      }
      const buckets = request.buckets === 0
        ? DEFAULT_BUCKETS
        : Math.min(request.buckets, MAX_BUCKETS);
      const all = request.fromX === 0n && request.toX === 0n;
      const toX = all ? Number.MAX_SAFE_INTEGER : Number(request.toX);
      const rows = core.records.series(runId, request.name, Number(request.fromX), toX, buckets)
        .filter((row) => request.overwritten || !row.overwritten);
      return {
        buckets: rows.map((row) => ({
          ...row,
          firstX: BigInt(row.firstX),
          lastX: BigInt(row.lastX),
          count: BigInt(row.count),
          step: row.step ?? undefined,
          attempt: row.attempt ?? undefined,
        })),
        lastX: BigInt(rows.at(-1)?.lastX ?? 0),
        overwritten: core.records.overwritten(runId, request.name).map(({ first, last }) => ({
          firstX: BigInt(first),
          lastX: BigInt(last),
        })),
      };
    },
    listArtifacts(request) {
      return { artifacts: core.runs.artifacts(resolve(request.run).runId).map(artifactMessage) };
    },
    createSweep: async ({ specJson, sweepId, anyName }, caller) =>
      sweepMessage(await core.beginSweep(specJson, sweepId, anyName, submitterOf(caller))),
    async listSweeps({ limit }) {
      const sweeps = await core.listSweeps(
        limit === 0 ? DEFAULT_LIMIT : Math.min(limit, MAX_LIMIT),
      );
      return { sweeps: sweeps.map(sweepMessage) };
    },
    getSweep: async ({ sweep, trials }) => sweepMessage(await core.getSweep(sweep, trials)),
    deleteSweep: async ({ sweep }) => sweepMessage(await core.deleteSweep(sweep)),
    changeSweep: async ({ sweep, action, extensionJson }) =>
      sweepMessage(await core.changeSweep(sweep, action, extensionJson)),
    async getHost({ freshGpus }) {
      if (freshGpus) await core.lookAtGpus();
      return hostMessage(core.host());
    },
    getGpuUse: ({ since }) => ({
      runs: core.runs.gpus.use(since === undefined ? 0 : Number(since.seconds) * 1000).map((
        use,
      ) => ({
        ...{
          runId: use.runId,
          runName: use.name,
          submitter: use.submitter,
          sweep: sweepOf(use.tags).slice("sweep:".length),
          gpuSeconds: use.gpuMs / 1000,
        },
        ...{ measuredSeconds: use.measuredMs / 1000, idleSeconds: use.idleMs / 1000 },
      })),
    }),
    async getDiskUsage() {
      const usage = await core.diskUsage();
      const { byRun, byBase, telemetryByRun } = usage;
      const counts = (entries: Iterable<[string, number]>) =>
        Object.fromEntries([...entries].map(([name, bytes]) => [name, BigInt(bytes)]));
      return {
        runs: counts(byRun),
        telemetry: counts(telemetryByRun),
        owners: counts(bytesOfOwners(usage, core.runs.owners())),
        maxPerOwner: core.maxDiskPerUser === undefined ? undefined : BigInt(core.maxDiskPerUser),
        directories: counts(Object.entries(byBase)),
        telemetryBytes: BigInt(core.records.fileBytes()),
        registryBytes: BigInt(core.runs.fileBytes()),
      };
    },
    async recordCode(record, caller) {
      const row = resolve(record.runId);
      const { principal } = caller;
      if (principal.type === "role" && (principal.role === "submit" || principal.own)) {
        // An owner's command that runs the record's code again must not run somebody else's.
        if (row.owner !== submitterOf(caller)) {
          throw new MosaicError(
            "permission_denied",
            `run ${row.name} was submitted by ${row.owner || "somebody else"}`,
            {
              hint: "What ran is recorded by whoever submits it.",
            },
          );
        }
      }
      if (record.attempt !== 0) {
        throw new MosaicError(
          "invalid_argument",
          `attempt is ${record.attempt}: a client records the submission, which is 0`,
        );
      }
      await core.recordCode(record);
      return {};
    },
    getCode: ({ run, diffs }) => ({
      records: core.code(resolve(run).runId, diffs).map((record) => ({
        ...record,
        at: timestampOfMs(record.at),
      })),
    }),
    getLineage: ({ run }) => lineageMessage(core.lineage.of(resolve(run))),
    getNamedArtifact({ artifact }) {
      const found = core.lineage.find(artifact);
      return { ...found, bytes: BigInt(found.bytes) };
    },
    nameArtifact: ({ artifact, name, aliases }) =>
      namedMessage(core.lineage.name(artifact, name, aliases)),
    listNamedArtifacts: ({ name }) => ({
      artifacts: core.lineage.versions(name).map(namedMessage),
    }),
    testMessages: async ({ receiver }) => ({ results: await core.testMessages(receiver) }),
    shutdown() {
      core.requestShutdown("asked for by a client");
      return {};
    },
  };
}
