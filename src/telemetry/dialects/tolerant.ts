/**
 * Python's json.dumps writes NaN, Infinity and -Infinity as bare words, which JSON does not have.
 */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g;

/** The text with every bare non-finite word outside of strings as null. */
export function withoutNonFinite(text: string): string {
  return text.replace(TOKEN, (token) => token.charCodeAt(0) === 34 ? token : "null");
}
