/**
 * Runs as an offline-RL data set of Minari 0.5: `ID/data/metadata.json`, and `data/N/metadata.json`
 * and `data/N/part-0.parquet` for each episode. A file has one more row than the episode has steps:
 * row i is the observation before step i, its action and its results; the last row is the last
 * observation.
 */
import { existsSync } from "node:fs";
import { fileWriter, parquetWrite } from "hyparquet-writer";
import { MosaicError } from "../../base/errors.ts";
import { VERSION } from "../../base/version.ts";
import type { TelemetryRecord } from "../text/records.ts";
import {
  cellOf,
  emptyCell,
  NotInSpace,
  readSpace,
  schemaOf,
  SeenSpace,
  type Space,
} from "./minari_space.ts";

/** The newest format version that matches mosaic's files; Minari lists the versions it reads. */
const MINARI_VERSION = "0.5.3";

/**
 * Minari takes each batch of Arrow as an episode, and Arrow's reader makes batches of at most 131
 * 072 rows.
 */
const MOST_STEPS = 131_071;

const RECORD_THEM =
  'Wrap the environment in mosaic.RecordSteps, or print what docs/how-to/python.md says ("Data sets").';

export interface Environment {
  env_id?: string;
  /** Gymnasium's own JSON. */
  env_spec?: string;
  observation_space?: string;
  action_space?: string;
}

export interface MinariRun {
  runId: string;
  name: string;
  /** The environment that the run recorded. */
  environment: Environment;
  /** Each call begins with the first step. */
  steps: () => AsyncIterable<TelemetryRecord>;
  /** First and last seqs of damaged steps that `steps` has skipped so far. */
  gaps: readonly (readonly [number, number])[];
}

export interface MinariOptions {
  /** Episodes without their first observation begin with their second step. */
  dropFirstStep: boolean;
  /** Numbers of the first and the last episode. */
  episodes: [first: number, last: number];
  observationSpace?: string;
  actionSpace?: string;
}

export interface MinariSummary {
  path: string;
  episodes: number;
  steps: number;
  /** Messages for the user: derived spaces, omitted episodes. */
  notes: string[];
}

export function checkDatasetId(id: string): string {
  if (/^([-\w][-\w/]*[-\w]\/)?[-\w]+-v\d+$/.test(id)) return id;
  throw new MosaicError("invalid_argument", `--dataset "${id}" is no id of a Minari data set`, {
    hint:
      "It has the form NAMESPACE/NAME-vNUMBER, of letters, digits, - and _, such as cartpole/ppo-v0.",
  });
}

/** The default id of a run's data set. */
export function datasetIdOf(runName: string): string {
  return `mosaic/${runName.replace(/[^-\w]+/g, "-").replace(/^-+|-+$/g, "") || "run"}-v0`;
}

/**
 * Writes `dir`/`id`, complete or not at all. @throws MosaicError that says what steps or
 * environment lack
 */
export async function writeMinari(
  dir: string,
  id: string,
  runs: readonly MinariRun[],
  options: MinariOptions,
): Promise<MinariSummary> {
  const path = `${dir}/${id}`;
  const data = `${path}/data`;
  if (existsSync(data)) {
    throw new MosaicError("already_exists", `${path} already exists`, {
      hint: "Remove it, or name the next version with --dataset, such as mosaic/name-v1.",
    });
  }
  const environment = environmentOf(runs, options);
  const notes: string[] = [];
  if (environment.observation_space === undefined || environment.action_space === undefined) {
    await addSeenSpaces(environment, runs, options, notes);
  }
  const spaces = {
    observations: readSpace(environment.observation_space!, "the observation space"),
    actions: readSpace(environment.action_space!, "the action space"),
  };
  // Minari ignores directories that begin with a dot.
  const partial = `${path}/.data-${Deno.pid}`;
  Deno.mkdirSync(partial, { recursive: true });
  try {
    let steps = 0, episodes = 0, size = 0;
    const leftOut: LeftOut = { firstMissing: 0, holed: 0 };
    for (const run of runs) {
      for await (const episode of episodesOf(run, spaces, options, leftOut)) {
        size += writeEpisode(`${partial}/${episodes}`, episodes++, run.runId, episode, spaces);
        steps += episode.actions.length;
      }
    }
    if (episodes === 0) throw noEpisodesError(leftOut);
    notes.push(...notesOf(leftOut));
    writeJson(`${partial}/metadata.json`, {
      dataset_id: id,
      total_episodes: episodes,
      total_steps: steps,
      data_format: "parquet",
      observation_space: environment.observation_space,
      action_space: environment.action_space,
      ...(environment.env_spec === undefined ? {} : { env_spec: environment.env_spec }),
      description: `Exported by mosaic ${VERSION} from ${
        runs.map(({ runId, name }) => `run ${name} (${runId})`).join(", ")
      }`,
      minari_version: MINARI_VERSION,
      // In megabytes.
      dataset_size: Math.round(size / 1e5) / 10,
    });
    Deno.renameSync(partial, data);
    return { path, episodes, steps, notes };
  } finally {
    if (existsSync(partial)) Deno.removeSync(partial, { recursive: true });
  }
}

