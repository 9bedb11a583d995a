/**
 * The core as an owner sees it who may see only their own runs: no other run is there. What is
 * about the whole host stays (its cards, memory, disk), without whose it is.
 */
import { MosaicError } from "../../base/errors.ts";
import { parsedObject } from "../../base/text/json_text.ts";
import { readAfter, SWEEP } from "../../config/queue_fields.ts";
import type { Core, HostInfo, RunDetail } from "../core/core.ts";
import { ownRecords, ownRuns } from "./own_runs.ts";

export function ownCore(core: Core, owner: string): Core {
  const runs = ownRuns(core.runs, owner);
  /** @throws MosaicError `not_found` for a run of others */
  const mine = (runId: string): string => (runs.known(runId) ?? runs.require(runId)).runId;
  /** @throws MosaicError `not_found` for a sweep of others */
  const sweep = async (ref: string): Promise<string> => {
    core.ownerOfSweep(ref, owner);
    return ref === "@last" ? (await core.listSweeps(1, owner))[0]!.sweep_id : ref;
  };
  const lineage: Core["lineage"] = {
    find(artifact) {
      const [, left = "", right = ""] = /^([^:]+):(.+)$/s.exec(artifact) ?? [];
      // A run, unless it is a name of artifacts: another's may have the same name.
      if (right !== "" && core.lineage.versions(left).length === 0) {
        return core.lineage.find(`${runs.resolve(left).runId}:${right}`);
      }
      const found = core.lineage.find(artifact);
      if (runs.known(found.runId) !== undefined) return found;
      throw new MosaicError("not_found", `there is no artifact ${JSON.stringify(artifact)}`);
    },
    name(artifact, name, aliases) {
      lineage.find(artifact);
      return core.lineage.name(artifact, name, aliases);
    },
    versions: (name) =>
      core.lineage.versions(name).filter(({ runId }) => runs.known(runId) !== undefined),
    of(row) {
      const { uses, usedBy, names } = core.lineage.of(row);
      const isOwn = ({ runId, sourceRun }: typeof uses[number]) =>
        runs.known(runId) !== undefined &&
        (sourceRun === "" || runs.known(sourceRun) !== undefined);
      return { uses: uses.filter(isOwn), usedBy: usedBy.filter(isOwn), names };
    },
  };
  /** What a config names of others is not there either. @throws MosaicError `not_found` */
  const refuseOthers = (configJson: string): void => {
    const { after, uses } = namedIn(configJson);
    for (const { run } of after.map(readAfter)) {
      if (run.startsWith(SWEEP)) core.ownerOfSweep(run.slice(SWEEP.length), owner);
      else runs.resolve(run);
    }
    for (const artifact of uses) lineage.find(artifact);
  };
  return {
    runs,
    records: ownRecords(core.records, runs),
    lineage,
    log: core.log,
    activity: core.activity,
    startedAt: core.startedAt,
    version: core.version,
    keepDeletedMs: core.keepDeletedMs,
    maxDiskPerUser: core.maxDiskPerUser,
    submit(configJson, runId, submitter) {
      const { canonicalJson, violations } = core.validate(configJson);
      if (violations.length === 0) refuseOthers(canonicalJson);
      return core.submit(configJson, runId, submitter);
    },
    validate: (configJson) => core.validate(configJson),
    async beginSweep(specJson, ...rest) {
      const config = parsedObject(specJson)?.config;
      if (config !== undefined) refuseOthers(JSON.stringify(config));
      return await core.beginSweep(specJson, ...rest);
    },
    ownerOfSweep: (ref) => core.ownerOfSweep(ref, owner),
    listSweeps: (limit) => core.listSweeps(limit, owner),
    getSweep: async (ref, trials) => await core.getSweep(await sweep(ref), trials),
    deleteSweep: async (ref) => await core.deleteSweep(await sweep(ref)),
    moreSeeds: async (ref, ...rest) => await core.moreSeeds(await sweep(ref), ...rest),
    sweepTable: async (ref, ...rest) => await core.sweepTable(await sweep(ref), ...rest),
    changeSweep: async (ref, ...rest) => await core.changeSweep(await sweep(ref), ...rest),
    detail: (row) => withoutHolders(core.detail(row)),
    whole: (row) => withoutHolders(core.whole(row)),
    rewardOf: (row) => core.rewardOf(row),
    parameters: (runId) => core.parameters(mine(runId)),
    list(filter, page) {
      const found = core.list({ ...filter, owner }, page);
      return { ...found, runs: found.runs.map(withoutHolders) };
    },
    async query(filter, query) {
      const found = await core.query({ ...filter, owner }, query);
      return { ...found, runs: found.runs.map(withoutHolders) };
    },
    fits: (row, where) => core.fits(row, where),
    testMessages: (receiver) => core.testMessages(receiver),
    cancel: (runId, options) => core.cancel(mine(runId), options),
    pause: (runId) => core.pause(mine(runId)),
    resume: (runId) => core.resume(mine(runId)),
    throttle: (runId, rate) => core.throttle(mine(runId), rate),
    edit: (runId, change) => core.edit(mine(runId), change),
    observe: (runId, patterns) => core.observe(mine(runId), patterns),
    retry: (runId) => core.retry(mine(runId)),
    reset: (runId, checkpoint) => core.reset(mine(runId), checkpoint),
    importRun: (name) => core.importRun(name),
    delete: (runId, forever) => core.delete(mine(runId), forever),
    restore: (runId) => core.restore(mine(runId)),
    async diskUsage() {
      const usage = await core.diskUsage();
      const ofOwn = (bytes: ReadonlyMap<string, number>) =>
        new Map([...bytes].filter(([runId]) => runs.known(runId) !== undefined));
      return { ...usage, byRun: ofOwn(usage.byRun), telemetryByRun: ofOwn(usage.telemetryByRun) };
    },
    recordCode: (record) => core.recordCode({ ...record, runId: mine(record.runId) }),
    code: (runId, diffs) => core.code(mine(runId), diffs),
    registerWorker: (request) => core.registerWorker({ ...request, runId: mine(request.runId) }),
    heartbeat: (runId) => core.heartbeat(mine(runId)),
    publish: (runId, steps, episodes) => core.publish(mine(runId), steps, episodes),
    record: (runId, events, within) => core.record(mine(runId), events, within),
    childRun: (runId, key, name) => core.childRun(mine(runId), key, name),
    endChild: (runId, status) => core.endChild(mine(runId), status),
    openProxy: (hello, link) => core.openProxy(hello, link),
    readerStarved: (runId, starved) => core.readerStarved(runId, starved),
    workerListens: (runId, bearer) => core.workerListens(mine(runId), bearer),
    readerState: (runId, kind, state) => core.readerState(runId, kind, state),
    directoryOf: (row) => core.directoryOf(row),
    logFile: (row, stream, of) => core.logFile(row, stream, of),
    openLog: (row, stream, of) => core.openLog(row, stream, of),
    openMergedLog: (row, of) => core.openMergedLog(row, of),
    ranks: (row) => core.ranks(row),
    host: () => withoutOthers(core.host(), runs.countByState(), (id) => runs.get(id) !== undefined),
    lookAtGpus: () => core.lookAtGpus(),
    requestShutdown: (reason) => core.requestShutdown(reason),
  };
}

