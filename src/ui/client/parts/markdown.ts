/** The parser of Markdown: a script of its own, which the page loads with the first notes. */
export type { MarkedToken, Token } from "marked";
export { tokensOf } from "../../../base/text/notes_tokens.ts";
