/** Notes in Markdown as tokens, in time that grows with their length. For reports and the page. */
import { Lexer, type Token } from "marked";

/** Address-like words: at each letter of one, GFM looks for the @ at its end. */
const LONGEST_WORD = 2000;

/** Quotes and lists within each other, each of which the parser reads again: 32 levels begin one line. */
const DEEP_LINE = /^[ \t]*(?:(?:[>*+-]|\d{1,9}[.)])[ \t]*){32}/m;

/** @throws for notes that nest too deep */
export function tokensOf(text: string): Token[] {
  if (DEEP_LINE.test(text)) throw new RangeError("quotes and lists nest more than 32 levels");
  return Lexer.lex(text, { gfm: !hasLongWord(text) });
}

function hasLongWord(text: string): boolean {
  for (let from = 0, at = 0; at <= text.length; at++) {
    if (at < text.length && text.charCodeAt(at) > 32) continue;
    if (at - from > LONGEST_WORD) return true;
    from = at + 1;
  }
  return false;
}
