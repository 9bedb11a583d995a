/**
 * Which parameters a result depends on: permutation importance of a random forest (Breiman 2001).
 * The forest learns the rank of each point's result from its parameters; a parameter is as
 * important as the error on points that a tree has not seen grows when this parameter's values are
 * shuffled among them. Pure, and the same for the same points.
 */
import { natural } from "../base/text/natural_order.ts";

export interface Outcome {
  /** By name; texts, booleans and other values are categories. */
  parameters: Readonly<Record<string, unknown>>;
  result: number;
}

export interface Importance {
  /** Different combinations of parameters; results with equal ones are averaged. */
  points: number;
  /**
   * Share of the variance of the ranks that the forest explains of points it has not seen (R²), at
   * most 1; null: too few points.
   */
  explained: number | null;
  /**
   * The most important first, shares of 1; none if there are too few points, or if nothing is
   * explained.
   */
  parameters: { name: string; share: number }[];
  /** Parameters that differ; beyond MOST_PARAMETERS the last ones are left out. */
  differing: number;
}

/**
 * With fewer points, or with a smaller share explained, a forest often "explains" results that are
 * noise: with these bounds in about one of 20 cases (16 to 60 points, 2 to 8 parameters).
 */
export const LEAST_POINTS = 16;
const LEAST_EXPLAINED = 0.15;
/** They bound the time: together about half a second. */
const MOST_POINTS = 400;
const MOST_PARAMETERS = 30;
const TREES = 64;
const LEAST_IN_LEAF = 2;

/** Columns of equal length. A text column has codes for its values in `codes`. */
interface Column {
  values: Float64Array;
  isText: boolean;
}

interface Split {
  column: number;
  /**
   * Rows whose place is at or below go left; of texts the places are by the mean result of each
   * within the tree's rows.
   */
  at: number;
  places: Float64Array | undefined;
  left: Node;
  right: Node;
}
type Node = number | Split;

/** Numbers in [0, 1), always the same. */
function randomNumbers(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const isAbsent = (value: unknown) => value === undefined || value === null;
const mean = (values: readonly number[]) => values.reduce((sum, v) => sum + v, 0) / values.length;

/** Results by their rank, from 0; equal ones share theirs. */
function ranksOf(results: readonly number[]): Float64Array {
  const order = results.map((_, i) => i).sort((a, b) => results[a]! - results[b]!);
  const ranks = new Float64Array(results.length);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (to + 1 < order.length && results[order[to + 1]!] === results[order[from]!]) to++;
    for (let i = from; i <= to; i++) ranks[order[i]!] = (from + to) / 2;
    from = to + 1;
  }
  return ranks;
}

/** An absent number lies below all others: a condition on it is a split. */
function columnOf(values: readonly unknown[]): Column {
  if (values.every((v) => isAbsent(v) || (typeof v === "number" && !Number.isNaN(v)))) {
    return {
      isText: false,
      values: Float64Array.from(values, (v) => isAbsent(v) ? -Infinity : v as number),
    };
  }
  const codes = new Map<string, number>();
  const code = (v: unknown) => {
    const key = JSON.stringify(v) ?? "";
    const known = codes.get(key) ?? codes.size;
    codes.set(key, known);
    return known;
  };
  return { isText: true, values: Float64Array.from(values, code) };
}

class Forest {
  readonly #random = randomNumbers();

  constructor(readonly columns: readonly Column[], readonly ranks: Float64Array) {}

