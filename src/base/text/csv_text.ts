/** CSV as mosaic writes it: on the command line, in exports and on the page. */

/**
 * RFC 4180, with LF line ends; quotes only where needed. All CSV is written here: a text that a
 * spreadsheet would calculate is written with an apostrophe before it.
 */
export function csv(header: readonly string[], rows: Iterable<readonly unknown[]>): string {
  let out = `${header.map(csvField).join(",")}\n`;
  for (const row of rows) out += csvLine(row);
  return out;
}

export function csvLine(row: readonly unknown[]): string {
  return `${row.map(csvField).join(",")}\n`;
}

function csvField(value: unknown): string {
  if (value === null || value === undefined) return "";
  const given = typeof value === "object" ? JSON.stringify(value) : String(value);
  const text = isFormula(value, given) ? `'${given}` : given;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * https://owasp.org/www-community/attacks/CSV_Injection. Numbers, and texts that are one ("-0.5",
 * "+inf"), stay.
 */
function isFormula(value: unknown, text: string): boolean {
  return typeof value === "string" && /^[=+\-@\t\r]/.test(text) &&
    !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^[+-]?(nan|inf(inity)?)$/i.test(text);
}
