/** Differences between runs: parameters and configs. Pure. */
import { isSecretName, withoutSecrets } from "../base/text/secrets.ts";
import type { ComparisonRow } from "../config/differences.ts";

/** Parameters in which the runs differ, with each run's value; undefined if a run has none. */
export function parameterDifferences(
  runs: readonly { parameters: readonly { name: string; value: unknown }[] }[],
): { name: string; values: unknown[] }[] {
  const byName = runs.map(({ parameters }) =>
    new Map(parameters.map(({ name, value }) => [name, value]))
  );
  return [...new Set(byName.flatMap((values) => [...values.keys()]))].sort()
    .map((name) => ({ name, values: byName.map((values) => values.get(name)) }))
    .filter(({ values }) => new Set(values.map((value) => JSON.stringify(value))).size > 1);
}

/** The rows with secrets hidden: they show that secrets differ, not their values. */
export function rowsWithoutSecrets(rows: readonly ComparisonRow[]): ComparisonRow[] {
  return rows.map(({ name, values }) => ({
    name,
    values: values.map((text) => {
      const path = name.split(".");
      const shown = withoutSecrets(path.find(isSecretName) ?? path.at(-1)!, listIn(text) ?? text);
      return typeof shown === "string" ? shown : JSON.stringify(shown);
    }),
  }));
}

function listIn(text: string): unknown[] | undefined {
  try {
    const value = text.startsWith("[") ? JSON.parse(text) : undefined;
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
