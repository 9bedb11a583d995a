/**
 * Filters over runs, such as `lr<1e-3 and env_id=CartPole-v1`: of the command line, the page, and
 * MLflow's clients (whose own form src/mlflow/search.ts translates). Pure. Grammar, tightest first:
 *
 *     comparison: COLUMN (= | != | < | <= | > | >= | ~ | like | ilike) VALUE, COLUMN in (VALUE, …), COLUMN, "(" or ")"
 *     not: "not" comparison    and: not ("and" not)…    or: and ("or" and)…
 */
import { stateNamed } from "../fields/lifecycle_states.ts";
import { MosaicError } from "../../base/errors.ts";
import { LONGEST_FILTER } from "../../base/field_limits.ts";

/** A value of a column; undefined if a run has none. */
export type Value = string | number | boolean | null | readonly unknown[] | undefined;

export type Expression =
  | { type: "and" | "or"; parts: Expression[] }
  | { type: "not"; part: Expression }
  /** `known` for a column alone: the run has it, and its value is neither false nor null. */
  | { type: "compare"; column: string; operator: Operator; values: Literal[] };

export type Operator =
  | "="
  | "!="
  | "<"
  | "<="
  | ">"
  | ">="
  | "~"
  | "in"
  | "like"
  | "ilike"
  | "known";
export type Literal = string | number | boolean | null;

interface Token {
  type: "word" | "quoted" | "sign" | "end";
  text: string;
  at: number;
}

const MAX_DEPTH = 50;
const TOKENS =
  /\s*(?:(<=|>=|!=|==|[=<>~(),])|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`([^`]*)`|([^\s=<>!~(),"'`]+))/y;
const COMPARISONS = ["=", "!=", "<", "<=", ">", ">=", "~"];

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; text.slice(at).trim() !== "";) {
    TOKENS.lastIndex = at;
    const found = TOKENS.exec(text);
    const start = at + /^\s*/.exec(text.slice(at))![0].length;
    if (found === null) {
      throw wrong(
        text,
        start,
        /["'`]/.test(text[start]!) ? "this text has no closing quote" : "this is not understood",
      );
    }
    at = TOKENS.lastIndex;
    const [, sign, double, single, name, word] = found;
    if (sign !== undefined) {
      tokens.push({ type: "sign", text: sign === "==" ? "=" : sign, at: start });
    } else if (double !== undefined || single !== undefined) {
      tokens.push({ type: "quoted", text: (double ?? single)!.replace(/\\(.)/g, "$1"), at: start });
    } else tokens.push({ type: "word", text: name ?? word!, at: start });
  }
  return [...tokens, { type: "end", text: "the end", at: text.length }];
}

function wrong(text: string, at: number, why: string): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `where, at character ${at + 1}: ${why}: ${text.slice(0, at)}▸${text.slice(at)}`,
    {
      hint:
        "Write comparisons such as lr<1e-3 and (env_id=CartPole-v1 or seed in (1, 2)); operators: = != < <= > >= ~ in.",
    },
  );
}

/** @throws MosaicError `invalid_argument` with the position */
export function parseExpression(text: string): Expression {
  if (text.length > LONGEST_FILTER) {
    throw wrong("", 0, `a filter has at most ${LONGEST_FILTER} characters`);
  }
  const tokens = tokensOf(text);
  let next = 0;
  let depth = 0;
  const peek = () => tokens[next]!;
  const isWord = (word: string) => peek().type === "word" && peek().text.toLowerCase() === word;
  const isSign = (sign: string) => peek().type === "sign" && peek().text === sign;
  const fail = (expected: string) =>
    wrong(text, peek().at, `here is ${peek().text}, and ${expected} is expected`);
  const take = (sign: string) => {
    if (!isSign(sign)) throw fail(sign);
    next++;
  };

  const many = (type: "and" | "or", part: () => Expression): Expression => {
    const parts = [part()];
    while (isWord(type)) {
      next++;
      parts.push(part());
    }
    return parts.length === 1 ? parts[0]! : { type, parts };
  };
  const or = (): Expression => many("or", () => many("and", negated));
  const negated = (): Expression => {
    if (++depth > MAX_DEPTH) {
      throw wrong(text, peek().at, `a filter is at most ${MAX_DEPTH} levels deep`);
    }
    try {
      if (!isWord("not")) return comparison();
      next++;
      return { type: "not", part: negated() };
    } finally {
      depth--;
    }
  };
  const comparison = (): Expression => {
    if (isSign("(")) {
      next++;
      const inner = or();
      take(")");
      return inner;
    }
    if (peek().type !== "word" || isWord("and") || isWord("or") || isWord("in")) {
      throw fail("a column");
    }
    const column = tokens[next++]!.text;
    if (isWord("in")) {
      next++;
      take("(");
      const values = [literal()];
      while (isSign(",")) {
        next++;
        values.push(literal());
      }
      take(")");
      return { type: "compare", column, operator: "in", values };
    }
    if (isWord("like") || isWord("ilike")) {
      const operator = tokens[next++]!.text.toLowerCase() as Operator;
      return { type: "compare", column, operator, values: [literal()] };
    }
    if (peek().type !== "sign" || !COMPARISONS.includes(peek().text)) {
      return { type: "compare", column, operator: "known", values: [] };
    }
    const operator = tokens[next++]!.text as Operator;
    return { type: "compare", column, operator, values: [literal()] };
  };
  const literal = (): Literal => {
    const { type, text: word } = peek();
    if (type !== "word" && type !== "quoted") throw fail("a value");
    next++;
    if (type === "quoted") return word;
    const lower = word.toLowerCase();
    if (lower === "true" || lower === "false") return lower === "true";
    if (lower === "null" || lower === "none") return null;
    return Number.isFinite(Number(word)) ? Number(word) : word;
  };

  const whole = byStateNames(or());
  if (peek().type !== "end") throw fail("and, or or the end");
  return whole;
}