/** The runs and artifacts that a config names. */
function namedIn(configJson: string): { after: string[]; uses: string[] } {
  const metadata = parsedObject(configJson)?.metadata as {
    queue?: { after?: unknown };
    uses?: unknown;
  } | undefined;
  const listOf = (value: unknown): unknown[] => Array.isArray(value) ? value : [];
  // As an object it is one that a submission before has found.
  const artifactOf = (use: unknown) => {
    if (typeof use !== "object" || use === null) return use;
    const { run, path } = use as { run?: unknown; path?: unknown };
    return `${run}:${path}`;
  };
  const text = (value: unknown) => typeof value === "string";
  return {
    after: listOf(metadata?.queue?.after).filter(text),
    uses: listOf(metadata?.uses).map(artifactOf).filter(text),
  };
}

/** A run that waits for cards hears how many are free, not who has the others. */
function withoutHolders<R extends RunDetail>(run: R): R {
  return { ...run, waitingFor: run.waitingFor.replace(/ \(([\d.]+ free)\b.*\)$/s, " ($1)") };
}

const SOMEBODYS = "a run of somebody else";

function withoutOthers(
  host: HostInfo,
  runsByState: Record<string, number>,
  isOwn: (runId: string) => boolean,
): HostInfo {
  const gpus = host.gpus.map((gpu) => {
    const isOthers = typeof gpu.runId === "string" && gpu.runId !== "" && !isOwn(gpu.runId);
    const shares = gpu.shares.filter(({ runId }) => isOwn(runId));
    const hidden = isOthers || shares.length < gpu.shares.length;
    const others = [gpu.others, ...(hidden ? [SOMEBODYS] : [])].filter((text) => text !== "");
    return { ...gpu, shares, runId: isOthers ? null : gpu.runId, others: others.join(", ") };
  });
  return { ...host, gpus, runsByState };
}
