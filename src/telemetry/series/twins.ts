/**
 * Whether two series are one quantity that two sources wrote, such as a printed table with three
 * digits and the CSV file beside it. Decided by their values: each pair of points must be equal
 * within the precision of the rounder one. Pure.
 */

/** Points that wait for their counterpart, and compared pairs that are kept: both bounded. */
const MOST_WAITING = 512;
const MOST_PAIRS = 64;
/** After so many equal pairs no more are compared. */
const ENOUGH = 1000;
/** Series of different names must have more in common than those of one name. */
const LEAST_OF_OTHER_NAMES = 5;
/** A value with more significant digits was not rounded for people. */
const ROUNDED_DIGITS = 8;
/** Rounding errors of the binary numbers themselves. */
const SLACK = 1 + 1e-6;

export type SameName = "exactly" | "alike" | "no";
export type Verdict = "unknown" | "same" | "different";
type Pair = [a: number, b: number];

/** One side of a comparison. */
class Side {
  /** By step and how often the step was repeated directly before. */
  readonly waiting = new Map<string, number>();
  /** Values by number of the point, while its steps are only their numbers. */
  readonly first: number[] = [];
  counted = true;
  digits = 0;
  decimals = 0;
  /** Every value is a float32. */
  single = true;
  #step = NaN;
  #repeated = 0;
  #n = 0;

  get hasPoints(): boolean {
    return this.#n > 0;
  }

  /** @param follows it is the one after the last @returns where the point is */
  take(step: number, value: number, follows: boolean): string {
    this.#repeated = follows && step === this.#step ? this.#repeated + 1 : 0;
    this.#step = step;
    if (follows) {
      this.counted &&= step === this.#n;
      if (this.#n++ < MOST_PAIRS) this.first.push(value);
    }
    const [digits, decimals] = digitsOf(value);
    this.digits = Math.max(this.digits, digits);
    this.decimals = Math.max(this.decimals, decimals);
    this.single &&= Math.fround(value) === value;
    return `${step} ${this.#repeated}`;
  }

  wait(at: string, value: number): void {
    this.waiting.set(at, value);
    if (this.waiting.size > MOST_WAITING) this.waiting.delete(this.waiting.keys().next().value!);
  }
}

export class Twins {
  readonly #sides = [new Side(), new Side()] as const;
  readonly #pairs: Pair[] = [];
  #compared = 0;
  #verdict: Verdict = "unknown";
  /** Some pair differs by more than a float32 does. */
  #rounded = false;
  /** How many of the first points were compared by their order. */
  #inOrderUpTo = 0;

  /** @param sameName whether both sources call it by the same name, or spell it alike */
  constructor(private readonly sameName: SameName) {}

  get verdict(): Verdict {
    return this.#verdict;
  }

  /** No further point changes the verdict. */
  get isFinal(): boolean {
    return this.#verdict === "different" || this.#compared >= ENOUGH;
  }

  /** The side with the more exact values; of two alike the one with steps, else the first. */
  get exact(): 0 | 1 {
    const [a, b] = this.#sides;
    // A float32 has more digits than the number that it was made of.
    if (this.#rounded) return this.#finer;
    if (a.single !== b.single) return a.single ? 1 : 0;
    return this.sameName === "exactly" && a.counted && !b.counted ? 1 : 0;
  }

  get #finer(): 0 | 1 {
    return this.#sides[1].digits > this.#sides[0].digits ? 1 : 0;
  }

  /** @param side whose point it is @param follows it is the one after the last that was added */
  add(side: 0 | 1, step: number, value: number, follows = true): void {
    if (this.isFinal || !Number.isFinite(value)) return;
    const [own, other] = [this.#sides[side], this.#sides[1 - side]!];
    const at = own.take(step, value, follows);
    // One source has no steps: then points are the same if they are so in their order.
    if (this.#compared === 0 && own.hasPoints && other.hasPoints && own.counted !== other.counted) {
      return this.#inOrder();
    }
    const counterpart = other.waiting.get(at);
    if (counterpart === undefined) own.wait(at, value);
    else {
      other.waiting.delete(at);
      this.#pair(side === 0 ? [value, counterpart] : [counterpart, value]);
    }
  }

  #pair(pair: Pair): void {
    this.#compared++;
    if (this.#pairs.length < MOST_PAIRS) this.#pairs.push(pair);
    const alike = this.#compared <= MOST_PAIRS
      ? this.#pairs.every((one) => this.#equal(one))
      : this.#equal(pair);
    this.#verdict = !alike ? "different" : this.#tells(this.#pairs) ? "same" : "unknown";
  }

  #inOrder(): void {
    const [a, b] = this.#sides;
    const n = Math.min(a.first.length, b.first.length);
    if (n < LEAST_OF_OTHER_NAMES || n === this.#inOrderUpTo) return;
    this.#inOrderUpTo = n;
    const pairs = a.first.slice(0, n).map((value, i): Pair => [value, b.first[i]!]);
    if (pairs.every((pair) => this.#equal(pair))) {
      if (this.#tells(pairs, LEAST_OF_OTHER_NAMES)) this.#verdict = "same";
    } else this.#verdict = "different";
  }

  /** Zeros and ones are equal in many series. */
  #tells(
    pairs: readonly Pair[],
    least = this.sameName !== "no" ? 1 : LEAST_OF_OTHER_NAMES,
  ): boolean {
    return least === 1 ||
      new Set(pairs.filter(([a]) => digitsOf(a)[0] > 1).map(([a]) => a)).size >= least;
  }

  #equal([a, b]: Pair): boolean {
    if (a === b || Math.fround(a) === Math.fround(b)) return true;
    this.#rounded = true;
    const [x, y] = this.#sides;
    const [exact, round, side] = this.#finer === 0 ? [a, b, y] : [b, a, x];
    if (side.digits > ROUNDED_DIGITS) return false;
    const off = Math.abs(exact - round) / SLACK;
    if (off <= 0.5 * 10 ** -side.decimals) return true;
    return round !== 0 &&
      off <= 0.5 * 10 ** (Math.floor(Math.log10(Math.abs(round))) - side.digits + 1);
  }
}

/** Significant digits and decimals of the shortest text of a number. */
function digitsOf(value: number): [digits: number, decimals: number] {
  const [mantissa = "", exponent = "0"] = value.toExponential().replace("-", "").split("e");
  const digits = mantissa.replace(".", "").length;
  return [value === 0 ? 1 : digits, value === 0 ? 0 : Math.max(0, digits - 1 - Number(exponent))];
}
