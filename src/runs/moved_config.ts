/** A config whose files lie elsewhere, or that has other parameters. Pure. */
import { MosaicError } from "../base/errors.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { type JsonObject, type JsonValue, readJson } from "../config/lossless_json.ts";

/** @throws MosaicError `invalid_argument` */
export function configObject(configJson: string): JsonObject {
  const config = readJson(configJson);
  if (config instanceof Map) return config;
  throw new MosaicError("invalid_argument", "the config is not an object");
}

/** An object inside, made if it is not there. */
export function objectIn(parent: JsonObject, name: string): JsonObject {
  const known = parent.get(name);
  if (known instanceof Map) return known;
  const made: JsonObject = new Map();
  parent.set(name, made);
  return made;
}

/** Lists of words in a config: the command, as `mosaic run` writes it, twice. */
function wordLists(config: JsonObject): JsonValue[][] {
  const worker = objectIn(objectIn(config, "metadata"), "worker");
  return [config.get("arguments"), worker.get("arguments")].filter((list) => Array.isArray(list));
}

/**
 * Paths below `from` in program, arguments, working directory and PYTHONPATH become paths below
 * `to`, where there is such a file. Others stay: data and environments that are not in the copy.
 */
export function moveConfig(
  config: JsonObject,
  from: string,
  to: string,
  exists: (path: string) => boolean,
): void {
  const moved = (path: string): string => {
    if (path !== from && !path.startsWith(`${from}/`)) return path;
    const there = to + path.slice(from.length);
    return exists(there) ? there : path;
  };
  const word = (text: string): string => {
    const at = /^-{0,2}[\w.+-]+=(?=\/)/.exec(text)?.[0].length ?? 0;
    return text.slice(0, at) + moved(text.slice(at));
  };
  const worker = objectIn(objectIn(config, "metadata"), "worker");
  const set = (object: JsonObject, name: string, change: (text: string) => string) => {
    const value = object.get(name);
    if (typeof value === "string") object.set(name, change(value));
  };
  set(config, "entry_point", moved);
  for (const name of ["script", "python", "cwd"]) set(worker, name, moved);
  for (const list of wordLists(config)) {
    list.forEach((one, i) => typeof one === "string" && (list[i] = word(one)));
  }
  const environment = config.get("environment");
  if (environment instanceof Map) {
    set(environment, "PYTHONPATH", (path) => path.split(":").map(moved).join(":"));
  }
}

const NAME = /^(?:-{1,2}|\+{0,2})([A-Za-z_][\w.:/-]*)$/;
const normal = (name: string) => name.replaceAll("-", "_");

/**
 * Sets a parameter where the config has it: `--name V`, `--name=V`, `name=V` on the command line,
 * else a field of `metadata.worker.config`. @returns false if it has none of this name
 */
export function setParameter(config: JsonObject, name: string, value: string): boolean {
  const inCommand = wordLists(config).map((list) => setWord(list, name, value)).some((was) => was);
  return inCommand || setField(config, name, value);
}

function setWord(list: JsonValue[], name: string, value: string): boolean {
  for (let i = 0; i < list.length; i++) {
    const word = list[i];
    if (typeof word !== "string") continue;
    const equals = word.indexOf("=");
    const [, key] = NAME.exec(equals < 0 ? word : word.slice(0, equals)) ?? [];
    if (
      key === undefined || normal(key) !== normal(name) || (equals < 0 && !word.startsWith("-"))
    ) continue;
    if (equals >= 0) list[i] = `${word.slice(0, equals)}=${value}`;
    else if (takesValue(list[i + 1])) list[i + 1] = value;
    else {throw new MosaicError(
        "invalid_argument",
        `${word} of the command takes no value; ${name}=${value} cannot be set`,
      );}
    return true;
  }
  return false;
}

function takesValue(next: JsonValue | undefined): boolean {
  return typeof next === "string" && (!next.startsWith("-") || /^-[\d.]/.test(next));
}

function setField(config: JsonObject, name: string, value: string): boolean {
  let object = objectIn(objectIn(config, "metadata"), "worker").get("config");
  const path = name.split(".");
  const last = path.pop()!;
  for (const part of path) object = object instanceof Map ? object.get(part) : undefined;
  if (!(object instanceof Map) || !object.has(last)) return false;
  let parsed: JsonValue = value;
  // A field that was a text stays one.
  if (typeof object.get(last) !== "string") {
    try {
      parsed = readJson(value);
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
    }
  }
  object.set(last, parsed);
  return true;
}

/** @throws MosaicError `invalid_argument` for a parameter that the run does not have */
export function setParameters(
  config: JsonObject,
  settings: readonly [string, string][],
  known: readonly string[],
): void {
  for (const [name, value] of settings) {
    if (setParameter(config, name, value)) continue;
    if (known.includes(name)) {
      throw new MosaicError(
        "invalid_argument",
        `the parameter "${name}" cannot be changed: its command line names no --${name} or ${name}=, nor does its config`,
        { hint: "Submit the changed command with mosaic run." },
      );
    }
    throw new MosaicError(
      "invalid_argument",
      `the run has no parameter "${name}" on its command line or in its config.${
        didYouMean(name, known)
      }`,
      {
        hint: known.length === 0
          ? "It has no parameters at all."
          : `It has ${known.slice(0, 30).join(", ")}.`,
      },
    );
  }
}

/**
 * The parameter that is the seed: `seed`, else the only one whose name ends so. @throws MosaicError
 * `invalid_argument`
 */
export function seedName(known: readonly string[]): string {
  if (known.includes("seed")) return "seed";
  const others = known.filter((name) => /(?:^|[._/-])(?:random_)?seed$/i.test(name));
  if (others.length === 1) return others[0]!;
  throw new MosaicError(
    "invalid_argument",
    others.length === 0
      ? "no parameter of the run is named seed"
      : `several parameters of the run are seeds: ${others.join(", ")}`,
    { hint: "Name it: --set NAME=VALUE." },
  );
}
