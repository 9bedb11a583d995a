/** A parameter's value as a person writes it: texts without quotes, everything else as JSON; "" for one that is not there. */
export function valueText(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}
