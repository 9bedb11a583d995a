/**
 * Python's json.dumps writes NaN, Infinity and -Infinity as bare words, which JSON does not have.
 */
const TOKEN = /"|-?\bInfinity\b|\bNaN\b/g;
const QUOTE_OR_ESCAPE = /["\\]/g;

/** The text with every bare non-finite word outside of strings as null. */
export function withoutNonFinite(text: string): string {
  let repaired = "";
  let from = 0;
  TOKEN.lastIndex = 0;
  for (let token; (token = TOKEN.exec(text)) !== null;) {
    if (token[0] === '"') {
      TOKEN.lastIndex = afterString(text, TOKEN.lastIndex);
      continue;
    }
    repaired += `${text.slice(from, token.index)}null`;
    from = TOKEN.lastIndex;
  }
  return from === 0 ? text : repaired + text.slice(from);
}

/** By hand: a pattern for whole strings runs out of its stack on one of many megabytes.
 * @param at behind the opening quote */
function afterString(text: string, at: number): number {
  QUOTE_OR_ESCAPE.lastIndex = at;
  for (let found; (found = QUOTE_OR_ESCAPE.exec(text)) !== null;) {
    if (found[0] === '"') return QUOTE_OR_ESCAPE.lastIndex;
    QUOTE_OR_ESCAPE.lastIndex++;
  }
  return text.length;
}
