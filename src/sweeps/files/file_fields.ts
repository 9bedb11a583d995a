/** The fields of a file in YAML or JSON, with their lines for messages. */
import { isMap, LineCounter, parseDocument } from "yaml";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { MOST_SPEC_TEXT } from "../spec.ts";

export type Json = Record<string, unknown>;
export type Path = readonly (string | number)[];

/**
 * @throws MosaicError `invalid_argument` for a text that is no YAML, with its line, or that is too
 * long or nests too deep
 */
export function yamlOf(text: string, file: string) {
  if (text.length > MOST_SPEC_TEXT) {
    throw refusal(`${file} has more than ${MOST_SPEC_TEXT >> 20} MiB`);
  }
  const lines = new LineCounter();
  try {
    // A key that is a collection takes time without end to be made a text.
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      stringKeys: true,
    });
    const [error] = document.errors;
    if (error !== undefined) {
      throw refusal(`${file}:${lineFrom(text, error.pos[0], lines)}: ${error.message}`);
    }
    return { document, lines, value: document.toJS({ maxAliasCount: 100 }) as unknown };
  } catch (error) {
    if (error instanceof MosaicError) throw error;
    // The library calls itself for each level, and for each of some ends of lines; it throws others
    // for aliases.
    throw refusal(`${file} cannot be read as YAML: ${messageOf(error)}`);
  }
}

/** Of the first content at or after a position: the library may name a comment before it. */
function lineFrom(text: string, pos: number, lines: LineCounter): number {
  const before = /^(?:[^\S\n]*(?:#[^\n]*)?\n)*/.exec(text.slice(pos))![0];
  return lines.linePos(pos + before.length).line;
}

/** A file's fields, each read by a function whose errors get the field's line. */
export class Fields {
  readonly values: Json;
  readonly #lineOf: (path: Path) => number;
  readonly #file: string;
  /** Errors that name their line: those of a field in a field. */
  readonly #placed = new WeakSet<MosaicError>();

  /** @throws MosaicError `invalid_argument` for a text that is no YAML, with its line */
  constructor(text: string, file: string) {
    const { document, lines, value } = yamlOf(text, file);
    this.#file = file;
    this.#lineOf = (path) => {
      for (let length = path.length; length > 0; length--) {
        const parent = document.getIn(path.slice(0, length - 1), true) ?? document.contents;
        const key = isMap(parent)
          ? parent.items.find(({ key }) => String(key) === path[length - 1])?.key
          : undefined;
        const node = (key ?? document.getIn(path.slice(0, length), true)) as
          | { range?: [number, number, number] }
          | undefined;
        if (node?.range) return lines.linePos(node.range[0]).line;
      }
      return 1;
    };
    if (!isObject(value)) {
      throw refusal(`${file}:1: a sweep is a list of fields, such as grid, seeds and command`);
    }
    this.values = value;
  }

  /** @throws what `read` throws, with file, line and field before it */
  at<T>(path: Path, read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof MosaicError) || this.#placed.has(error)) throw error;
      const placed = new MosaicError(
        error.code,
        `${this.#file}:${this.#lineOf(path)}: ${path.join(".")}: ${error.message}`,
        {
          ...(error.hint === undefined ? {} : { hint: error.hint }),
          cause: error,
        },
      );
      this.#placed.add(placed);
      throw placed;
    }
  }

  /** @throws MosaicError `invalid_argument` for a field that is not known */
  requireKnown(path: Path, of: Json, known: readonly string[]): void {
    for (const key of Object.keys(of)) {
      if (known.includes(key)) continue;
      this.at(
        [...path, key],
        () =>
          refuse(
            `there is no such field.${didYouMean(key, known)}`,
            `Fields: ${known.join(", ")}.`,
          ),
      );
    }
  }
}

function refusal(message: string, hint?: string): MosaicError {
  return new MosaicError("invalid_argument", message, hint === undefined ? {} : { hint });
}

export function refuse(message: string, hint?: string): never {
  throw refusal(message, hint);
}

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const textIn = (value: unknown): string =>
  typeof value === "string" ? value : refuse(`must be a text, not ${JSON.stringify(value)}`);
export const objectIn = (value: unknown): Json =>
  isObject(value) ? value : refuse("must have fields of its own");
export const wholeIn = (value: unknown): number =>
  Number.isSafeInteger(value)
    ? value as number
    : refuse(`must be a whole number, not ${JSON.stringify(value)}`);

/** A list of words, or a text without quotes. */
export function commandIn(value: unknown): string[] {
  if (Array.isArray(value) && value.length > 0) return value.map(String);
  const text = textIn(value);
  if (/['"\\$`|&;<>]/.test(text)) {
    refuse(
      "a command with quotes or other signs of a shell must be a list of words",
      'For example ["sh", "-c", "…"].',
    );
  }
  const words = text.split(/\s+/).filter((word) => word !== "");
  return words.length > 0 ? words : refuse("is empty");
}