/** The environment recorded by the runs, or given by the user. */
function environmentOf(runs: readonly MinariRun[], options: MinariOptions): Environment {
  const [first, ...others] = runs.map(({ environment }) => environment);
  for (const [i, other] of others.entries()) {
    for (const name of ["env_id", "observation_space", "action_space"] as const) {
      if (other[name] !== first![name]) {
        throw new MosaicError(
          "failed_precondition",
          `the runs ${runs[0]!.runId} and ${runs[i + 1]!.runId} differ in ${name}: ` +
            `${first![name] ?? "not recorded"}, ${other[name] ?? "not recorded"}`,
          {
            hint: "A data set has one environment. Export these runs each with its own --dataset.",
          },
        );
      }
    }
  }
  return {
    ...first,
    ...(options.observationSpace === undefined
      ? {}
      : { observation_space: options.observationSpace }),
    ...(options.actionSpace === undefined ? {} : { action_space: options.actionSpace }),
  };
}

async function addSeenSpaces(
  environment: Environment,
  runs: readonly MinariRun[],
  options: MinariOptions,
  notes: string[],
): Promise<void> {
  const seen = { observation: new SeenSpace(), action: new SeenSpace() };
  for (const { steps } of runs) {
    for await (const record of steps()) {
      if (!isAmong(record, options)) continue;
      for (const field of ["observation", "action"] as const) {
        if (environment[`${field}_space`] !== undefined) continue;
        const value = valueOf(record, field);
        try {
          seen[field].add(value);
        } catch (error) {
          if (!(error instanceof NotInSpace)) throw error;
          throw new MosaicError(
            "failed_precondition",
            `no space is recorded, and the ${field} of step ${record.seq} does not tell it: ${error.message}`,
            { hint: `Give it with --${field}-space.` },
          );
        }
      }
    }
  }
  for (const field of ["observation", "action"] as const) {
    if (environment[`${field}_space`] !== undefined) continue;
    environment[`${field}_space`] = seen[field].json;
    notes.push(
      `the ${field} space is taken from the values: ${
        seen[field].json
      } (--${field}-space says another)`,
    );
  }
}

interface Episode {
  attempt: unknown;
  index: unknown;
  seed?: unknown;
  options?: unknown;
  observations: unknown[];
  actions: unknown[];
  rewards: number[];
  terminated: boolean[];
  truncated: boolean[];
}

interface LeftOut {
  firstMissing: number;
  /** Steps are missing in the middle, or two environments used the same number. */
  holed: number;
}

/** An unfinished episode. */
interface Open extends Episode {
  nextStep: number;
  flaw?: keyof LeftOut;
}

