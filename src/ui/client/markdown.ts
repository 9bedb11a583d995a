/** The parser of Markdown: a script of its own, which the page loads with the first notes. */
import { Lexer, type Token } from "marked";

export type { MarkedToken, Token } from "marked";

export const tokensOf = (text: string): Token[] => Lexer.lex(text);