/** States may be given as people read them: `state = Running`. */
function byStateNames(expression: Expression): Expression {
  if (expression.type === "not") return { ...expression, part: byStateNames(expression.part) };
  if (expression.type !== "compare") {
    return { ...expression, parts: expression.parts.map(byStateNames) };
  }
  if (expression.column !== "state" || !["=", "!=", "in"].includes(expression.operator)) {
    return expression;
  }
  const named = (value: Literal) => typeof value === "string" ? stateNamed(value) ?? value : value;
  return { ...expression, values: expression.values.map(named) };
}

export function columnsOf(expression: Expression, into = new Set<string>()): Set<string> {
  if (expression.type === "compare") into.add(expression.column);
  else if (expression.type === "not") columnsOf(expression.part, into);
  else for (const part of expression.parts) columnsOf(part, into);
  return into;
}

/**
 * Characters that `like` compares in one search; a second has some tens of millions on a busy host.
 */
const MAX_COMPARED = 20e6;

/** What one search may still compare. */
export class Budget {
  left = MAX_COMPARED;
}

/**
 * A run without the column matches only `!=`; so does a run whose value has another type than the
 * one it is compared with.
 * @param budget one for all runs of a search @throws MosaicError `invalid_argument` when it is
 * spent
 */
export function fits(
  expression: Expression,
  value: (column: string) => Value,
  budget: Budget,
): boolean {
  switch (expression.type) {
    case "and":
      return expression.parts.every((part) => fits(part, value, budget));
    case "or":
      return expression.parts.some((part) => fits(part, value, budget));
    case "not":
      return !fits(expression.part, value, budget);
    case "compare": {
      const { operator, values } = expression;
      const own = value(expression.column);
      if (operator === "known") return own !== undefined && own !== null && own !== false;
      if (operator === "in") return values.some((one) => isEqual(own, one));
      const [other] = values as [Literal];
      if (operator === "=") return isEqual(own, other);
      if (operator === "!=") return !isEqual(own, other);
      if (operator === "like" || operator === "ilike") {
        const cased = (text: string) => operator === "ilike" ? text.toLowerCase() : text;
        return typeof own === "string" && isLike(cased(own), cased(String(other)), budget);
      }
      if (operator === "~") return own !== undefined && matches(textOf(own), String(other));
      if (typeof own !== typeof other || (typeof own !== "number" && typeof own !== "string")) {
        return false;
      }
      const order = own < other! ? -1 : own > other! ? 1 : own === other ? 0 : NaN;
      return operator === "<"
        ? order < 0
        : operator === "<="
        ? order <= 0
        : operator === ">"
        ? order > 0
        : order >= 0;
    }
  }
}

/** A list equals each of its items, so that `tags=sweep` finds runs with that tag among others. */
function isEqual(own: Value, other: Literal): boolean {
  if (own === undefined) return false;
  if (Array.isArray(own)) return own.some((item) => isEqual(item as Value, other));
  // A text such as "1" may also be written without quotes.
  return own === other || (typeof own === "string" && other !== null && own === String(other));
}

function textOf(own: Exclude<Value, undefined>): string {
  return typeof own === "string" ? own : JSON.stringify(own);
}

/**
 * Whether a text contains the parts of a pattern between its "*", in order, ignoring case. Linear.
 */
function matches(text: string, pattern: string): boolean {
  let at = 0;
  for (const part of pattern.toLowerCase().split("*")) {
    const found = text.toLowerCase().indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return true;
}

const PERCENT = 37;
const UNDERSCORE = 95;

/**
 * `%` matches any text, `_` one character. Takes time proportional to the product of the lengths,
 * so that is counted.
 * @throws MosaicError `invalid_argument` when the whole search has compared too much
 */
function isLike(text: string, pattern: string, budget: Budget): boolean {
  let at = 0;
  let from = 0;
  let any = -1;
  let anyAt = 0;
  while (at < text.length) {
    if (--budget.left < 0) {
      throw new MosaicError(
        "invalid_argument",
        "like would compare too much here: the values are long; give a pattern with fewer % and _",
      );
    }
    const wanted = from < pattern.length ? pattern.charCodeAt(from) : -1;
    if (wanted === PERCENT) {
      any = from++;
      anyAt = at;
    } else if (wanted === UNDERSCORE || wanted === text.charCodeAt(at)) {
      at++;
      from++;
    } else if (any >= 0) {
      from = any + 1;
      at = ++anyAt;
    } else return false;
  }
  return /^%*$/.test(pattern.slice(from));
}
