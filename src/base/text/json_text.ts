/**
 * JSON texts of programs: checks them, and repairs those with bare NaN, Infinity and -Infinity,
 * which Python's json.dumps writes and JSON does not have.
 */
const TOKEN = /"|-?\b(?:Infinity|NaN)\b/g;
const QUOTE_OR_ESCAPE = /["\\]/g;

/** The text with every bare non-finite word outside of strings as null, or as `as` returns it. */
export function withoutNonFinite(
  text: string,
  as: (word: string) => string = () => "null",
): string {
  let repaired = "";
  let from = 0;
  TOKEN.lastIndex = 0;
  for (let token; (token = TOKEN.exec(text)) !== null;) {
    if (token[0] === '"') {
      TOKEN.lastIndex = afterString(text, TOKEN.lastIndex);
      continue;
    }
    repaired += text.slice(from, token.index) + as(token[0]);
    from = TOKEN.lastIndex;
  }
  return from === 0 ? text : repaired + text.slice(from);
}

/** The text with every bare non-finite word as a string: a point of a series may be one. */
export function withNamedNonFinite(text: string): string {
  return withoutNonFinite(text, (word) => `"${word}"`);
}

/**
 * A loop, because a pattern for whole strings overflows its stack on strings of many megabytes.
 * @param at after the opening quote
 */
function afterString(text: string, at: number): number {
  QUOTE_OR_ESCAPE.lastIndex = at;
  for (let found; (found = QUOTE_OR_ESCAPE.exec(text)) !== null;) {
    if (found[0] === '"') return QUOTE_OR_ESCAPE.lastIndex;
    QUOTE_OR_ESCAPE.lastIndex++;
  }
  return text.length;
}

/** Texts that are certainly JSON without parsing: numbers, and flat arrays of numbers. */
const PLAIN_NUMBERS =
  /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|\[(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:, ?(?!\])|(?=\])))*\])$/;

/**
 * Levels of objects and arrays in a JSON text of others: a deeper one counts as text that is not
 * JSON. Whatever walks a value (JSON.stringify, structuredClone, protobuf, mosaic's own functions)
 * calls itself once per level, and ends with an error a few thousand levels deep; SQLite's
 * functions read 1000.
 */
export const MAX_JSON_DEPTH = 200;

/**
 * JSON.parse for text of others. @throws SyntaxError also for a text that nests deeper than
 * MAX_JSON_DEPTH
 */
export function parsedJson(text: string): unknown {
  if (isTooDeep(text)) {
    throw new SyntaxError(`it nests more than ${MAX_JSON_DEPTH} levels of objects and arrays`);
  }
  return JSON.parse(text);
}

/** Whether more brackets than MAX_JSON_DEPTH are open at once. */
export function isTooDeep(text: string): boolean {
  if (text.length <= MAX_JSON_DEPTH) return false;
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) {
      for (i++; i < text.length && text.charCodeAt(i) !== QUOTE; i++) {
        if (text.charCodeAt(i) === BACKSLASH) i++;
      }
    } // A bracket and a brace differ in one bit; each closing one is two after its opening one.
    else if ((c | 32) === OPEN) {
      if (++depth > MAX_JSON_DEPTH) return true;
    } else if ((c | 32) === OPEN + 2) depth--;
  }
  return false;
}

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN = "{".charCodeAt(0);

export function isJson(text: string): boolean {
  try {
    parsedJson(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * The text if it is JSON, else the text without bare non-finite words if that is JSON; undefined if
 * neither is.
 */
export function repairedJson(text: string): string | undefined {
  if (isJson(text)) return text;
  const finite = withoutNonFinite(text);
  return finite !== text && isJson(finite) ? finite : undefined;
}

/** The JSON object of a text, after the same repair; undefined for anything else. */
export function parsedObject(text: string): Record<string, unknown> | undefined {
  return objectOf(text, withoutNonFinite);
}

/** The same with bare non-finite words as texts: "NaN", "Infinity", "-Infinity". */
export function namedNonFinite(text: string): Record<string, unknown> | undefined {
  return objectOf(text, withNamedNonFinite);
}

function objectOf(
  text: string,
  repair: (text: string) => string,
): Record<string, unknown> | undefined {
  let value: unknown;
  try {
    value = parsedJson(text);
  } catch {
    const repaired = repair(text);
    if (repaired === text || !isJson(repaired)) return undefined;
    value = JSON.parse(repaired);
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as Record<string, unknown>
    : undefined;
}

/**
 * A JSON text on one line. Text that is not JSON becomes a JSON string; Python's bare NaN and
 * infinities become null.
 */
export function rawJson(text: string): string {
  if (text.length < 4096 && PLAIN_NUMBERS.test(text)) return text;
  const json = repairedJson(text);
  if (json === undefined) return JSON.stringify(text);
  // Line breaks in valid JSON are white space between tokens.
  return json.includes("\n") || json.includes("\r") ? json.replace(/[\r\n]+/g, " ") : json;
}

const BRACKET = /["[\]{}]/g;

/**
 * How deep arrays and objects of a JSON text are nested. A deep value can be parsed, and not
 * written again.
 */
export function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  BRACKET.lastIndex = 0;
  for (let found; (found = BRACKET.exec(json)) !== null;) {
    const [sign] = found;
    if (sign === '"') BRACKET.lastIndex = afterString(json, BRACKET.lastIndex);
    else if (sign === "[" || sign === "{") deepest = Math.max(deepest, ++depth);
    else depth--;
  }
  return deepest;
}
