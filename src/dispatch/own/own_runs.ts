/** Runs, events and telemetry of one owner: the others are not there. */
import { MosaicError } from "../../base/errors.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";

export function ownRuns(all: RunReader, owner: string): RunReader {
  const ifOwn = (row: RunRow | undefined) => row?.owner === owner ? row : undefined;
  const isOwn = (runId: string) => all.known(runId)?.owner === owner;
  const ofOwn = <T extends { runId: string }>(rows: T[]) => rows.filter((r) => isOwn(r.runId));
  const onlyOwn = <T>(runId: string, read: (runId: string) => T[]): T[] =>
    isOwn(runId) ? read(runId) : [];
  /** Waits until something of the owner's is there, not only something. */
  const untilOwn = async (
    seq: number,
    signal: AbortSignal,
    has: () => boolean,
    head: () => number,
    wait: (seq: number, signal: AbortSignal) => Promise<void>,
  ) => {
    while (!signal.aborted && !has()) await wait(Math.max(seq, head()), signal);
  };
  const own: RunReader = {
    get: (runId) => ifOwn(all.get(runId)),
    known: (runId) => ifOwn(all.known(runId)),
    require(runId) {
      if (isOwn(runId)) return all.require(runId);
      throw new MosaicError("not_found", `there is no run ${JSON.stringify(runId)}`);
    },
    resolve: (ref) => all.resolve(ref, owner),
    resolveDeleted: (ref) => all.resolveDeleted(ref, owner),
    list: (filter, page) => all.list({ ...filter, owner }, page),
    count: (filter) => all.count({ ...filter, owner }),
    outlines: (filter) => all.outlines({ ...filter, owner }),
    objectives: () => all.objectives(),
    owners: () => new Map([...all.owners()].filter(([, name]) => name === owner)),
    countByState: () => all.countByState(owner),
    sessionTokens: () => [],
    pastAttempt: () => undefined,
    artifacts: (runId) => onlyOwn(runId, (id) => all.artifacts(id)),
    parameters: (runId) => onlyOwn(runId, (id) => all.parameters(id)),
    parametersNamed: (name) => ofOwn(all.parametersNamed(name)),
    parameterNames: () => all.parameterNames(owner),
    code: (runId) => onlyOwn(runId, (id) => all.code(id)),
    codeText: (hash) => all.codeText(hash),
    gpus: {
      slots: () => all.gpus.slots(),
      use: (since) => all.gpus.use(since).filter(({ submitter }) => submitter === owner),
    },
    transitions: (runId) => onlyOwn(runId, (id) => all.transitions(id)),
    transitionsSince: (seq, limit) => all.transitionsSince(seq, limit, owner),
    transitionHead: () => all.transitionHead(),
    waitTransitionsBeyond: (seq, signal) =>
      untilOwn(
        ...[seq, signal] as const,
        () => own.transitionsSince(seq, 1).length > 0,
        () => all.transitionHead(),
        (after, aborted) => all.waitTransitionsBeyond(after, aborted),
      ),
    eventsSince: (seq, options) => all.eventsSince(seq, { ...options, owner }),
    seqBeforeNewest: (count, filter) => all.seqBeforeNewest(count, { ...filter, owner }),
    eventHead: () => all.eventHead(),
    waitEventsBeyond: (seq, signal) =>
      untilOwn(
        ...[seq, signal] as const,
        () => own.eventsSince(seq, { limit: 1 }).length > 0,
        () => all.eventHead(),
        (after, aborted) => all.waitEventsBeyond(after, aborted),
      ),
    writable: () => all.writable(),
    fileBytes: () => all.fileBytes(),
  };
  return own;
}

/** @param runs the owner's */
export function ownRecords(all: TelemetryReader, runs: RunReader): TelemetryReader {
  /** @throws MosaicError `not_found` */
  const mine = (runId: string): string => runs.known(runId)?.runId ?? runs.require(runId).runId;
  const isOwn = (runId: string) => runs.known(runId) !== undefined;
  const ofOwn = <T extends { runId: string }>(rows: T[]) => rows.filter((r) => isOwn(r.runId));
  const ids = () => runs.outlines({}).map(({ runId }) => runId);
  return {
    read: (runId, kind, since, limit) => all.read(mine(runId), kind, since, limit),
    head: (runId, kind) => all.head(mine(runId), kind),
    eventSeqs: (runId, kinds, since, to) => all.eventSeqs(mine(runId), kinds, since, to),
    follow: (runId) => all.follow(mine(runId)),
    leave: (runId) => all.leave(mine(runId)),
    waitBeyond: (runId, kind, since, signal) => all.waitBeyond(mine(runId), kind, since, signal),
    summary: (runId) => all.summary(mine(runId)),
    attemptStep: (runId, attempt) => all.attemptStep(mine(runId), attempt),
    listSeries: (runId) => all.listSeries(mine(runId)),
    listSources: (runId) => all.listSources(mine(runId)),
    seriesOf: (runId, name) => all.seriesOf(mine(runId), name),
    seriesNamed: (name) => ofOwn(all.seriesNamed(name)),
    seriesNames: () =>
      [...all.namesOfMany(ids())].flatMap((found) => found === undefined ? [] : [found.name]),
    parameters: (runId) => all.parameters(mine(runId)),
    parametersNamed: (name) => ofOwn(all.parametersNamed(name)),
    parameterNames: () => [
      ...new Set(ids().flatMap((id) => all.parameters(id).map(({ name }) => name))),
    ],
    series: (runId, ...rest) => all.series(mine(runId), ...rest),
    seriesTail: (runId, ...rest) => all.seriesTail(mine(runId), ...rest),
    // As for runs that are not there: no points, no names.
    outlines(runIds, ...rest) {
      const found = all.outlines(runIds.filter(isOwn), ...rest).values();
      return runIds.map((id) => isOwn(id) ? found.next().value! : []);
    },
    namesOfMany: (runIds) => all.namesOfMany(runIds.filter(isOwn)),
    overwritten: (runId, name) => all.overwritten(mine(runId), name),
    fileBytes: () => all.fileBytes(),
    storedSinceStart: () => all.storedSinceStart(),
    rings: () => all.rings(),
    writable: () => all.writable(),
  };
}
