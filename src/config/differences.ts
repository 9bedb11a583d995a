/** Where the configs of runs differ, for the command line and the page. Pure. */

export interface ComparisonRow {
  name: string;
  /** One per run. */
  values: string[];
}

/** Injected into every config, and so different in each without a meaning. Of imported runs: where their files were. */
const MEANINGLESS = [/^metadata\.submission(\.|$)/, /^metadata\.artifacts(\.|$)/, /^metadata\.imported(\.|$)/];
const WORKER_ARGUMENTS = "metadata.worker.arguments";
const IMPORT_WORKER = "mosaic:import-worker";

/** Paths at which the configs differ, with each config's value ("" if absent). Each run's own id counts as equal. */
export function configDifferences(runs: readonly { run_id: string; config: unknown }[]): ComparisonRow[] {
  const flat = runs.map((run) => {
    const values = new Map<string, string>();
    flatten(run.config, "", (path, value) => values.set(path, value.replaceAll(run.run_id, "<run>")));
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
    for (const [key, inner] of Object.entries(value)) flatten(inner, path === "" ? key : `${path}.${key}`, put);
  } else {
    put(path, typeof value === "string" ? value : JSON.stringify(value ?? null));
  }
}
