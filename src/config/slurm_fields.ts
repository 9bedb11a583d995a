/**
 * `metadata.slurm` as one word of a command line. Loads no schema: the reader of the config checks
 * the values.
 */

const NUMBERS = [
  "time",
  "nodes",
  "tasks_per_node",
  "linger_seconds",
  "warn_seconds",
  "lease_seconds",
];

/**
 * Parses "partition=gpu,time=720". A value may contain commas: the next field begins with its name.
 * @throws Error that says what is wrong
 */
export function slurmFieldsOf(text: string): Record<string, string | number> {
  const parts = text.split(/,(?=[^,=]*=)/).filter((part) => part !== "");
  const fields = new Map<string, string | number>();
  for (const part of parts) {
    const at = part.indexOf("=");
    if (at <= 0) throw new Error(`${JSON.stringify(part)} is no NAME=VALUE, such as partition=gpu`);
    const [name, value] = [part.slice(0, at), part.slice(at + 1)];
    if (fields.has(name)) {
      throw new Error(`${name} is given twice (${fields.get(name)} and ${value}): give it once`);
    }
    fields.set(name, NUMBERS.includes(name) && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value);
  }
  return Object.fromEntries(fields);
}
