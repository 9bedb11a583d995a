/** Differences between the configs of runs, for the command line and the page. Pure. */

export interface ComparisonRow {
  name: string;
  /** One per run. */
  values: string[];
}

/**
 * Injected into every config, so their differences mean nothing. For imported runs: the paths of
 * their files.
 */
const MEANINGLESS = [
  /^metadata\.submitted_by$/,
  /^metadata\.submission(\.|$)/,
  /^metadata\.artifacts(\.|$)/,
  /^metadata\.imported(\.|$)/,
];
const WORKER_ARGUMENTS = "metadata.worker.arguments";
const IMPORT_WORKER = "mosaic:import-worker";

/**
 * Paths at which the configs differ, with each config's value ("" if absent). Each run's own id
 * counts as equal.
 */
export function configDifferences(
  runs: readonly { run_id: string; config: unknown }[],
): ComparisonRow[] {
  const flat = runs.map((run) => {
    const values = new Map<string, string>();
    flatten(
      run.config,
      "",
      (path, value) => values.set(path, value.replaceAll(run.run_id, "<run>")),
    );
    // The same files again.
    if (values.get("entry_point") === IMPORT_WORKER) values.delete("arguments");
    // `mosaic run` writes the command's words in both places.
    if (values.get("arguments") === values.get(WORKER_ARGUMENTS)) values.delete(WORKER_ARGUMENTS);
    return values;
  });
  const paths = [...new Set(flat.flatMap((values) => [...values.keys()]))].sort();
  return paths
    .filter((path) => !MEANINGLESS.some((pattern) => pattern.test(path)))
    .map((path) => ({ name: path, values: flat.map((values) => values.get(path) ?? "") }))
    .filter(({ values }) => values.some((v) => v !== values[0]));
}

function flatten(value: unknown, path: string, put: (path: string, value: string) => void): void {
  if (Array.isArray(value)) {
    // Compare arrays as a whole: an inserted argument would otherwise make all later ones differ.
    put(path, JSON.stringify(value));
  } else if (typeof value === "object" && value !== null) {
    for (const [key, inner] of Object.entries(value)) {
      flatten(inner, path === "" ? key : `${path}.${key}`, put);
    }
  } else {
    put(path, typeof value === "string" ? value : JSON.stringify(value ?? null));
  }
}

/**
 * For display: in lists of words (a command's arguments), each option that differs is a row of its
 * own.
 */
export function optionsApart(rows: readonly ComparisonRow[]): ComparisonRow[] {
  return rows.flatMap((row) => {
    const lists = row.values.map(wordsIn);
    if (lists.includes(undefined)) return [row];
    const apart = (lists as string[][]).map(optionsOf);
    const found = [...new Set(apart.flatMap((options) => [...options.keys()]))]
      .map((name) => ({
        name: `${row.name} ${name}`.trim(),
        values: apart.map((options) => options.get(name) ?? ""),
      }))
      .filter(({ values }) => values.some((v) => v !== values[0]));
    // Only their order differs.
    return found.length > 0 ? found : [row];
  });
}

/** @returns undefined if it is not a list of words */
function wordsIn(value: string): string[] | undefined {
  if (value === "") return [];
  if (!value.startsWith("[")) return undefined;
  try {
    const list: unknown = JSON.parse(value);
    return Array.isArray(list) && list.every((word) => typeof word === "string") ? list : undefined;
  } catch {
    return undefined;
  }
}

const OPTION = /^--?[a-z]/i;

/** Values by option, `given` for one without; all other words under "". */
function optionsOf(words: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  const put = (name: string, value: string) =>
    found.set(
      name,
      found.has(name) ? `${found.get(name)}${name === "" ? " " : ", "}${value}` : value,
    );
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const next = words[i + 1];
    const equals = word.indexOf("=");
    if (!OPTION.test(word)) put("", word);
    else if (equals > 0) put(word.slice(0, equals), word.slice(equals + 1));
    else if (next === undefined || OPTION.test(next)) put(word, "given");
    else {
      put(word, next);
      i++;
    }
  }
  return found;
}
