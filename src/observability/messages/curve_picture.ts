/** Curves of one metric as a picture. Pure. */
import { number } from "../../base/text/format.ts";
import { ticksOf } from "../../base/time/ticks.ts";
import { type Colour, Picture, TEXT_HEIGHT, textWidth } from "./png.ts";

export interface PictureCurve {
  name: string;
  points: readonly { x: number; y: number }[];
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 400, 92, 20, 56, 36];
const [INK, GRID]: readonly [Colour, Colour] = [[60, 60, 60], [225, 225, 225]];
/** As in reports (src/runs/report/chart.ts). */
const COLOURS: readonly Colour[] = [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167]];
export const MOST_CURVES = COLOURS.length;
/** Characters of a run's name in the legend. */
const LONGEST_NAME = 12;

/** PNG; undefined if no curve has a finite point. @param curves the first MOST_CURVES are drawn */
export function curvePicture(
  metric: string,
  curves: readonly PictureCurve[],
): Uint8Array<ArrayBuffer> | undefined {
  const drawn = curves.map(({ name, points }) => ({
    name,
    points: points.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)),
  })).filter(({ points }) => points.length > 0).slice(0, MOST_CURVES);
  if (drawn.length === 0) return undefined;
  const all = drawn.flatMap(({ points }) => points);
  const across = axis(all.map(({ x }) => x), LEFT, WIDTH - RIGHT, 5);
  const up = axis(all.map(({ y }) => y), HEIGHT - BOTTOM, TOP, 4);
  const picture = new Picture(WIDTH, HEIGHT);
  picture.text(LEFT, 8, metric.slice(0, 50), INK);
  for (const tick of up.ticks) {
    const y = Math.round(up.at(tick));
    picture.line(LEFT, y, WIDTH - RIGHT, y, GRID, 1);
    picture.text(LEFT - 8 - textWidth(number(tick)), y - TEXT_HEIGHT, number(tick), INK);
  }
  for (const tick of across.ticks) {
    const text = number(tick);
    const left = Math.min(
      Math.round(across.at(tick) - textWidth(text) / 2),
      WIDTH - textWidth(text),
    );
    picture.text(left, HEIGHT - BOTTOM + 12, text, INK);
  }
  for (const [i, { name, points }] of drawn.entries()) {
    const colour = COLOURS[i]!;
    picture.text(
      LEFT + i * textWidth("n".repeat(LONGEST_NAME + 1)),
      30,
      name.slice(0, LONGEST_NAME),
      colour,
    );
    points.forEach(({ x, y }, at) => {
      // The first one from itself: a single point is a dot.
      const before = points[Math.max(0, at - 1)]!;
      picture.line(
        across.at(before.x),
        up.at(before.y),
        across.at(x),
        up.at(y),
        colour,
        points.length > 1 ? 2.5 : 7,
      );
    });
  }
  return picture.png();
}

function axis(values: readonly number[], from: number, to: number, wanted: number) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low === high) {
    [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  }
  return {
    at: (value: number) => from + (value - low) / (high - low) * (to - from),
    ticks: ticksOf(low, high, wanted),
  };
}
