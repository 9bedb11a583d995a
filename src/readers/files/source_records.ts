/**
 * Converts records of a tracker's file to what the daemon stores: metrics as events of the same
 * kind as printed numbers (text_records.ts), episodes, and events of other kinds. Pure. Scalars of
 * one step and one millisecond become one record, because the store's times have no finer
 * resolution.
 */
import { numberOnWire } from "../../gen/records/step_columns.ts";
import { messageOf } from "../../base/errors.ts";
import type { EpisodeRecord, WorkerEventRecord } from "../../gen/records/record_types.ts";
import { fileKindOf, HYDRA } from "../formats.ts";
import type { LineContext } from "../lines/parse_line.ts";
import { nanosecondsOf } from "../lines/timestamps.ts";
import type { CountedProblem } from "./file_source.ts";
import type {
  EpisodeRecord as ReadEpisode,
  HistogramRecord,
  MediaRecord,
  ScalarRecord,
  SourceRecord,
} from "../format/tracker_records.ts";
import { withoutSecrets } from "../../base/text/secrets.ts";
import { PROGRESS_KIND } from "../text/run_progress.ts";
import { jsonText } from "../text/text_records.ts";
import { isMetricName, MAX_NAME_LENGTH, MAX_POINTS_PER_RECORD } from "../../records/points.ts";

const METRICS_KIND = "metrics";
/** What a tracker calls the run. */
export const TRACKER_RUN_KIND = "tracker_run";
/** The parameter with the group of a W&B run. */
export const GROUP = "wandb_group";
/** Prefix of names that mean something else in the store, such as `reward` and `time`. */
const OWN = "tracked/";
const MAX_TEXT = 16 << 10;
const MAX_HISTOGRAM_BUCKETS = 2048;
const OF_PARAMETERS = new Set(["parameters", "trainer_state", "training_args"]);
const STEPS = new Set(["total_timesteps", "timesteps", "num_timesteps", "iteration"]);

export interface Records {
  episodes: EpisodeRecord[];
  events: WorkerEventRecord[];
}

/** A picture or a sound embedded in the file. */
export type Embedded = MediaRecord & { bytes: Uint8Array };

/** What becomes of media. */
export interface MediaFiles {
  /** Writes an embedded picture or sound to a file; undefined if it is not kept. @returns its path */
  keep: (media: Embedded) => string | undefined;
  /** Size and time of change (Unix ms) of a file that the program has written; undefined: gone. */
  look: (path: string) => { bytes: number; changedAt: number } | undefined;
}

/** @param source the file's path */
export function recordsOf(
  read: readonly SourceRecord[],
  source: string,
  context: LineContext,
  { keep, look }: MediaFiles,
): Records {
  const episodes: EpisodeRecord[] = [];
  const events: WorkerEventRecord[] = [];
  let group:
    | { step: number | undefined; wallTime: number | undefined; points: Map<string, number> }
    | undefined;
  let failed = 0;
  const flush = () => {
    if (group === undefined) return;
    const points = Object.fromEntries(group.points);
    events.push(eventOf(METRICS_KIND, { ...stepOf(group), ...points }, group.wallTime));
    group = undefined;
  };
  for (const [i, record] of read.entries()) {
    if (record.kind === "scalar") {
      const name = nameOf(record.tag);
      if (name === undefined) continue;
      const fits = group !== undefined && isSameMoment(group, record) && !group.points.has(name) &&
        group.points.size < MAX_POINTS_PER_RECORD;
      if (!fits) flush();
      group ??= { step: record.step, wallTime: record.wallTime, points: new Map() };
      group.points.set(name, record.value);
      continue;
    }
    flush();
    try {
      take(record, i);
    } catch (error) {
      // An error of one record costs this record only.
      const detail = `a record of kind ${record.kind} is left out: ${messageOf(error)}`;
      if (failed++ === 0) {
        events.push(problemEvent(source, { what: "corrupt", at: 0, bytes: 0, detail, count: 1 }));
      }
    }
  }
  flush();
  if (failed > 1) {
    const detail = `${failed - 1} further records are left out`;
    events.push(
      problemEvent(source, { what: "corrupt", at: 0, bytes: 0, detail, count: failed - 1 }),
    );
  }
  return { episodes, events };

  function take(record: Exclude<SourceRecord, ScalarRecord>, i: number): void {
    switch (record.kind) {
      case "episode":
        episodes.push(episodeOf(record, context));
        break;
      case "params":
        if (Object.keys(record.values).length > 0) {
          const tracker = record.origin === "config" ? trackerOf(source) : "hparams";
          const values = withoutSecrets("", record.values);
          events.push(eventOf("parameters", { source: tracker, values }, record.wallTime));
        }
        break;
      case "text": {
        // The table that follows parameters repeats them.
        const next = read[i + 1];
        if (next?.kind === "params" && next.origin === "text_summary") break;
        const data = { ...stepOf(record), tag: record.tag, text: record.text.slice(0, MAX_TEXT) };
        events.push(eventOf("text", data, record.wallTime));
        break;
      }
      case "histogram":
        if (record.count.length > MAX_HISTOGRAM_BUCKETS) break;
        events.push(eventOf("histogram", histogramOf(record), record.wallTime));
        break;
      case "media": {
        const path = record.bytes === undefined
          ? record.path && `${source.slice(0, source.lastIndexOf("/"))}/files/${record.path}`
          : keep(record as Embedded);
        if (path === undefined || path === "") break;
        const { media: kind, tag, type, caption } = record;
        const file = record.bytes === undefined ? look(path) : undefined;
        const facts = file && { bytes: file.bytes, changed_at: file.changedAt };
        const data = { ...stepOf(record), kind, path, tag, type, caption, ...facts };
        events.push(eventOf("artifact", data, record.wallTime));
        break;
      }
      case "trial":
        events.push(eventOf("trial", record.trial, record.wallTime));
        break;
      case "progress":
        events.push(eventOf(PROGRESS_KIND, { part: record.part }, undefined));
        break;
      case "run": {
        const { id, name, group, tags } = record;
        // A group of W&B's is what runs of one kind share, such as seeds: as a parameter it groups.
        if (group !== "") {
          const values = { [GROUP]: group };
          events.push(
            eventOf("parameters", { source: trackerOf(source), values }, record.wallTime),
          );
        }
        if (name !== "" || tags.length > 0) {
          events.push(eventOf(TRACKER_RUN_KIND, { id, name, tags }, record.wallTime));
        }
        break;
      }
      case "rewind": // how a curve goes back is in its steps
      case "status": // mosaic has the run's end itself
      case "output": // printed as well
        break;
    }
  }
}

