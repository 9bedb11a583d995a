/**
 * The best result so far over time: each result where its run ended, and the steps of those that
 * were better than all before.
 */
import { duration } from "../../../base/text/format.ts";
import { ticksOf } from "../../../base/time/ticks.ts";
import { figure, plural } from "../parts/format.ts";
import { Drawing } from "./drawing.tsx";
import { go } from "../parts/dom.ts";

export interface End {
  run_id: string;
  name: string;
  /** Unix milliseconds. */
  at: number;
  result: number;
}

const SIZE = { height: 260, left: 64, right: 24, top: 12, bottom: 32 };

/** @param begun Unix milliseconds @param goal which of two results is better */
export function BestSoFar(
  { ends, begun, goal }: { ends: readonly End[]; begun: number; goal: "max" | "min" },
) {
  const inOrder = ends.toSorted((a, b) => a.at - b.at);
  const bests: End[] = [];
  for (const end of inOrder) {
    const best = bests.at(-1)?.result ?? (goal === "max" ? -Infinity : Infinity);
    if (goal === "max" ? end.result > best : end.result < best) bests.push(end);
  }
  if (bests.length === 0) return <p class="empty">No run has ended with a result.</p>;
  const { height, left, right, top, bottom } = SIZE;
  const results = inOrder.map(({ result }) => result);
  const low = results.reduce((a, b) => Math.min(a, b));
  const high = results.reduce((a, b) => Math.max(a, b));
  const last = Math.max((inOrder.at(-1)!.at - begun) / 1000, 1);
  const py = (v: number) =>
    height - bottom - (high === low ? 0.5 : (v - low) / (high - low)) * (height - top - bottom);
  const best = new Set(bests);
  const drawn = (width: number) => {
    const px = (at: number) => left + (at - begun) / 1000 / last * (width - left - right);
    const path =
      bests.map(({ at, result }, i) =>
        i === 0 ? `M${px(at)} ${py(result)}` : `H${px(at)}V${py(result)}`
      ).join("") +
      `H${width - right}`;
    return (
      <>
        {ticksOf(low, high, 4).map((v) => (
          <g key={v}>
            <line x1={left} x2={width - right} y1={py(v)} y2={py(v)} />
            <text x={left - 8} y={py(v)} text-anchor="end" dominant-baseline="middle">
              {figure(v)}
            </text>
          </g>
        ))}
        {ticksOf(0, last, 6).map((x) => (
          <text key={x} x={px(begun + x * 1000)} y={height - 10} text-anchor="middle">
            {duration(x * 1000)}
          </text>
        ))}
        <path d={path} fill="none" stroke="var(--accent)" stroke-width="2" />
        {inOrder.map((end) => (
          <circle
            key={end.run_id}
            cx={px(end.at)}
            cy={py(end.result)}
            r={best.has(end) ? 4.5 : 3}
            fill={best.has(end) ? "var(--accent)" : "var(--muted)"}
            fill-opacity={best.has(end) ? 1 : 0.5}
            onClick={() => go(`/runs/${encodeURIComponent(end.run_id)}`)}
          >
            <title>{`${end.name}: ${figure(end.result)} after ${duration(end.at - begun)}`}</title>
          </circle>
        ))}
      </>
    );
  };
  const label = `Best so far: from ${figure(bests[0]!.result)} to ${
    figure(bests.at(-1)!.result)
  }, ${plural(bests.length - 1, "improvement")} over ${plural(ends.length, "run")}`;
  return (
    <section class="scatter" aria-label="Best so far">
      <Drawing label={label} height={height} of={drawn} />
    </section>
  );
}
