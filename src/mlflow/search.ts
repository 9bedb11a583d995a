/** MLflow's `search_runs`: conditions joined by AND, and an order. Pure. */

/** A run's fields for conditions. Numbers may be NaN. */
export interface Searched {
  metrics: ReadonlyMap<string, number>;
  params: Readonly<Record<string, string>>;
  tags: Readonly<Record<string, string>>;
  attributes: Readonly<Record<string, string | number | null>>;
}

type Value = string | number | null | undefined;
type Field = (run: Searched) => Value;

const ATTRIBUTES = [
  ...["run_id", "run_name", "status", "start_time", "end_time", "user_id", "experiment_id", "artifact_uri"],
];
const own = <T>(of: Readonly<Record<string, T>>, key: string) => Object.hasOwn(of, key) ? of[key] : undefined;

const ENTITIES: Readonly<Record<string, (key: string) => Field>> = {
  metric: (key) => (run) => run.metrics.get(key),
  param: (key) => (run) => own(run.params, key),
  tag: (key) => (run) => own(run.tags, key),
  attribute: (key) => {
    const name = key.toLowerCase() === "created" ? "start_time" : key.toLowerCase();
    if (!ATTRIBUTES.includes(name)) {
      throw new SearchError(`"${key}" is no attribute of a run: ${ATTRIBUTES.join(", ")}`);
    }
    return (run) => own(run.attributes, name);
  },
};
const ALIASES: Readonly<Record<string, string>> = { parameter: "param", attr: "attribute", run: "attribute" };

const KEY = String.raw`"[^"]+"|${"`[^`]+`"}|[\w./-]+`;
const FIELD = new RegExp(String.raw`^\s*(?:(metric|param|parameter|tag|attribute|attr|run)s?\.)?(${KEY})`, "i");
const REST =
  /^\s*(!=|>=|<=|=|>|<|(?:NOT\s+)?IN\b|I?LIKE\b)\s*(\((?:[^'"()]|'[^']*'|"[^"]*")*\)|'[^']*'|"[^"]*"|[-+\w.]+)/i;
const AND = /^\s+AND\b/i;
const MAX_LENGTH = 4096;
const MAX_ORDERS = 32;
/** Characters that the LIKEs of one search compare; a second has some tens of millions on a busy host. */
const MAX_COMPARED = 20e6;

/** @throws SearchError for unsupported syntax, with its position */
export class SearchError extends Error {}

/** @param filter "" for all; `metrics.loss < 0.1 and tags.mlflow.parentRunId = 'X'` */
export function conditionsOf(filter: string): (run: Searched) => boolean {
  if (filter.length > MAX_LENGTH) throw new SearchError(`it has more than ${MAX_LENGTH} characters`);
  const conditions: ((run: Searched) => boolean)[] = [];
  const comparisons = { left: MAX_COMPARED };
  for (let rest = filter; rest.trim() !== "";) {
    const field = FIELD.exec(rest);
    const match = field && REST.exec(rest.slice(field[0].length));
    if (!match) {
      throw new SearchError(`"${rest.trim()}" is no condition such as metrics.loss < 0.1 or tags.team = 'rl'`);
    }
    conditions.push(condition(fieldOf(field), match[1]!.toUpperCase().replace(/\s+/, " "), match[2]!, comparisons));
    rest = rest.slice(field[0].length + match[0].length);
    const and = AND.exec(rest);
    if (and === null && rest.trim() !== "") throw new SearchError(`"${rest.trim()}": conditions are joined by AND`);
    rest = rest.slice(and?.[0].length ?? 0);
  }
  return (run) => conditions.every((holds) => holds(run));
}

/** @param order "metrics.loss ASC", the most important first; runs without the field come last */
export function orderOf(order: readonly string[]): (a: Searched, b: Searched) => number {
  if (order.length > MAX_ORDERS) throw new SearchError(`it has ${order.length} orders; ${MAX_ORDERS} are possible`);
  const by = order.map((text) => {
    if (text.length > MAX_LENGTH) throw new SearchError(`an order has more than ${MAX_LENGTH} characters`);
    const whole = text.trimEnd();
    const direction = /\s(ASC|DESC)$/i.exec(whole)?.[1] ?? "";
    const what = whole.slice(0, whole.length - direction.length).trimEnd();
    const found = FIELD.exec(what);
    if (found?.[0].length !== what.length) {
      throw new SearchError(`"${text}" is not an order, such as metrics.loss DESC`);
    }
    return { field: fieldOf(found), sign: direction.toUpperCase() === "DESC" ? -1 : 1 };
  });
  return (a, b) => {
    for (const { field, sign } of by) {
      const [x, y] = [field(a), field(b)].map((value) => Number.isNaN(value) ? undefined : value ?? undefined);
      if (x === y) continue;
      if (x === undefined || y === undefined) return x === undefined ? 1 : -1;
      return x < y ? -sign : sign;
    }
    return 0;
  };
}

function fieldOf([, entity = "attribute", key]: RegExpExecArray): Field {
  const name = entity.toLowerCase();
  return ENTITIES[ALIASES[name] ?? name]!(key!.replace(/^["`]|["`]$/g, ""));
}

function condition(
  field: Field,
  operator: string,
  text: string,
  comparisons: { left: number },
): (run: Searched) => boolean {
  if (text.startsWith("(") !== operator.endsWith("IN")) throw new SearchError(`${operator} ${text}: IN takes a list`);
  const unquoted = (word: string) => word.slice(1, -1);
  if (operator.endsWith("IN")) {
    const words = new Set((text.match(/'[^']*'|"[^"]*"/g) ?? []).map(unquoted));
    return (run) => {
      const value = field(run);
      return value !== undefined && value !== null && words.has(String(value)) === (operator === "IN");
    };
  }
  const wanted: string | number = /^['"]/.test(text) ? unquoted(text) : Number(text);
  if (Number.isNaN(wanted)) throw new SearchError(`${text} is no number; texts are quoted`);
  if (operator.endsWith("LIKE")) {
    const cased = (value: string) => operator === "ILIKE" ? value.toLowerCase() : value;
    const pattern = cased(String(wanted));
    return (run) => {
      const value = field(run);
      return typeof value === "string" && isLike(cased(value), pattern, comparisons);
    };
  }
  return (run) => {
    const found = field(run);
    if (found === undefined || found === null) return false;
    const value = typeof wanted === "number" ? Number(found) : String(found);
    switch (operator) {
      case "=":
        return value === wanted;
      case "!=":
        return value !== wanted;
      case ">":
        return value > wanted;
      case ">=":
        return value >= wanted;
      case "<":
        return value < wanted;
      default:
        return value <= wanted;
    }
  };
}

const PERCENT = 37;
const UNDERSCORE = 95;

/**
 * `%` matches any text, `_` one character. Takes time proportional to the product of the lengths, so that is counted.
 * @throws SearchError when the whole search has compared too much
 */
function isLike(text: string, pattern: string, comparisons: { left: number }): boolean {
  let at = 0;
  let from = 0;
  let any = -1;
  let anyAt = 0;
  while (at < text.length) {
    if (--comparisons.left < 0) {
      throw new SearchError("LIKE would compare too much here: the values are long; give a pattern with fewer % and _");
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
