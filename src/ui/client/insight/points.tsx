/** A scatter: one point for each run; and what its colours mean. */
import { figure } from "../parts/format.ts";
import { Drawing } from "./drawing.tsx";
import { type Place, type Scale, scaleOf, shadeAt } from "./scales.ts";

interface Point {
  key: string;
  title: string;
  color: string;
  /** Places, 0 to 1. */
  x: number;
  y: number;
  open: () => void;
}

interface Side {
  label: string;
  scale: Scale;
}

const SIZE = { height: 380, left: 64, right: 32, top: 16, bottom: 44 };

export function Points(
  { name, x, y, points }: { name: string; x: Side; y: Side; points: Point[] },
) {
  const { height, left, right, top, bottom } = SIZE;
  const py = (share: number) => height - bottom - share * (height - top - bottom);
  const drawn = (width: number) => {
    const px = (share: number) => left + share * (width - left - right);
    return (
      <>
        {x.scale.ticks.map(({ at, text }) => (
          <g key={`x${at}`}>
            <line x1={px(at)} x2={px(at)} y1={py(0)} y2={py(1)} />
            <text x={px(at)} y={py(0) + 16} text-anchor="middle">{text}</text>
          </g>
        ))}
        {y.scale.ticks.map(({ at, text }) => (
          <g key={`y${at}`}>
            <line x1={px(0)} x2={px(1)} y1={py(at)} y2={py(at)} />
            <text x={left - 8} y={py(at) + 4} text-anchor="end">{text}</text>
          </g>
        ))}
        <text x={px(0.5)} y={height - 8} text-anchor="middle">{x.label + x.scale.note}</text>
        {points.map(({ key, title, color, x, y, open }) => (
          <circle key={key} cx={px(x)} cy={py(y)} r="5" fill={color} onClick={open}>
            <title>{title}</title>
          </circle>
        ))}
      </>
    );
  };
  return <Drawing label={name} height={height} of={drawn} />;
}

/** @param values by which runs are coloured */
export function ShadeLegend({ name, values }: { name: string; values: readonly Place[] }) {
  if (values.length === 0) return null;
  const { at, note, ticks } = scaleOf(values);
  const numbers = values.filter((v) => typeof v === "number");
  if (numbers.length < values.length) {
    return (
      <div class="legend">
        <span>{name}</span>
        {ticks.map((tick) => (
          <span key={tick.text}>
            <svg class="dot" viewBox="0 0 10 10" aria-hidden="true">
              <circle cx="5" cy="5" r="5" fill={shadeAt(tick.at)} />
            </svg>
            {tick.text}
          </span>
        ))}
      </div>
    );
  }
  const low = numbers.reduce((a, b) => Math.min(a, b));
  const high = numbers.reduce((a, b) => Math.max(a, b));
  return (
    <div class="legend shades">
      <span>{name + note}</span>
      <span>{figure(low)}</span>
      <span
        class="ramp"
        aria-hidden="true"
        style={{
          background: `linear-gradient(to right, ${
            [at(low), 0.5, at(high)].map(shadeAt).join(", ")
          })`,
        }}
      />
      <span>{figure(high)}</span>
    </div>
  );
}
