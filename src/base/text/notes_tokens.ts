/** Notes in Markdown as tokens, in time that grows with their length. For reports and the page. */
import { Lexer, type Token, Tokenizer } from "marked";

/** Address-like words: at each letter of one, GFM looks for the @ at its end. */
const LONGEST_WORD = 2000;

/**
 * Quotes and lists within each other, each of which the parser reads again: 32 levels begin one
 * line.
 */
const DEEP_LINE = /^[ \t]*(?:(?:[>*+-]|\d{1,9}[.)])[ \t]*){32}/m;

/** Beginnings in HTML, each of which is searched for its end up to the end of a paragraph. */
const ENDS = [["<!--", "-->"], ["<?", "?>"], ["<![CDATA[", "]]>"]] as const;

/**
 * Characters that are searched in vain for the ends of emphases; later signs of emphasis stay text.
 */
const SEARCHED = 4 << 20;

/** Looks once in a text for an end that is not there. */
class LinearTokenizer extends Tokenizer {
  missing = new Set<string>();
  #left = SEARCHED;

  override emStrong(...given: Parameters<Tokenizer["emStrong"]>) {
    return this.#bounded(given[0], () => super.emStrong(...given));
  }

  override del(...given: Parameters<Tokenizer["del"]>) {
    return this.#bounded(given[0], () => super.del(...given));
  }

  /** Each beginning of an emphasis is searched for its end up to the end of a paragraph. */
  #bounded<T>(source: string, read: () => T | undefined): T | undefined {
    if (!/^[*_~]/.test(source) || this.#left < 0) return undefined;
    const found = read();
    if (found === undefined) this.#left -= source.length;
    return found;
  }

  override tag(source: string) {
    const [, end] = ENDS.find(([begin]) => source.startsWith(begin)) ?? [];
    if (end !== undefined && (this.missing.has(end) || !source.includes(end))) {
      return void this.missing.add(end);
    }
    return super.tag(source);
  }
}

class LinearLexer extends Lexer {
  readonly #tokenizer: LinearTokenizer;

  constructor(gfm: boolean) {
    const tokenizer = new LinearTokenizer();
    super({ gfm, tokenizer });
    this.#tokenizer = tokenizer;
  }

  override inlineTokens(source: string, tokens?: Token[]): Token[] {
    const { missing } = this.#tokenizer;
    this.#tokenizer.missing = new Set();
    try {
      return super.inlineTokens(source, tokens);
    } finally {
      this.#tokenizer.missing = missing;
    }
  }
}

/** @throws for notes that nest too deep */
export function tokensOf(text: string): Token[] {
  if (DEEP_LINE.test(text)) throw new RangeError("quotes and lists nest more than 32 levels");
  return new LinearLexer(!hasLongWord(text)).lex(text);
}

function hasLongWord(text: string): boolean {
  for (let from = 0, at = 0; at <= text.length; at++) {
    if (at < text.length && text.charCodeAt(at) > 32) continue;
    if (at - from > LONGEST_WORD) return true;
    from = at + 1;
  }
  return false;
}
