/** A curve in few words and numbers, for a reader who pays for each. Pure. */
import { number } from "../base/text/format.ts";
import { type CurveBucket, position } from "../runs/curves.ts";

export interface CurvePart extends CurveBucket {
  min: number;
  max: number;
}

/** Share of the curve's range that a change of its level must have to be called one. */
const CHANGE = 0.1;
/** Parts at either end whose means are compared. */
const END_SHARE = 5;

/**
 * The direction of a curve: the mean of its first fifth against that of its last, as a share of its
 * range.
 * @returns such as `stays level (12.1 → 14), after a peak of 480 at 700`
 */
export function trend(parts: readonly CurvePart[]): string {
  const known = parts.filter((part) => !part.damaged && Number.isFinite(part.mean));
  if (known.length === 0) return "no finite value";
  const [first, last] = [known[0]!, known.at(-1)!];
  if (known.length < 3) {
    return known.length === 1
      ? "one value"
      : `two values: ${number(first.mean)}, ${number(last.mean)}`;
  }
  const [least, most] = [
    Math.min(...known.map((p) => p.min)),
    Math.max(...known.map((p) => p.max)),
  ];
  const range = most - least;
  if (range === 0) return `constant (${number(least)})`;
  const share = Math.max(1, Math.floor(known.length / END_SHARE));
  const [begin, end] = [mean(known.slice(0, share)), mean(known.slice(-share))];
  const change = (end - begin) / range;
  const direction = change > CHANGE ? "rises" : change < -CHANGE ? "falls" : "stays level";
  const turn = turningPoint(known, direction);
  return `${direction} (${number(begin)} → ${number(end)})${turn}`;
}

/** Where a curve that ends elsewhere had its best part: a peak before the end, or a dip. */
function turningPoint(parts: readonly CurvePart[], direction: string): string {
  const highest = parts.reduce((best, part) => part.mean > best.mean ? part : best);
  const lowest = parts.reduce((best, part) => part.mean < best.mean ? part : best);
  const middle = (part: CurvePart) => part !== parts[0] && part !== parts.at(-1);
  const range = highest.mean - lowest.mean;
  const last = parts.at(-1)!.mean;
  if (direction !== "falls" && middle(highest) && highest.mean - last > range / 3) {
    return `, after a peak of ${number(highest.mean)} at ${position(highest)}`;
  }
  if (direction !== "rises" && middle(lowest) && last - lowest.mean > range / 3) {
    return `, after a low of ${number(lowest.mean)} at ${position(lowest)}`;
  }
  return "";
}

function mean(parts: readonly CurvePart[]): number {
  return parts.reduce((sum, part) => sum + part.mean, 0) / parts.length;
}

/**
 * `x value` a line: each part's end and mean, with its least and largest value where these differ
 * from the mean.
 */
export function points(parts: readonly CurvePart[]): string[] {
  return parts.map((part) => {
    if (part.damaged) return `${position(part)} damaged`;
    const extremes = part.min === part.max ? "" : ` [${number(part.min)}, ${number(part.max)}]`;
    return `${position(part)} ${number(part.mean)}${extremes}${
      part.overwritten ? " overwritten" : ""
    }`;
  });
}