/** Files of parameters have precedence over the run's own config. */
function trackerOf(source: string): string {
  if (source.endsWith(".wandb")) return "wandb";
  if (!OF_PARAMETERS.has(fileKindOf(source)?.format ?? "")) return "config";
  return source.endsWith(`/${HYDRA}/config.yaml`)
    ? "hydra"
    : source.slice(source.lastIndexOf("/") + 1);
}

export function problemEvent(
  source: string,
  { what, at, bytes, detail, count }: CountedProblem,
): WorkerEventRecord {
  return eventOf("source_problem", { source, problem: what, at, bytes, detail, count }, undefined);
}

export function eventOf(
  kind: string,
  data: unknown,
  wallTime: number | undefined,
): WorkerEventRecord {
  return { kind, dataJson: jsonText(data), tsNs: timeOf(wallTime) };
}

/** Unix seconds; a time before 2001 is invalid. */
function timeOf(wallTime: number | undefined): string {
  if (wallTime === undefined || !(wallTime > 1e9 && wallTime < 1e10)) return "";
  return nanosecondsOf(String(Math.round(wallTime * 1e6) * 1000));
}

function stepOf({ step }: { step: number | undefined }): { global_step?: number } {
  return step !== undefined && Number.isSafeInteger(step) && step >= 0 ? { global_step: step } : {};
}

/** The name of a tag's series; undefined if it can have none. */
function nameOf(tag: string): string | undefined {
  if (tag === "" || tag.length > MAX_NAME_LENGTH) return undefined;
  const name = isMetricName(tag) && !STEPS.has(tag) && !/^(?:__proto__|\d+)$/.test(tag)
    ? tag
    : OWN + tag;
  return name.length > MAX_NAME_LENGTH ? undefined : name;
}

function isSameMoment(
  a: { step: number | undefined; wallTime: number | undefined },
  b: Pick<ScalarRecord, "step" | "wallTime">,
): boolean {
  const ms = (seconds: number | undefined) =>
    seconds === undefined ? undefined : Math.floor(seconds * 1000);
  return a.step === b.step && ms(a.wallTime) === ms(b.wallTime);
}

function episodeOf(record: ReadEpisode, { agentId, workerId }: LineContext): EpisodeRecord {
  const extra = Object.entries(record.extra).flatMap(([tag, value]): [string, number][] => {
    const name = nameOf(tag);
    return name === undefined ? [] : [[name, value]];
  });
  return {
    episode: 0,
    totalReward: numberOnWire(record.return ?? NaN),
    steps: record.length ?? 0,
    terminated: false,
    truncated: false,
    metadataJson: jsonText({
      ...stepOf(record),
      ...(record.time === null ? {} : { time: record.time }),
      ...Object.fromEntries(extra.slice(0, MAX_POINTS_PER_RECORD)),
    }),
    tsNs: timeOf(record.wallTime),
    agentId,
    workerId,
  };
}

function histogramOf(
  { tag, left, right, count, stats, ...placed }: HistogramRecord,
): Record<string, unknown> {
  return { ...stepOf(placed), tag, left, right, count, ...(stats === undefined ? {} : { stats }) };
}
