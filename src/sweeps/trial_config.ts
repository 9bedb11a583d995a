/** The run of a trial: its config, its name and its id. Pure. */
import { MosaicError } from "../base/errors.ts";
import { sha256 } from "../base/node_modules.ts";
import { typed } from "../config/parameters.ts";
import { namesOf, type Values, valuesAt } from "./points.ts";
import { MOST_SPEC_TEXT, type SweepSpec, type Value } from "./spec.ts";

/** The parameter whose value an array's trials have in MOSAIC_ARRAY_INDEX, too. */
export const ARRAY_INDEX = "index";

/** A text as it was written, numbers in their shortest form, lists and objects as JSON. */
export function textOf(value: Value): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a value means: the text "1e-3" of a command line is the number. */
export function meaningOf(value: Value): Value {
  return typeof value === "string" ? typed(value) : value;
}

/**
 * {NAME} for known names only: braces of shells, file names and JSON stay. {{NAME}} stands for
 * {NAME} itself.
 */
const TEMPLATE = /\{\{([A-Za-z_][\w.:/-]*)\}\}|\{([A-Za-z_][\w.:/-]*)\}/g;

interface Filling {
  values: Values;
  /** Names of parameters that other trials have. */
  absent: ReadonlySet<string>;
  used: Set<string>;
  /**
   * Characters that values may still take: a template of three characters can stand for a million,
   * any number of times.
   */
  room: number;
}

/**
 * @throws MosaicError `invalid_argument` for values that make a config larger than the sweep may be
 */
function taken(text: string, filling: Filling): string {
  filling.room -= text.length;
  if (filling.room >= 0) return text;
  throw new MosaicError(
    "invalid_argument",
    `the config of a trial has more than ${MOST_SPEC_TEXT >> 20} MiB of values`,
    {
      hint: "Write long values to a file, and sweep over its name.",
    },
  );
}

function fillText(text: string, filling: Filling): string {
  const { values, used } = filling;
  return text.replace(TEMPLATE, (whole, literal: string | undefined, name: string | undefined) => {
    const known = values.get((literal ?? name)!);
    if (known === undefined && !values.has((literal ?? name)!)) return whole;
    if (literal !== undefined) return `{${literal}}`;
    used.add(name!);
    return taken(textOf(known!), filling);
  });
}

/** Whether a text needs a parameter that this trial does not have. */
function namesAbsent(json: unknown, { absent }: Filling): boolean {
  if (absent.size === 0 || typeof json !== "string") return false;
  return [...json.matchAll(TEMPLATE)].some(([, , name]) => name !== undefined && absent.has(name));
}

/**
 * Without such words, and without the option before each: `--momentum {momentum}` goes as a whole.
 */
function withoutAbsent(words: readonly unknown[], filling: Filling): unknown[] {
  const gone = words.map((word) => namesAbsent(word, filling));
  const isOption = (word: unknown) => typeof word === "string" && /^--?[A-Za-z][^=\s]*$/.test(word);
  return words.filter((word, i) => !gone[i] && !(gone[i + 1] && isOption(word)));
}

/**
 * @param words texts stay texts: arguments, and values of variables. Elsewhere "{lr}" alone becomes
 * the value itself.
 */
function fill(json: unknown, filling: Filling, words: boolean): unknown {
  if (typeof json === "string") {
    const alone = /^\{([A-Za-z_][\w.:/-]*)\}$/.exec(json)?.[1];
    if (words || alone === undefined || !filling.values.has(alone)) return fillText(json, filling);
    filling.used.add(alone);
    const known = filling.values.get(alone)!;
    taken(textOf(known), filling);
    return meaningOf(known);
  }
  if (Array.isArray(json)) {
    return withoutAbsent(json, filling).map((one) => fill(one, filling, words));
  }
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).filter(([, one]) => !namesAbsent(one, filling)).map((
      [key, one],
    ) => [key, fill(one, filling, words || key === "arguments" || key === "environment")]),
  );
}

type Json = Record<string, unknown>;
const wordsOf = (json: unknown): unknown[] => Array.isArray(json) ? json : [];
const objectIn = (parent: Json, key: string): Json => ({ ...(parent[key] as Json | undefined) });

/**
 * The config of a trial, as it is submitted.
 * @param sweepId makes it differ from the config of every other run
 * @param resumeFrom the checkpoint of another trial that it begins with
 * @throws MosaicError `invalid_argument` for a parameter that would not reach the program
 */
