/**
 * A parameter's value for display: texts without quotes, everything else as JSON; "" if it is
 * absent.
 */
export function valueText(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}