async function* episodesOf(
  run: MinariRun,
  spaces: { observations: Space; actions: Space },
  options: MinariOptions,
  leftOut: LeftOut,
): AsyncGenerator<Episode> {
  const opened = new Map<string, Open>();
  const finished = (key: string, episode: Open): Episode[] => {
    opened.delete(key);
    if (episode.flaw !== undefined) leftOut[episode.flaw]++;
    if (episode.flaw !== undefined || episode.actions.length === 0) return [];
    // As Minari's own collector ends an unfinished episode.
    if (!episode.terminated.at(-1)) episode.truncated[episode.truncated.length - 1] = true;
    return [episode];
  };
  let last = 0;
  /**
   * Environments with a step after the last damaged ones; undefined before any damage. The next
   * episode of any other may have begun inside the damage.
   */
  let seenSinceDamage: Set<string> | undefined;
  const passGaps = (to: number) => {
    if (!run.gaps.some(([first]) => first > last && first < to)) return;
    // Their steps inside the damage, and whether they ended, are unknown.
    for (const episode of opened.values()) episode.flaw ??= "holed";
    seenSinceDamage = new Set();
  };
  for await (const record of run.steps()) {
    passGaps(record.seq);
    last = record.seq;
    const { attempt, agent_id, worker_id, episode_index: index } = record;
    const whose = JSON.stringify([attempt, agent_id, worker_id]);
    const mayLackBegin = seenSinceDamage?.has(whose) === false &&
      (record["step_index"] as number) > 0;
    seenSinceDamage?.add(whose);
    if (!isAmong(record, options)) continue;
    const key = JSON.stringify([attempt, agent_id, worker_id, index]);
    const reset = resetOf(record);
    const observation = cell(
      spaces.observations,
      valueOf(record, "observation"),
      record,
      "observation",
    );
    let episode = opened.get(key);
    if (episode !== undefined && reset !== undefined) {
      yield* finished(key, episode);
      episode = undefined;
    }
    const step = record["step_index"] as number;
    const ends = record["terminated"] === true || record["truncated"] === true;
    if (episode === undefined) {
      episode = {
        attempt,
        index,
        nextStep: step,
        ...emptyEpisode(),
        ...(reset?.["seed"] === undefined ? {} : { seed: reset["seed"] }),
        ...(reset?.["options"] === undefined ? {} : { options: reset["options"] }),
      };
      opened.set(key, episode);
      if (reset !== undefined) {
        episode.observations.push(
          cell(spaces.observations, reset["observation"], record, "reset.observation"),
        );
      } else if (mayLackBegin) {
        episode.flaw = "holed";
      } else if (options.dropFirstStep) {
        episode.observations.push(observation);
        episode.nextStep++;
        if (ends) opened.delete(key);
        continue;
      } else {
        episode.flaw = "firstMissing";
      }
    } else if (step !== episode.nextStep) {
      episode.flaw ??= "holed";
    }
    episode.nextStep = step + 1;
    if (episode.flaw === undefined) {
      episode.observations.push(observation);
      episode.actions.push(cell(spaces.actions, valueOf(record, "action"), record, "action"));
      episode.rewards.push((record["reward"] as number | null) ?? Number(record["reward_text"]));
      episode.terminated.push(record["terminated"] === true);
      episode.truncated.push(record["truncated"] === true);
    }
    if (ends) yield* finished(key, episode);
    else if (episode.actions.length === MOST_STEPS) {
      yield* finished(key, episode);
      opened.set(key, {
        attempt,
        index,
        nextStep: step + 1,
        ...emptyEpisode(),
        observations: [observation],
      });
    }
  }
  passGaps(Infinity);
  for (const [key, episode] of [...opened]) yield* finished(key, episode);
}

function emptyEpisode() {
  return { observations: [], actions: [], rewards: [], terminated: [], truncated: [] };
}

function isAmong(
  { episode_index }: TelemetryRecord,
  { episodes: [first, last] }: MinariOptions,
): boolean {
  return (episode_index as number) >= first && (episode_index as number) <= last;
}

function resetOf({ info }: TelemetryRecord): Record<string, unknown> | undefined {
  const reset = (info as Record<string, unknown> | undefined)?.["reset"];
  return typeof reset === "object" && reset !== null && "observation" in reset
    ? reset as Record<string, unknown>
    : undefined;
}

