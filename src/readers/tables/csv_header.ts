/** Which rows of a table name its columns. Pure. */
import { numberOfText } from "../format/literal.ts";
import { stepName } from "../format/step_column.ts";

/** The names are part of the reader's stored state, which is small. */
const MAX_NAMES_LENGTH = 40 << 10;
const NAME = /^[\p{L}_%#(][^"\n]{0,249}$/u;

/** Whether a first row has only numbers: then it names nothing. */
export function isNumeric(cells: readonly string[]): boolean {
  const filled = cells.filter((cell) => cell !== "");
  return filled.length > 0 && filled.every((cell) => numberOfText(cell) !== undefined);
}

/**
 * The names of a header in the middle of a table: a program was started anew, or its columns have
 * changed. "again": the same columns. undefined: the row is none. Texts in columns of texts are
 * none either: a header has a name of the columns before it, or of a step, and no empty cell.
 * @param names those of the columns: there may be thousands, and searching all of them in each row
 * takes long
 */
export function headerIn(
  cells: readonly string[],
  columns: readonly string[],
  names: ReadonlySet<string>,
): string[] | "again" | undefined {
  const first = cells[0]!;
  // Nearly every row begins with a number.
  if (first === "" || (first.charCodeAt(0) < 58 && first.charCodeAt(0) !== 35)) return undefined;
  if (!cells.every((cell) => NAME.test(cell) && numberOfText(cell) === undefined)) return undefined;
  if (cells.length <= columns.length && cells.every((cell, i) => cell === columns[i])) {
    return "again";
  }
  const shares = cells.filter((cell) => names.has(cell)).length;
  return shares > 0 && (shares > 1 || cells.length > 1) && stepName(cells) !== undefined
    ? [...cells]
    : undefined;
}

/** The first names, up to a total length. */
export function shortened(names: readonly string[]): string[] {
  let length = 0;
  const most = names.findIndex((name) => (length += name.length + 3) > MAX_NAMES_LENGTH);
  return most < 0 ? [...names] : names.slice(0, most);
}
