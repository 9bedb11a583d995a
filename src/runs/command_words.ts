/** The words of a run's command, as its config says them. Pure. */
import { isPlainObject } from "../base/text/exact_numbers.ts";

/**
 * Program and arguments, without what the daemon adds (the worker's config file, addresses). A
 * module's interpreter is the daemon's choice: "python", unless the config names it. Empty for a
 * config of another form.
 */
export function commandWords(config: unknown): string[] {
  const top = objectOf(config);
  const worker = objectOf(objectOf(top["metadata"])["worker"]);
  const texts = (value: unknown) => Array.isArray(value) ? value.map(String) : [];
  const text = (value: unknown) => typeof value === "string" ? value : "";
  const [module, script, entry] = [
    text(worker["module"]),
    text(worker["script"]),
    text(top["entry_point"]),
  ];
  if (module !== "") {
    const python = text(worker["python"]) || (/\/python[\d.]*$/.test(entry) ? entry : "python");
    return [python, "-m", module, ...texts(worker["arguments"])];
  }
  if (script !== "") return [script, ...texts(worker["arguments"])];
  return entry === "" ? [] : [entry, ...texts(top["arguments"]), ...texts(worker["arguments"])];
}

function objectOf(value: unknown): Record<string, unknown> {
  return isPlainObject(value) ? value as Record<string, unknown> : {};
}
