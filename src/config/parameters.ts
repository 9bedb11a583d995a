/** The parameters in a run's config and in its worker's command line. Pure. */
import { isPlainObject } from "../base/text/exact_numbers.ts";
import { parsedObject } from "../base/text/json_text.ts";
import { flatParameters, MAX_PARAMETERS, type Parameter } from "../records/parameters.ts";

/**
 * Fields of `metadata.worker.config` with paths and ids, whose differences between runs mean
 * nothing.
 */
const NO_PARAMETER = /^(?:run_id|worker_id|agent_id|schema_id|schema_definition)$/;

/**
 * The parameters of a stored config: of `metadata.worker.config` and `metadata.parameters` (source
 * `config`), and of the arguments in `metadata.worker.arguments` or `arguments` (source `command`).
 * None if the config cannot be read.
 */
export function parametersOf(configJson: string): { parameters: Parameter[]; leftOut: number } {
  const config = parsedObject(configJson);
  const metadata = objectIn(config, "metadata");
  const worker = objectIn(metadata, "worker");
  const given = Object.entries(objectIn(worker, "config")).filter(([name]) =>
    !NO_PARAMETER.test(name)
  );
  const fromConfig = flatParameters(Object.fromEntries(given));
  flatParameters(objectIn(metadata, "parameters"), fromConfig);
  const words = worker.arguments ?? config?.arguments;
  // The arguments of an imported run are files.
  const isCommand = Array.isArray(words) && config?.entry_point !== "mosaic:import-worker";
  const fromCommand = flatParameters(isCommand ? commandParameters(words.map(String)) : {});
  const parameters: Parameter[] = [];
  let leftOut = 0;
  for (const [source, values] of [["config", fromConfig], ["command", fromCommand]] as const) {
    leftOut += Math.max(0, values.size - MAX_PARAMETERS);
    for (const [name, value] of [...values].slice(0, MAX_PARAMETERS)) {
      parameters.push({ name, source, value });
    }
  }
  return { parameters, leftOut };
}

function objectIn(
  parent: Record<string, unknown> | undefined,
  key: string,
): Record<string, unknown> {
  const value = parent?.[key];
  return isPlainObject(value) ? value as Record<string, unknown> : {};
}

const SCRIPT = /\.(?:py|sh|js|ts|jl|r|lua|rb|pl)$/i;
const OPTION = /^--?([A-Za-z][\w.:/-]*)(?:=([^]*))?$/;
/** `lr=3e-4` and Hydra's `+optim.lr=3e-4`. */
const ASSIGNMENT = /^\+{0,2}([A-Za-z_][\w.:/-]*)=([^]*)$/;

/**
 * `--lr 3e-4`, `--lr=3e-4`, `lr=3e-4`, flags (`--cuda` is true, `--no-cuda` makes `cuda` false) and
 * several values (`--sizes 64 64` is a list). In names of options "-" becomes "_", as in argparse.
 * Options before the script (`python -u train.py …`, `python -c CODE …`) belong to the interpreter
 * and are left out.
 */
export function commandParameters(
  words: readonly string[],
): Record<string, ParameterText | ParameterText[]> {
  const found: Record<string, ParameterText | ParameterText[]> = Object.create(null);
  // `-m MODULE`, or `-c CODE`: code contains blanks, which the name of a config file rarely does.
  const module = words.findIndex((word, i) =>
    word === "-m" || word === "-c" && /\s/.test(words[i + 1] ?? "")
  );
  const script = words.findIndex((word) => SCRIPT.test(word) && !word.startsWith("-"));
  const start = script >= 0 && (module < 0 || script < module)
    ? script + 1
    : module >= 0
    ? module + 2
    : 0;
  for (let i = start; i < words.length; i++) {
    const option = OPTION.exec(words[i]!);
    const assignment = option === null ? ASSIGNMENT.exec(words[i]!) : null;
    if (assignment !== null) found[assignment[1]!] = typed(assignment[2]!);
    if (option === null) continue;
    const name = option[1]!.replaceAll("-", "_");
    if (option[2] !== undefined) {
      found[name] = typed(option[2]);
      continue;
    }
    const values: ParameterText[] = [];
    while (i + 1 < words.length && isValue(words[i + 1]!)) values.push(typed(words[++i]!));
    if (values.length > 0) found[name] = values.length === 1 ? values[0]! : values;
    else if (/^no_./.test(name)) found[name.slice(3)] = false;
    else found[name] = true;
  }
  return found;
}

type ParameterText = string | number | boolean | null;

/** Negative numbers are values; a word with "=" after an option is Hydra's next assignment. */
function isValue(word: string): boolean {
  return (!word.startsWith("-") || typeof typed(word) === "number") && !ASSIGNMENT.test(word);
}

/**
 * A word of a command line: a number in Python's form, True, False, None, or a text. Integers
 * beyond 2^53 stay texts.
 */
export function typed(word: string): ParameterText {
  if (/^(?:true|false)$/i.test(word)) return word.toLowerCase() === "true";
  if (/^(?:none|null)$/i.test(word)) return null;
  const digits = word.replace(/(?<=\d)_(?=\d)/g, "");
  if (!/^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?$/i.test(digits)) return word;
  const number = Number(digits);
  const isExact = Number.isFinite(number) &&
    (Number.isSafeInteger(number) || !/^[-+]?\d+$/.test(digits));
  return isExact ? number : word;
}
