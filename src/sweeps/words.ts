/**
 * The words with which people describe sweeps, on the command line and in files. Pure; errors name
 * the word.
 */
import { MosaicError } from "../base/errors.ts";
import { parseDuration } from "../base/text/format.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { typed } from "../config/parameters.ts";
import { rowAt } from "../readers/tables/csv_row.ts";
import { axisValues, isOneOf } from "./points.ts";
import {
  type Axis,
  type Condition,
  type Distribution,
  EVENLY,
  MOST_TRIALS,
  OVER,
  type Part,
  type Pieces,
  type StopRule,
  type SweepSpec,
  type Value,
} from "./spec.ts";

function refused(message: string, hint?: string): MosaicError {
  return new MosaicError("invalid_argument", message, hint === undefined ? {} : { hint });
}

/** `NAME=REST` */
function assignment(text: string, form: string): [name: string, rest: string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
  throw refused(`"${text}" has no name`, `Write it as ${form}.`);
}

/** At commas outside of brackets and quotes. */
function items(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let quoted = false;
  let begin = 0;
  for (let i = 0; i <= text.length; i++) {
    const char = text[i];
    if (char === '"') quoted = !quoted;
    if (!quoted && char !== undefined && "([{".includes(char)) depth++;
    if (!quoted && char !== undefined && ")]}".includes(char)) depth--;
    if (char !== undefined && (char !== "," || depth > 0 || quoted)) continue;
    found.push(text.slice(begin, i).trim());
    begin = i + 1;
  }
  return found;
}

/**
 * A word of a list: a JSON list, object or quoted text is that value; anything else stays as it is
 * written.
 */
