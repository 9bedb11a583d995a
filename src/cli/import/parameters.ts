/** The parameters of a run that its tracker wrote, as they stand in the config of the run that it is imported as. */
import { HIDDEN, withoutSecrets } from "../../base/secrets.ts";
import type { ParamsRecord, ParamValue } from "../../telemetry/formats/tracker_records.ts";

/** A config has 1 MiB at most, and is read by people. */
export const MAX_PARAMETER_BYTES = 256 << 10;

type Values = { [name: string]: ParamValue };

/** No config may have HIDDEN in it: that would be a secret that was lost on the way. */
const SECRET = "(secret)";

const isObject = (value: ParamValue | undefined): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What JSON has no number for is a text. */
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

  /** Without secrets: those of a run that is over are of no use. The largest are left out where all would be too much. */
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

/** @param path keys with dots between */
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
