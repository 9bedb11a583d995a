/** The parser of Markdown: a part of the program of its own, loaded with the first notes. */
export type { MarkedToken, Token } from "marked";
export { tokensOf } from "../../../base/text/notes_tokens.ts";