  /** The rows of a tree, and those that it does not see. */
  bag(): { rows: number[]; unseen: number[] } {
    const n = this.ranks.length;
    const rows = Array.from({ length: n }, () => Math.floor(this.#random() * n));
    const seen = new Set(rows);
    return { rows, unseen: Array.from({ length: n }, (_, i) => i).filter((i) => !seen.has(i)) };
  }

  shuffled(rows: readonly number[]): number[] {
    const order = [...rows];
    for (let i = order.length - 1; i > 0; i--) {
      const j = Math.floor(this.#random() * (i + 1));
      [order[i], order[j]] = [order[j]!, order[i]!];
    }
    return order;
  }

  grow(rows: readonly number[]): Node {
    const { ranks, columns } = this;
    const leaf = mean(rows.map((row) => ranks[row]!));
    if (rows.length < 2 * LEAST_IN_LEAF) return leaf;
    const tried = this.shuffled(columns.map((_, i) => i)).slice(
      0,
      Math.ceil(columns.length * 2 / 3),
    );
    let best:
      | { gain: number; column: number; at: number; places: Float64Array | undefined }
      | undefined;
    for (const column of tried) {
      const { values, isText } = columns[column]!;
      const places = isText ? this.#places(values, rows) : undefined;
      const place = (row: number) => places === undefined ? values[row]! : places[values[row]!]!;
      const sorted = rows.toSorted((a, b) =>
        place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0
      );
      const total = sorted.reduce((sum, row) => sum + ranks[row]!, 0);
      let left = 0;
      for (let i = 1; i < sorted.length; i++) {
        left += ranks[sorted[i - 1]!]!;
        const rest = sorted.length - i;
        if (
          i < LEAST_IN_LEAF || rest < LEAST_IN_LEAF || place(sorted[i - 1]!) === place(sorted[i]!)
        ) continue;
        const gain = left ** 2 / i + (total - left) ** 2 / rest - total ** 2 / sorted.length;
        if (gain > (best?.gain ?? 1e-9)) best = { gain, column, at: place(sorted[i - 1]!), places };
      }
    }
    if (best === undefined) return leaf;
    const { column, at, places } = best;
    const goesLeft = (row: number) => placeIn(columns[column]!.values[row]!, places) <= at;
    return {
      ...{ column, at, places },
      left: this.grow(rows.filter(goesLeft)),
      right: this.grow(rows.filter((row) => !goesLeft(row))),
    };
  }

  /** Texts in the order of their mean result; one that is not among the rows lies in the middle. */
  #places(values: Float64Array, rows: readonly number[]): Float64Array {
    const sums = new Map<number, [sum: number, count: number]>();
    for (const row of rows) {
      const [sum, count] = sums.get(values[row]!) ?? [0, 0];
      sums.set(values[row]!, [sum + this.ranks[row]!, count + 1]);
    }
    const places = new Float64Array(values.reduce((most, v) => Math.max(most, v), 0) + 1);
    places.fill(mean(rows.map((row) => this.ranks[row]!)));
    for (const [code, [sum, count]] of sums) places[code] = sum / count;
    return places;
  }

  /** @param other the row whose value of the column is taken */
  predict(tree: Node, row: number, column = -1, other = row): number {
    let node = tree;
    while (typeof node !== "number") {
      const value = this.columns[node.column]!.values[node.column === column ? other : row]!;
      node = placeIn(value, node.places) <= node.at ? node.left : node.right;
    }
    return node;
  }
}

const placeIn = (value: number, places: Float64Array | undefined) =>
  places === undefined ? value : places[value]!;

/** Points: results of equal parameters averaged; at most MOST_POINTS, evenly chosen. */
function pointsOf(outcomes: readonly Outcome[], names: readonly string[]): Outcome[] {
  const groups = Map.groupBy(
    outcomes,
    ({ parameters }) => JSON.stringify(names.map((name) => parameters[name] ?? null)),
  );
  return [...groups.values()].map((members) => ({
    parameters: members[0]!.parameters,
    result: mean(members.map(({ result }) => result)),
  }));
}

/**
 * @param given of runs; a seed is no parameter; results that are not finite do not count
 * @returns yields between trees, so that a page can do other things meanwhile
 */
export function* importanceSteps(given: readonly Outcome[]): Generator<void, Importance> {
  const outcomes = given.filter(({ result }) => Number.isFinite(result));
  const all = [...new Set(outcomes.flatMap(({ parameters }) => Object.keys(parameters)))].sort(
    natural,
  );
  const differing = all.filter((name) =>
    new Set(outcomes.map(({ parameters }) => JSON.stringify(parameters[name] ?? null))).size > 1
  );
  const names = differing.slice(0, MOST_PARAMETERS);
  const found = pointsOf(outcomes, names);
  const none = {
    points: found.length,
    explained: null,
    parameters: [],
    differing: differing.length,
  };
  if (found.length < LEAST_POINTS || names.length === 0) return none;
  const step = Math.max(1, found.length / MOST_POINTS);
  const points = Array.from(
    { length: Math.min(found.length, MOST_POINTS) },
    (_, i) => found[Math.floor(i * step)]!,
  );
  const ranks = ranksOf(points.map(({ result }) => result));
  const forest = new Forest(
    names.map((name) => columnOf(points.map(({ parameters }) => parameters[name]))),
    ranks,
  );
  const growth = names.map(() => 0);
  const guesses = points.map((): [sum: number, count: number] => [0, 0]);
  for (let t = 0; t < TREES; t++) {
    const { rows, unseen } = forest.bag();
    const tree = forest.grow(rows);
    const error = (column?: number, others = unseen) =>
      unseen.reduce(
        (sum, row, i) => sum + (forest.predict(tree, row, column, others[i]!) - ranks[row]!) ** 2,
        0,
      );
    const before = error();
    for (const row of unseen) {
      guesses[row]![0] += forest.predict(tree, row);
      guesses[row]![1]++;
    }
    names.forEach((_, column) =>
      growth[column]! += error(column, forest.shuffled(unseen)) - before
    );
    yield;
  }
  const middle = mean([...ranks]);
  const guessed = points.map((_, i) => i).filter((i) => guesses[i]![1] > 0);
  const squares = (of: (i: number) => number) =>
    guessed.reduce((sum, i) => sum + (ranks[i]! - of(i)) ** 2, 0);
  const spread = squares(() => middle);
  const explained = spread === 0 ? 0 : 1 - squares((i) => guesses[i]![0] / guesses[i]![1]) / spread;
  const positive = growth.map((g) => Math.max(0, g));
  const sum = positive.reduce((a, b) => a + b, 0);
  const shown = explained >= LEAST_EXPLAINED && sum > 0;
  const parameters = names.map((name, i) => ({ name, share: positive[i]! / sum }))
    .sort((a, b) => b.share - a.share);
  return { ...none, explained, parameters: shown ? parameters : [] };
}

/** All at once, for a program that waits for nothing else. */
export function importanceOf(outcomes: readonly Outcome[]): Importance {
  const steps = importanceSteps(outcomes);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** In words for people: of what, over how many points, and why there is none. */
export function importanceText({ points, explained, parameters, differing }: Importance): string {
  const left = differing > MOST_PARAMETERS
    ? `; the first ${MOST_PARAMETERS} of ${differing} parameters`
    : "";
  if (differing === 0) return "No parameter differs.";
  if (explained === null) {
    return `${points} ${
      points === 1 ? "point has" : "points have"
    } a result; importance needs ${LEAST_POINTS}.`;
  }
  const share = `${Math.max(0, Math.round(explained * 100))} %`;
  if (parameters.length === 0) {
    return `Over ${points} points, a random forest explains ${share} of the ranks of points it has not seen: too little to ` +
      `say which parameter matters${left}.`;
  }
  return `By a random forest over ${points} points, which explains ${share} of the ranks of points it has not seen${left}. A ` +
    "share is how much of the error comes from shuffling the parameter.";
}
