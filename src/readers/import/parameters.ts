/** The parameters that a run's tracker wrote, for the config of the imported run. */
import { HIDDEN, withoutSecrets } from "../../base/text/secrets.ts";
import type { ParamsRecord, ParamValue } from "../format/tracker_records.ts";

/** A config has at most 1 MiB, and people read it. */
export const MAX_PARAMETER_BYTES = 256 << 10;

type Values = { [name: string]: ParamValue };

/** Configs must not contain HIDDEN: that would be refused as a lost secret. */
const SECRET = "(secret)";

const isObject = (value: ParamValue | undefined): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Values that JSON has no number for become texts. */
function toJson(value: unknown): string {
  return JSON.stringify(
    value,
    (_, inner) => typeof inner === "number" && !Number.isFinite(inner) ? String(inner) : inner,
  ) ?? "null";
}

export class Parameters {
  readonly #values: Values = Object.create(null);

  add({ values, removed }: ParamsRecord): void {
    for (const path of removed) remove(this.#values, path);
    for (const [name, value] of Object.entries(values)) this.#values[name] = value;
  }

  /**
   * Without secrets, which an ended run does not need. If the size is too large, the largest values
   * are omitted.
   */
  values(): { values: Record<string, unknown>; leftOut: string[] } {
    const shown = withoutSecrets("", JSON.parse(toJson(this.#values)));
    const values = JSON.parse(toJson(shown).replaceAll(HIDDEN, SECRET)) as Record<string, unknown>;
    const sizes = Object.entries(values)
      .map(([name, value]) => ({ name, bytes: name.length + toJson(value).length }))
      .sort((a, b) => b.bytes - a.bytes);
    let bytes = sizes.reduce((sum, size) => sum + size.bytes, 0);
    const leftOut: string[] = [];
    for (const size of sizes) {
      if (bytes <= MAX_PARAMETER_BYTES) break;
      bytes -= size.bytes;
      delete values[size.name];
      leftOut.push(size.name);
    }
    return { values, leftOut };
  }
}

/** @param path keys joined by dots */
function remove(values: Values, path: string): void {
  if (Object.hasOwn(values, path)) {
    delete values[path];
    return;
  }
  for (let dot = path.indexOf("."); dot > 0; dot = path.indexOf(".", dot + 1)) {
    const inner = values[path.slice(0, dot)];
    if (isObject(inner)) remove(inner, path.slice(dot + 1));
  }
}
