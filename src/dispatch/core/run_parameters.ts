/**
 * The parameters of runs, from the registry (config, command line) and from telemetry (what
 * programs recorded).
 */
import { hideSecret, isSecretName, withoutSecrets } from "../../base/text/secrets.ts";
import type { RunReader } from "../../registry/run_reader.ts";
import { attemptOfSource, effective, type ParameterValue } from "../../records/parameters.ts";
import type { TelemetryReader } from "../../telemetry/telemetry_log.ts";

/** A parameter as it is shown: secrets are hidden. */
export interface RunParameter {
  name: string;
  value: ParameterValue;
  source: string;
  /** What it was in earlier attempts, if it was another value; oldest first. */
  earlier: { attempt: number; value: ParameterValue }[];
}

interface Readers {
  runs: RunReader;
  records: TelemetryReader;
}

/** One value per name, sorted by name. */
export function parametersOfRun({ runs, records }: Readers, runId: string): RunParameter[] {
  const all = [
    ...runs.parameters(runId).map((one) => ({ ...one, seq: 0 })),
    ...records.parameters(runId),
  ];
  const earlier = Map.groupBy(
    all.filter(({ source }) => attemptOfSource(source) !== undefined),
    ({ name }) => name,
  );
  return [...effective(all).values()]
    .map(({ name, source, value }) => ({
      ...{ name, source, value: shownValue(name, source, value) },
      earlier: (earlier.get(name) ?? []).filter((one) => one.source !== source)
        .map((one) => ({
          attempt: attemptOfSource(one.source)!,
          value: shownValue(name, one.source, one.value),
        }))
        .sort((a, b) => a.attempt - b.attempt),
    }))
    .sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

/** The values of one name by run id, without runs that lack it. */
export function parametersNamed(
  { runs, records }: Readers,
  name: string,
): Map<string, ParameterValue> {
  const byRun = new Map<string, ParameterRow[]>();
  const add = (row: ParameterRow) => {
    const of = byRun.get(row.runId);
    if (of === undefined) byRun.set(row.runId, [row]);
    else of.push(row);
  };
  for (const row of runs.parametersNamed(name)) add({ ...row, seq: 0 });
  for (const row of records.parametersNamed(name)) add(row);
  const shown = new Map<string, ParameterValue>();
  const values = new Map<string, ParameterValue>();
  for (const [runId, rows] of byRun) {
    const { source, value } = effective(rows).get(name)!;
    const key = `${source} ${value}`;
    if (!shown.has(key)) shown.set(key, shownValue(name, source, value));
    values.set(runId, shown.get(key)!);
  }
  return values;
}

interface ParameterRow {
  runId: string;
  name: string;
  source: string;
  value: string;
  seq: number;
}

/** All names that runs have, sorted. */
export function parameterNames({ runs, records }: Readers): string[] {
  return [...new Set([...runs.parameterNames(), ...records.parameterNames()])].sort();
}

function shownValue(name: string, source: string, json: string): ParameterValue {
  const value = JSON.parse(json) as ParameterValue;
  const parts = name.split(/[./]/);
  const secret = parts.find(isSecretName) ?? parts.at(-1)!;
  if (typeof value === "string") return hideSecret(secret, value);
  // A word of a command line is a number if it looks like one.
  if (typeof value === "number" && source === "command") {
    return isSecretName(secret) ? hideSecret(secret, json) : value;
  }
  return Array.isArray(value) ? withoutSecrets(secret, value) as ParameterValue : value;
}