function wordValue(word: string): Value {
  if (!/^["[{]/.test(word)) return word;
  try {
    return JSON.parse(word);
  } catch {
    return word;
  }
}

const RANGE = /^(-?\d+)(?:\.\.|(?<=\d)-)(-?\d+)(?::(\d+))?$/;

/** `1..8`, `0..100:10`, `3`, joined by commas; undefined if the text is something else. */
function rangesOf(text: string): [number, number, number][] | undefined {
  const found = text.split(",").map((one): [number, number, number] | undefined => {
    if (/^\s*-?\d+\s*$/.test(one)) return [Number(one), Number(one), 1];
    const [, from, to, step = "1"] = RANGE.exec(one.trim()) ?? [];
    return from === undefined || Number(step) < 1
      ? undefined
      : [Number(from), Number(to), Number(step)];
  });
  return found.some((one) => one === undefined || one[0] > one[1])
    ? undefined
    : found as [number, number, number][];
}

/** `lr=1e-3,3e-4`, `layers=1..4` */
export function gridAxis(text: string): Axis {
  const [name, rest] = assignment(text, "NAME=VALUE,VALUE or NAME=FROM..TO");
  if (rest === "") throw refused(`${name} has no values`);
  const ranges = rest.includes("..") ? rangesOf(rest) : undefined;
  return ranges === undefined ? { name, values: items(rest).map(wordValue) } : { name, ranges };
}

/** `1..8`, `1,2,5`, `0-99` */
export function wholeAxis(name: string, text: string): Axis {
  const ranges = rangesOf(text);
  if (ranges !== undefined) return { name, ranges };
  throw refused(
    `"${text}" names no whole numbers`,
    "Write them as 1..8, as 1,2,5, or as 0..100:10.",
  );
}

/** `0-99%8`: 100 trials, at most 8 at once. */
export function arrayWords(text: string): { axis: Axis; parallel: number | undefined } {
  const [, indices = text, parallel] = /^([^%]*)(?:%(\d+))?$/.exec(text) ?? [];
  if (parallel !== undefined && Number(parallel) < 1) {
    throw refused(`"${text}" lets no trial run: give at least %1`);
  }
  return {
    axis: wholeAxis("index", indices),
    parallel: parallel === undefined ? undefined : Number(parallel),
  };
}

const DISTRIBUTIONS = ["uniform", "log", "int", "choice"] as const;

/**
 * `lr=log(1e-5,1e-2)`, `layers=int(1,4)`, `drop=uniform(0,0.5)`, `act=choice(relu,tanh)`,
 * `lr=log(1e-5,1e-2,1e-5)` with a quantum
 */
export function spaceOf(text: string): { name: string; distribution: Distribution } {
  const [name, rest] = assignment(text, "NAME=log(LOW,HIGH)");
  return { name, distribution: distributionOf(rest, name) };
}

export function distributionOf(text: string, name: string): Distribution {
  const [, type, inner] = /^([a-z_]+)\(([^]*)\)$/.exec(text.trim()) ?? [];
  const known = DISTRIBUTIONS.find((one) => one === type);
  if (known === undefined) {
    throw refused(
      `${name}: "${text}" is no distribution.${didYouMean(type ?? text, DISTRIBUTIONS)}`,
      "It is one of uniform(LOW,HIGH), log(LOW,HIGH), int(LOW,HIGH), choice(A,B,…).",
    );
  }
  const words = items(inner!);
  if (known === "choice") {
    if (words.some((word) => word === "")) throw refused(`${name}: choice() has an empty value`);
    return { type: "choice", values: words.map(wordValue) };
  }
  const numbers = words.map((word) => typed(word));
  const [low, high, quantum] = numbers;
  if (
    typeof low !== "number" || typeof high !== "number" ||
    numbers.length > (known === "int" ? 2 : 3) ||
    (quantum !== undefined && !(typeof quantum === "number" && quantum > 0))
  ) {
    throw refused(`${name}: "${text}" needs two numbers: ${known}(LOW,HIGH)`);
  }
  if (low > high) throw refused(`${name}: "${text}" begins above its end`);
  if (known === "log" && low <= 0) {
    throw refused(`${name}: "${text}": a logarithmic range begins above 0`);
  }
  if (known === "int") {
    if (Number.isSafeInteger(low) && Number.isSafeInteger(high)) return { type: "int", low, high };
    throw refused(`${name}: "${text}" needs whole numbers`);
  }
  return {
    type: known,
    low,
    high,
    ...(quantum === undefined ? {} : { quantum: quantum as number }),
  };
}

/** Points as rows of a CSV file with a header, or as JSON lines. @param file for messages */
export function rowsOf(text: string, file: string): Record<string, Value>[] {
  const jsonLines = /^\s*\{/.test(text);
  const rows = jsonLines ? jsonRows(text, file) : csvRows(text, file);
  if (rows.length === 0) throw refused(`${file} has no points`);
  return rows;
}

const tooMany = (file: string) => refused(`${file} has more than ${MOST_TRIALS} points`);

function jsonRows(text: string, file: string): Record<string, Value>[] {
  let points = 0;
  return text.split("\n").flatMap((line, i) => {
    if (line.trim() === "") return [];
    if (++points > MOST_TRIALS) throw tooMany(file);
    let row: unknown;
    try {
      row = JSON.parse(line);
    } catch {
      throw refused(`${file}:${i + 1}: this line is no JSON`);
    }
    if (typeof row !== "object" || row === null || Array.isArray(row)) {
      throw refused(`${file}:${i + 1}: a point is an object, such as {"lr": 0.001}`);
    }
    return [row as Record<string, Value>];
  });
}

function csvRows(text: string, file: string): Record<string, Value>[] {
  const bytes = new TextEncoder().encode(text.endsWith("\n") ? text : `${text}\n`);
  const table: { cells: string[]; line: number }[] = [];
  for (let at = 0, line = 1; at < bytes.length;) {
    const row = rowAt(bytes, at);
    if (row === undefined) {
      throw refused(`${file}:${line}: a quote that begins here is never closed`);
    }
    if (row.cells.some((cell) => cell.trim() !== "")) table.push({ cells: row.cells, line });
    if (table.length > MOST_TRIALS + 1) throw tooMany(file);
    line += bytes.subarray(at, at + row.bytes).filter((byte) => byte === 10).length;
    at += row.bytes;
  }
  const [header, ...rows] = table;
  return rows.map(({ cells, line }) => {
    if (cells.length !== header!.cells.length) {
      throw refused(
        `${file}:${line}: ${cells.length} values, but the header has ${header!.cells.length} names`,
      );
    }
    return Object.fromEntries(header!.cells.map((name, i) => [name.trim(), cells[i]!.trim()]));
  });
}

/** `24h`, `5000000steps`, `40runs` */
export function budgetOf(texts: readonly string[]): SweepSpec["budget"] {
  const budget: SweepSpec["budget"] = {};
  for (const text of texts) {
    const [, amount, unit] = /^([\d_]+)\s*(steps?|runs?|trials?)$/.exec(text.trim()) ?? [];
    const ms = unit === undefined && !/^[\d.]+$/.test(text) ? parseDuration(text) : undefined;
    if (unit?.startsWith("step")) budget.steps = Number(amount!.replaceAll("_", ""));
    else if (unit !== undefined) budget.runs = Number(amount!.replaceAll("_", ""));
    else if (ms !== undefined && ms > 0) budget.seconds = ms / 1000;
    else {throw refused(
        `"${text}" is no budget`,
        "Write it as 24h (of running time), 5000000steps or 40runs.",
      );}
  }
  return budget;
}

/** `eval/mean_reward:max`; without a direction, the higher the better. */
export function metricOf(text: string): NonNullable<SweepSpec["metric"]> {
  const [, name, goal] = /^([^]+?)(?::(max|min|maximize|minimize))?$/.exec(text) ?? [];
  if (name === undefined) {
    throw refused("the metric has no name", "Write it as NAME:max or NAME:min.");
  }
  return { name, goal: goal?.startsWith("min") ? "min" : "max" };
}

const RULES = ["asha", "hyperband", "median", "pbt", "optimizer"] as const;
/** What would be taken for a metric that never comes. */
const UNITS_MEANT: Record<string, string> = {
  steps: "step",
  point: "points",
  seconds: "time",
  minutes: "time",
  hours: "time",
};
const RULE_WORDS = ["min", "max", "reduction", "brackets", "unit", "over", "hold"] as const;

/** How long a trial is, if its config says so. */
export interface TrialLength {
  steps?: number | undefined;
  seconds?: number | undefined;
}

/**
 * `asha`, `asha:min=1000,max=27000,reduction=3`, `asha:unit=time,min=5m,max=2h`,
 * `asha:unit=epoch,max=50`, `hyperband:max=27000,brackets=3`, `median:min=5%,max=20000`,
 * `asha:max=27000,hold=4`, `pbt:min=1000,max=20000`
 */
export function stopOf(text: string, length: TrialLength): StopRule {
  const [word, rest = ""] = text.split(/:(.*)/s);
  const rule = RULES.find((one) => one === word!.trim());
  if (rule === undefined) {
    throw refused(
      `"${word}" is no rule of early stopping.${didYouMean(word!, RULES)}`,
      `It is one of ${RULES.join(", ")}.`,
    );
  }
  const given: Partial<Record<typeof RULE_WORDS[number], string>> = {};
  for (const one of rest === "" ? [] : rest.split(",")) {
    const [key, value] = assignment(one, `${rule}:max=STEPS`);
    const known = RULE_WORDS.find((word) => word === key);
    if (known === undefined) {
      throw refused(`${rule} has no "${key}".${didYouMean(key, RULE_WORDS)}`);
    }
    given[known] = value;
  }
  const unit = given.unit ?? "step";
  const meant = UNITS_MEANT[unit];
  if (meant !== undefined) {
    throw refused(
      `${rule}: unit is "${unit}". Did you mean ${meant}?`,
      "It is step, points, time or a metric's name.",
    );
  }
  const wrong = (key: string, form: string) =>
    refused(`${rule}: ${key} is "${given[key as "min"]}"; it must be ${form}`);
  const numberOf = (key: "reduction" | "brackets" | "hold"): number | undefined => {
    if (given[key] === undefined) return undefined;
    const number = Number(given[key]);
    if (Number.isFinite(number) && number > 0) return number;
    throw wrong(key, "a number above 0");
  };
  const placeOf = (key: "min" | "max", whole?: number): number | undefined => {
    const text = given[key];
    if (text === undefined) return undefined;
    const [, percent] = /^([\d.]+)%$/.exec(text) ?? [];
    const ms = unit === "time" ? parseDuration(text) : undefined;
    const place = percent !== undefined && whole !== undefined
      ? Number(percent) / 100 * whole
      : ms !== undefined
      ? ms / 1000
      : Number(text.replaceAll("_", ""));
    if (Number.isFinite(place) && place > 0) return place;
    const number = unit === "time" ? "a time such as 10m" : "a number above 0";
    throw wrong(key, whole === undefined ? number : `${number}, or a share of max such as 5%`);
  };
  const max = placeOf("max") ?? { step: length.steps, time: length.seconds }[unit];
  if (max === undefined) {
    const what = {
      step: "how many steps a trial has",
      time: "how long a trial runs",
      points: "how many points a trial has",
    };
    throw refused(
      `${rule}: ${what[unit as keyof typeof what] ?? `how far ${unit} goes`} is not known`,
      `Write it as ${rule}:${
        unit === "step" ? "max=100000" : `unit=${unit},max=${unit === "time" ? "2h" : "100"}`
      }.`,
    );
  }
  const over = given.over === undefined ? undefined : OVER.find((one) => one === given.over);
  const alone = EVENLY.includes(rule);
  if (given.over !== undefined && (over === undefined || (over !== "trial" && alone))) {
    throw wrong("over", alone ? "trial" : "trial, mean, median or iqm (over a point's seeds)");
  }
  const reduction = numberOf("reduction") ?? (rule === "pbt" ? 4 : 3);
  const min = placeOf("min", max) ??
    (alone ? Math.ceil(max / 10) : Math.ceil(max / reduction ** 3));
  const brackets = numberOf("brackets") ?? (rule === "hyperband" ? 3 : 1);
  if (min >= max) {
    throw refused(`${rule}: the first rung (min, ${min}) must lie below the end (max, ${max})`);
  }
  const rungs = {
    rule,
    unit,
    min: Math.ceil(min),
    max: Math.ceil(max),
    reduction,
    brackets,
  } as const;
  const hold = numberOf("hold");
  if (hold !== undefined && (alone || unit === "time")) {
    throw refused(
      alone
        ? `${rule}: nobody is held, because later trials change nothing for a trial that was worse`
        : `${rule}: the time of a trial that is held goes on, so its rungs cannot be times`,
      `Leave hold out${alone ? "" : ", or count steps or a metric such as epoch"}.`,
    );
  }
  return {
    ...rungs,
    ...(over === undefined || over === "trial" ? {} : { over }),
    ...(hold === undefined ? {} : { hold }),
  };
}

/** `momentum if optimizer=sgd,nesterov` */
export function conditionOf(text: string): Condition {
  const [, name, rest] = /^\s*(\S+)\s+if\s+([^]+)$/.exec(text) ?? [];
  if (name === undefined) {
    throw refused(
      `"${text}" is no condition`,
      "Write it as 'momentum if optimizer=sgd' or 'x if y=1,2'.",
    );
  }
  const { name: on, values, ranges } = gridAxis(rest!);
  return {
    name,
    on,
    values: values ?? axisValues({ name: on, ...(ranges === undefined ? {} : { ranges }) }),
  };
}

/**
 * The parts of a sweep with conditions: points that differ only in a parameter that they do not
 * have are one point.
 * @throws as `partFrom`
 */
export function partsFrom(pieces: Pieces): Part[] {
  const { when = [], ...others } = pieces;
  const whole = partFrom(others);
  const [listed, drawn] = [
    whole.axes.map(({ name }) => name),
    whole.draws?.space.map(({ name }) => name) ?? [],
  ];
  const known = [...listed, ...drawn];
  for (const { name, on } of when) {
    for (const one of [name, on]) {
      if (known.includes(one)) continue;
      throw refused(
        `when: the sweep has no parameter ${one} with given or random values.${
          didYouMean(one, known)
        }`,
        "Rows of --points may leave parameters out themselves.",
      );
    }
    if (listed.includes(name) && drawn.includes(on)) {
      throw refused(
        `when: ${name} has given values and depends on ${on}, which is random`,
        `Draw it, too: --space '${name}=choice(…)'.`,
      );
    }
  }
  const ofDraws = when.filter(({ on }) => drawn.includes(on));
  const split = when.filter(({ on }) => listed.includes(on)).reduce(
    (parts, condition) => parts.flatMap((part) => divided(part, condition)),
    [whole],
  );
  return split.map((part) => {
    if (part.draws === undefined || ofDraws.length === 0) return part;
    return { ...part, draws: { ...part.draws, when: ofDraws } };
  });
}

/** A part with the condition's parameter and one without it. */
function divided(part: Part, { name, on, values }: Condition): Part[] {
  const has = part.axes.some((axis) => axis.name === name) ||
    part.draws?.space.some((one) => one.name === name);
  const axis = part.axes.find((axis) => axis.name === on);
  if (!has) return [part];
  const { draws, ...rest } = part;
  const space = draws?.space.filter((one) => one.name !== name) ?? [];
  const without = (axes: Axis[]): Part => ({
    ...rest,
    axes: axes.filter((axis) => axis.name !== name),
    ...(draws === undefined || space.length === 0 ? {} : { draws: { ...draws, space } }),
  });
  // What it depends on is not there itself.
  if (axis === undefined) return [without(part.axes)];
  const all = axisValues(axis);
  const [met, unmet] = [true, false].map((wanted) =>
    all.filter((value) => isOneOf(value, values) === wanted)
  );
  if (met!.length === 0) {
    throw refused(
      `when: ${on} never is ${values.map(String).join(" or ")}, so no trial has ${name}`,
    );
  }
  const withValues = (values: Value[]) =>
    part.axes.map((one) => one.name === on ? { name: on, values } : one);
  return [
    { ...part, axes: withValues(met!) },
    ...(unmet!.length === 0 ? [] : [without(withValues(unmet!))]),
  ];
}

/**
 * @throws MosaicError `invalid_argument` for pieces that do not belong together, or for a name that
 * is given twice
 */
export function partFrom(pieces: Pieces): Part {
  const { axes, rows, random, sample_seed = 0, space, seeds } = pieces;
  if (random !== undefined && space.length === 0) {
    throw refused(
      "a random sample needs a space",
      "Add --space 'lr=log(1e-5,1e-2)' for each parameter.",
    );
  }
  if (random === undefined && space.length > 0) {
    throw refused(
      "a space needs the size of its sample",
      "Add --random N, or give values with --grid.",
    );
  }
  if (axes.length + space.length === 0 && rows === undefined && seeds === undefined) {
    throw refused(
      "there is nothing to try",
      "Give --grid, --random with --space, --points, --seeds or --array.",
    );
  }
  const rowNames = new Set((rows ?? []).flatMap((row) => Object.keys(row)));
  const names = [
    ...axes.map(({ name }) => name),
    ...space.map(({ name }) => name),
    ...rowNames,
    ...(seeds === undefined ? [] : [seeds.name]),
  ];
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw refused(`the parameter ${twice} is given twice`);
  return {
    axes,
    ...(rows === undefined ? {} : { rows }),
    ...(random === undefined
      ? {}
      : { draws: { count: random, from: 0, seed: sample_seed, space } }),
    ...(seeds === undefined ? {} : { seeds }),
  };
}

/**
 * The parts of a sweep with further ones: new values of a parameter that it has, with all other
 * values; more random points; or all its points with further seeds.
 * @throws MosaicError `invalid_argument`
 */
export function extendedParts(parts: readonly Part[], pieces: Pieces): Part[] {
  const last = parts.findLast(({ unstopped }) => unstopped !== true)!;
  const { axes, rows, random, space, seeds, when } = pieces;
  if (when !== undefined) {
    throw refused(
      "a sweep keeps the conditions with which it began",
      "Leave --when out, or begin another sweep.",
    );
  }
  if (axes.length === 0 && rows === undefined && random === undefined && seeds !== undefined) {
    return [
      ...parts,
      // One that is unstopped has no points of its own.
      ...parts.filter((part, i) =>
        part.unstopped !== true && !parts.slice(0, i).some((p) => samePoints(p, part))
      )
        .map((part) => ({ ...part, seeds })),
    ];
  }
  if (random !== undefined && space.length === 0 && last.draws !== undefined) {
    const from = Math.max(
      ...parts.flatMap(({ draws }) => draws === undefined ? [] : [draws.from + draws.count]),
    );
    return [...parts, {
      ...last,
      ...(seeds === undefined ? {} : { seeds }),
      draws: { ...last.draws, from, count: random },
    }];
  }
  if (axes.length > 0 && rows === undefined && random === undefined) {
    const known = last.axes.map(({ name }) => name);
    const unknown = axes.find(({ name }) => !known.includes(name));
    if (unknown !== undefined) {
      throw refused(
        `the sweep has no parameter ${unknown.name} with given values.${
          didYouMean(unknown.name, known)
        }`,
        "A sweep is extended by values of its own parameters; for others, begin another sweep.",
      );
    }
    const widened = last.axes.map((axis) => axes.find(({ name }) => name === axis.name) ?? axis);
    return [...parts, { ...last, axes: widened, ...(seeds === undefined ? {} : { seeds }) }];
  }
  const more = partFrom({ ...pieces, seeds: seeds ?? last.seeds });
  // Points that come one by one stay one part.
  const listed = (part: Part) =>
    part.axes.length === 0 && part.draws === undefined && part.seeds === undefined;
  const isLast = last === parts.at(-1);
  if (!isLast || rows === undefined || last.rows === undefined || !listed(last) || !listed(more)) {
    return [...parts, more];
  }
  return [...parts.slice(0, -1), { ...last, rows: [...last.rows, ...rows] }];
}

const samePoints = (a: Part, b: Part) =>
  JSON.stringify({ ...a, seeds: 0 }) === JSON.stringify({ ...b, seeds: 0 });
