/** Parameters: nested values as flat names, with bounds. Pure. */

/** A stored parameter: `value` is JSON text, which keeps its type. */
export interface Parameter {
  name: string;
  /**
   * `config`, `command`, or the source named by its event (`hparams`, `wandb`, `mlflow`, `init` …).
   */
  source: string;
  value: string;
}

/** A value of a parameter; lists are not split. */
export type ParameterValue = string | number | boolean | null | readonly unknown[];

/** Names per run and source; further names are counted, not stored. */
export const MAX_PARAMETERS = 1000;
/**
 * Characters of a value's JSON text; a longer text is cut and ends in "…", a longer list becomes
 * such a text.
 */
const MAX_VALUE_LENGTH = 1024;
/** Characters of a name and of a source; longer ones are cut. */
export const MAX_NAME_LENGTH = 250;
const MAX_DEPTH = 16;

/**
 * The values of an object by name; names of nested objects are joined with dots. JSON has no NaN
 * and no infinities: they become texts. An empty object has no parameters.
 */
export function flatParameters(
  values: Record<string, unknown>,
  into = new Map<string, string>(),
): Map<string, string> {
  collect(values, "", 0, into);
  return into;
}

function collect(
  values: Record<string, unknown>,
  prefix: string,
  depth: number,
  into: Map<string, string>,
): void {
  for (const [key, value] of Object.entries(values)) {
    const name = prefix + key;
    if (typeof value === "object" && value !== null && !Array.isArray(value) && depth < MAX_DEPTH) {
      collect(value as Record<string, unknown>, `${name}.`, depth + 1, into);
    } else into.set(nameOf(name), jsonOf(value));
  }
}

function nameOf(name: string): string {
  return name.toWellFormed().replaceAll("\0", "").slice(0, MAX_NAME_LENGTH);
}

function jsonOf(value: unknown): string {
  const plain = (_: string, inner: unknown) =>
    typeof inner === "number" && !Number.isFinite(inner)
      ? String(inner)
      : typeof inner === "string"
      ? inner.toWellFormed().replaceAll("\0", "")
      : inner;
  const json = JSON.stringify(value, plain) ?? "null";
  if (json.length <= MAX_VALUE_LENGTH) return json;
  const text = typeof value === "string" ? value : json;
  return JSON.stringify(`${text.slice(0, MAX_VALUE_LENGTH / 2).toWellFormed()}…`);
}

/** The content of an event of kind `parameters`; undefined if it has none. */
export function parametersOfEvent(
  data: Record<string, unknown> | undefined,
): { source: string; values: Map<string, string>; removed: string[] } | undefined {
  const { source, values, removed } = data ?? {};
  const named = typeof source === "string" && source !== "" ? nameOf(source) : "worker";
  const isObject = typeof values === "object" && values !== null && !Array.isArray(values);
  const flat = flatParameters(isObject ? values as Record<string, unknown> : {});
  const gone = Array.isArray(removed)
    ? removed.filter((name) => typeof name === "string").map(nameOf)
    : [];
  return flat.size + gone.length === 0 ? undefined : { source: named, values: flat, removed: gone };
}

/** The source of a value that a later attempt has changed. */
export function sourceOfAttempt(source: string, attempt: number): string {
  return `${source} #${attempt}`;
}

/** The attempt of such a source; undefined for the source of a value that holds. */
export function attemptOfSource(source: string): number | undefined {
  const [, attempt] = / #(\d+)$/.exec(source) ?? [];
  return attempt === undefined ? undefined : Number(attempt);
}

/**
 * Sources that mosaic reads before the run starts, lowest precedence first; the program's own
 * events override them.
 */
const WEAKEST = ["config", "command"];

/**
 * One value for each name. Precedence: the program's events (the latest by `seq`), the command
 * line, the config.
 */
export function effective<P extends Parameter & { seq: number }>(
  parameters: Iterable<P>,
): Map<string, P> {
  const chosen = new Map<string, P>();
  for (const parameter of parameters) {
    const other = chosen.get(parameter.name);
    if (other === undefined || rankOf(parameter) > rankOf(other)) {
      chosen.set(parameter.name, parameter);
    }
  }
  return chosen;
}

function rankOf({ source, seq }: { source: string; seq: number }): number {
  const weak = WEAKEST.indexOf(source);
  return weak >= 0 ? weak - WEAKEST.length : seq;
}

/** Names by which programs call the number of steps that they train for. */
const LENGTH =
  /^(?:(?:trainer|train|training|train_args|args|algo|algorithm|agent|collector|config|hparams)[./])?(?:(?:total|max|num)_(?:env_|train(?:ing)?_|time)?(?:steps|iters|frames)|total_(?:updates|iterations)|(?:train(?:ing)?)_steps)$/;
/** Of a rollout, or of an episode. */
const NO_LENGTH = /(?:^|[./])num_steps$/;

/**
 * How many steps a run is to make, by its parameters; 0: none says it, or it has made more.
 * @param steps how many it has made
 */
export function lengthIn(parameters: Iterable<Parameter>, steps: number): number {
  const lengths: number[] = [];
  for (const { name, value } of parameters) {
    const plain = name.toLowerCase().replaceAll("-", "_");
    if (!LENGTH.test(plain) || NO_LENGTH.test(plain)) continue;
    const length = Number(value.replace(/^"(.*)"$/, "$1").replaceAll("_", ""));
    if (Number.isSafeInteger(length) && length >= Math.max(1, steps)) lengths.push(length);
  }
  // Two that differ say nothing.
  return new Set(lengths).size === 1 ? lengths[0]! : 0;
}

/** Of the whole training; `n_epochs` and `update_epochs` are of one update. */
const EPOCHS =
  /^(?:(?:trainer|train|training|train_args|args|config|hparams)[./])?(?:(?:num|max|total)_(?:train(?:ing)?_)?)?epochs$/;

/** How far a run is, 0 to 1, by the epoch that it logs and their number; null: none says it. */
export function partInEpochs(
  parameters: Iterable<Parameter>,
  epoch: number | undefined,
): number | null {
  if (epoch === undefined || !(epoch >= 0)) return null;
  const numbers = [...parameters].flatMap(({ name, value }) => {
    const number = Number(value.replace(/^"(.*)"$/, "$1"));
    const isNumber = EPOCHS.test(name.toLowerCase().replaceAll("-", "_")) &&
      Number.isFinite(number) && number >= Math.max(1, epoch);
    return isNumber ? [number] : [];
  });
  return new Set(numbers).size === 1 ? epoch / numbers[0]! : null;
}