export function trialConfig(
  spec: SweepSpec,
  sweepId: string,
  trial: number,
  resumeFrom?: string,
): Json {
  const values = valuesAt(spec, trial);
  const own: [string, Value][] = [["sweep", spec.name], ["trial", trial]];
  const filling: Filling = {
    values: new Map([...values, ...own]),
    absent: new Set(knownNames(spec).filter((name) => !values.has(name))),
    used: new Set<string>(),
    room: MOST_SPEC_TEXT,
  };
  const config = fill(spec.config, filling, false) as Json;
  const metadata = objectIn(config, "metadata");
  const index = values.get(ARRAY_INDEX);
  if (index !== undefined) filling.used.add(ARRAY_INDEX);
  const left = [...values].filter(([name]) => !filling.used.has(name));
  if (left.length > 0 && spec.pass === "templates") throw notPassed(left[0]![0], spec);
  if (left.length > 0) {
    const words = left.map(([name, value]) =>
      `${spec.pass === "flags" ? "--" : ""}${name}=${textOf(value)}`
    );
    const worker = objectIn(metadata, "worker");
    const ofWorker = metadata.worker !== undefined;
    if (ofWorker) {
      metadata.worker = { ...worker, arguments: [...wordsOf(worker.arguments), ...words] };
    }
    if (!ofWorker || config.arguments !== undefined) {
      config.arguments = [...wordsOf(config.arguments), ...words];
    }
  }
  metadata.parameters = {
    ...objectIn(metadata, "parameters"),
    ...Object.fromEntries([...values].map(([name, value]) => [name, meaningOf(value)])),
    sweep: spec.name,
  };
  const tags = Array.isArray(metadata.tags) ? metadata.tags : [];
  metadata.tags = [...tags, sweepTag(spec.name)];
  metadata.submission = {
    ...objectIn(metadata, "submission"),
    by: "mosaic sweep",
    sweep: spec.name,
    trial,
    nonce: `${sweepId}:${trial}`,
  };
  if (resumeFrom !== undefined) metadata.resume_from = resumeFrom;
  config.metadata = metadata;
  config.run_name = `${spec.name}-${trial}`;
  config.environment = {
    ...objectIn(config, "environment"),
    MOSAIC_SWEEP: spec.name,
    MOSAIC_TRIAL: String(trial),
    ...(index === undefined ? {} : { MOSAIC_ARRAY_INDEX: textOf(index) }),
  };
  return config;
}

const namesBySpec = new WeakMap<object, string[]>();

/** Those of all trials, read once: there may be 100 000 rows. */
function knownNames(spec: SweepSpec): string[] {
  const known = namesBySpec.get(spec.parts) ?? namesOf(spec);
  namesBySpec.set(spec.parts, known);
  return known;
}

/** The tag of all runs of a sweep. */
export const sweepTag = (name: string) => `sweep:${name}`;

function notPassed(name: string, spec: SweepSpec): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `the parameter ${name} does not reach the program: nothing names {${name}}`,
    {
      hint: `Write {${name}} where the command needs its value, or let mosaic append ${
        namesOf(spec).length > 1 ? "such parameters" : "it"
      }: --pass flags for --${name}=VALUE, --pass hydra for ${name}=VALUE.`,
    },
  );
}

/** The command of a trial, as a person would type it. */
export function commandOf(config: Record<string, unknown>): string[] {
  const worker = objectIn(objectIn(config, "metadata"), "worker");
  const { script, module } = worker;
  const words = wordsOf(worker.arguments ?? config.arguments).map(String);
  if (typeof script === "string") return [script, ...words];
  if (typeof module === "string") return ["python", "-m", module, ...words];
  return [String(config.entry_point), ...words];
}

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The id of a trial's run: always the same, with the sweep's time in it. */
export function trialRunId(sweepId: string, trial: number): string {
  const bytes = sha256().update(`${sweepId}:${trial}`, "utf8").digest().subarray(0, 10);
  let bits = bytes.reduce((n: bigint, byte: number) => (n << 8n) | BigInt(byte), 0n);
  let text = "";
  for (let i = 0; i < 16; i++, bits >>= 5n) text = ALPHABET[Number(bits & 31n)] + text;
  return sweepId.slice(0, 10) + text;
}
