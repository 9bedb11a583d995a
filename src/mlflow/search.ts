/**
 * MLflow's `search_runs`: conditions joined by AND, and an order, translated into the one language
 * of filters and sorts (src/runs/query). Pure.
 */
import { MosaicError } from "../base/errors.ts";
import {
  Budget,
  type Expression,
  fits,
  type Literal,
  type Operator,
  type Value,
} from "../runs/query/expression.ts";
import { byValue } from "../runs/query/order.ts";

/** A run's fields for conditions. Numbers may be NaN. */
export interface Searched {
  metrics: ReadonlyMap<string, number>;
  params: Readonly<Record<string, string>>;
  tags: Readonly<Record<string, string>>;
  attributes: Readonly<Record<string, string | number | null>>;
  /** Data sets that the run has logged. */
  datasets?: readonly Dataset[];
}

export interface Dataset {
  name: string;
  digest: string;
  context: string;
}

const ATTRIBUTES = [
  ...[
    "run_id",
    "run_name",
    "status",
    "start_time",
    "end_time",
    "user_id",
    "experiment_id",
    "artifact_uri",
  ],
];
const ALIASES: Readonly<Record<string, string>> = {
  parameter: "param",
  attr: "attribute",
  run: "attribute",
};

const KEY = String.raw`"[^"]+"|${"`[^`]+`"}|[\w./-]+`;
const FIELD = new RegExp(
  String.raw`^\s*(?:(metric|param|parameter|tag|attribute|attr|run|dataset)s?\.)?(${KEY})`,
  "i",
);
const REST =
  /^\s*(!=|>=|<=|=|>|<|(?:NOT\s+)?IN\b|I?LIKE\b)\s*(\((?:[^'"()]|'[^']*'|"[^"]*")*\)|'[^']*'|"[^"]*"|[-+\w.]+)/i;
const NULL = /^\s*IS\s+(NOT\s+)?NULL\b/i;
const AND = /^\s+AND\b/i;
const DATASET = "dataset.";
const MAX_LENGTH = 4096;
const MAX_ORDERS = 32;

const refused = (message: string) => new MosaicError("invalid_argument", message);

/**
 * @param filter "" for all; `metrics.loss < 0.1 and tags.mlflow.parentRunId = 'X'` @throws
 * MosaicError `invalid_argument`
 */
export function conditionsOf(filter: string): (run: Searched) => boolean {
  const expression = expressionOf(filter);
  const budget = new Budget();
  // Conditions on data sets hold together for one of them.
  const isOfOne = (run: Searched, of: Dataset | undefined) =>
    fits(
      expression,
      (column) =>
        column.startsWith(DATASET)
          ? of?.[column.slice(DATASET.length) as keyof Dataset]
          : valueOf(run, column),
      budget,
    );
  return (run) =>
    (run.datasets?.length ? run.datasets : [undefined]).some((of) => isOfOne(run, of));
}

/** Columns are `metric.loss`, `param.lr`, `tag.team`, `attribute.status`. */
export function expressionOf(filter: string): Expression {
  if (filter.length > MAX_LENGTH) throw refused(`it has more than ${MAX_LENGTH} characters`);
  const parts: Expression[] = [];
  for (let rest = filter; rest.trim() !== "";) {
    const field = FIELD.exec(rest);
    const isNull = field && NULL.exec(rest.slice(field[0].length));
    const match = isNull ?? (field && REST.exec(rest.slice(field[0].length)));
    if (!match || !field) {
      throw refused(
        `"${rest.trim()}" is not a condition such as metrics.loss < 0.1 or tags.team = 'rl'`,
      );
    }
    parts.push(
      isNull
        ? nullness(columnOf(field), isNull[1] === undefined)
        : condition(columnOf(field), match[1]!.toLowerCase().replace(/\s+/, " "), match[2]!),
    );
    rest = rest.slice(field[0].length + match[0].length);
    const and = AND.exec(rest);
    if (and === null && rest.trim() !== "") {
      throw refused(`"${rest.trim()}": conditions are joined by AND`);
    }
    rest = rest.slice(and?.[0].length ?? 0);
  }
  return { type: "and", parts };
}

function nullness(column: string, isNull: boolean): Expression {
  const known: Expression = { type: "compare", column, operator: "known", values: [] };
  return isNull ? { type: "not", part: known } : known;
}

function condition(column: string, operator: string, text: string): Expression {
  const isIn = operator.endsWith("in");
  if (text.startsWith("(") !== isIn) {
    throw refused(`${operator.toUpperCase()} ${text}: IN takes a list`);
  }
  const compare = (operator: Operator, values: Literal[] = []): Expression => ({
    ...{ type: "compare", column, operator, values },
  });
  const unquoted = (word: string) => word.slice(1, -1);
  /** Unlike in mosaic's filters, a run without the field matches nothing. */
  const known = (part: Expression): Expression => ({
    type: "and",
    parts: [compare("known"), part],
  });
  if (isIn) {
    const found = compare("in", (text.match(/'[^']*'|"[^"]*"/g) ?? []).map(unquoted));
    return operator === "in" ? found : known({ type: "not", part: found });
  }
  const value = /^['"]/.test(text) ? unquoted(text) : Number(text);
  if (Number.isNaN(value)) throw refused(`${text} is not a number; texts are quoted`);
  return operator === "!=" ? known(compare("!=", [value])) : compare(operator as Operator, [value]);
}

/** @param order "metrics.loss ASC", the most important first; runs without the field come last */
export function orderOf(order: readonly string[]): (a: Searched, b: Searched) => number {
  if (order.length > MAX_ORDERS) {
    throw refused(`it has ${order.length} orders; ${MAX_ORDERS} are possible`);
  }
  const by = order.map((text) => {
    if (text.length > MAX_LENGTH) throw refused(`an order has more than ${MAX_LENGTH} characters`);
    const whole = text.trimEnd();
    const direction = /\s(ASC|DESC)$/i.exec(whole)?.[1] ?? "";
    const what = whole.slice(0, whole.length - direction.length).trimEnd();
    const found = FIELD.exec(what);
    if (found?.[0].length !== what.length) {
      throw refused(`"${text}" is not an order, such as metrics.loss DESC`);
    }
    return { column: columnOf(found), descending: direction.toUpperCase() === "DESC" };
  });
  return (a, b) => {
    for (const { column, descending } of by) {
      const order = byValue(valueOf(a, column), valueOf(b, column), descending);
      if (order !== 0) return order;
    }
    return 0;
  };
}

function columnOf([, entity = "attribute", key]: RegExpExecArray): string {
  const lower = entity.toLowerCase();
  const of = ALIASES[lower] ?? lower;
  const name = key!.replace(/^["`]|["`]$/g, "");
  if (of === "dataset" && !["name", "digest", "context"].includes(name)) {
    throw refused(`"${name}" is not a field of a data set: name, digest, context`);
  }
  if (of !== "attribute") return `${of}.${name}`;
  const attribute = name.toLowerCase() === "created" ? "start_time" : name.toLowerCase();
  if (!ATTRIBUTES.includes(attribute)) {
    throw refused(`"${name}" is not an attribute of a run: ${ATTRIBUTES.join(", ")}`);
  }
  return `attribute.${attribute}`;
}

function valueOf(run: Searched, column: string): Value {
  const [of, name] = [column.slice(0, column.indexOf(".")), column.slice(column.indexOf(".") + 1)];
  if (of === "metric") return run.metrics.get(name);
  const fields = of === "param" ? run.params : of === "tag" ? run.tags : run.attributes;
  return Object.hasOwn(fields, name) ? fields[name] ?? undefined : undefined;
}
