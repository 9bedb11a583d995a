/** The parser of Markdown: a script of its own, which the page loads with the first notes that it shows. */
import { Lexer, type Token } from "npm:marked@18.2.1";

export type { MarkedToken, Token } from "npm:marked@18.2.1";

export const tokensOf = (text: string): Token[] => Lexer.lex(text);