function valueOf(record: TelemetryRecord, field: "observation" | "action"): unknown {
  const value = record[field];
  if (value !== null && value !== undefined) return value;
  throw new MosaicError("failed_precondition", `step ${record.seq} of the run has no ${field}`, {
    hint: RECORD_THEM,
  });
}

function cell(space: Space, value: unknown, { seq }: TelemetryRecord, what: string): unknown {
  try {
    return cellOf(space, value);
  } catch (error) {
    if (!(error instanceof NotInSpace)) throw error;
    throw new MosaicError(
      "failed_precondition",
      `the ${what} of step ${seq} is not in its space: ${error.message}`,
      {
        hint: "--observation-space and --action-space set other spaces than the recorded ones.",
      },
    );
  }
}

/** @returns the bytes of its file */
function writeEpisode(
  dir: string,
  id: number,
  runId: string,
  episode: Episode,
  spaces: { observations: Space; actions: Space },
): number {
  Deno.mkdirSync(dir);
  const { observations, actions, rewards, terminated, truncated } = episode;
  const path = `${dir}/part-0.parquet`;
  const scalar = (name: string, type: "DOUBLE" | "BOOLEAN") => ({
    name,
    type,
    repetition_type: "REQUIRED" as const,
  });
  parquetWrite({
    writer: fileWriter(path),
    schema: [
      { name: "root", num_children: 5 },
      ...schemaOf(spaces.observations, "observations"),
      ...schemaOf(spaces.actions, "actions"),
      scalar("rewards", "DOUBLE"),
      scalar("terminations", "BOOLEAN"),
      scalar("truncations", "BOOLEAN"),
    ],
    columnData: [
      { name: "observations", data: observations },
      { name: "actions", data: [...actions, emptyCell(spaces.actions)] },
      { name: "rewards", data: [...rewards, 0] },
      { name: "terminations", data: [...terminated, false] },
      { name: "truncations", data: [...truncated, false] },
    ],
    rowGroupSize: observations.length,
    createdBy: "mosaic",
  });
  const sum = rewards.reduce((a, b) => a + b, 0);
  const mean = sum / rewards.length;
  writeJson(`${dir}/metadata.json`, {
    id,
    total_steps: rewards.length,
    ...(episode.seed === undefined ? {} : { seed: episode.seed }),
    ...(episode.options === undefined ? {} : { options: episode.options }),
    rewards_sum: sum,
    rewards_mean: mean,
    rewards_std: Math.sqrt(rewards.reduce((a, b) => a + (b - mean) ** 2, 0) / rewards.length),
    rewards_max: rewards.reduce((a, b) => Math.max(a, b)),
    rewards_min: rewards.reduce((a, b) => Math.min(a, b)),
    run_id: runId,
    attempt: episode.attempt,
    episode_index: episode.index,
  });
  return Deno.statSync(path).size;
}

function noEpisodesError({ firstMissing, holed }: LeftOut): MosaicError {
  if (firstMissing > 0) {
    return new MosaicError(
      "failed_precondition",
      "no episode has its first observation: steps have the state after their action, and Minari needs the one before, too",
      { hint: `${RECORD_THEM} With --drop-first-step, episodes begin with their second step.` },
    );
  }
  return holed > 0
    ? new MosaicError("failed_precondition", "every episode lacks steps", {
      hint:
        "See docs/how-to/python.md, Data sets: each environment needs episode numbers, or an agent_id, of its own.",
    })
    : new MosaicError("failed_precondition", "no episode of these runs has steps", {
      hint: RECORD_THEM,
    });
}

function notesOf({ firstMissing, holed }: LeftOut): string[] {
  const note = (n: number, one: string, many: string) =>
    n === 0
      ? []
      : [n === 1 ? `1 episode is left out: ${one}` : `${n} episodes are left out: ${many}`];
  return [
    ...note(
      firstMissing,
      "its first observation is not recorded",
      "their first observations are not recorded",
    ),
    ...note(holed, "some of its steps are missing", "some of their steps are missing"),
  ];
}

function writeJson(path: string, value: unknown): void {
  Deno.writeTextFileSync(path, JSON.stringify(value));
}
