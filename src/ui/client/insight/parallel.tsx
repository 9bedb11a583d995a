/**
 * Parallel coordinates: one axis for each parameter and the result, one line for each run; a range
 * of an axis chooses runs.
 */
import { useState } from "../parts/preact.ts";
import { Drawing } from "./drawing.tsx";
import { type Range, type Scale } from "./scales.ts";

export interface Axis {
  id: string;
  label: string;
  scale: Scale;
}

/** Places on each axis, 0 to 1. */
export interface ParallelLine {
  key: string;
  title: string;
  places: number[];
  color: string;
  chosen: boolean;
  open: () => void;
}

const SIZE = { height: 380, left: 64, right: 64, top: 16, bottom: 44 };
/** Between two axes. */
const LEAST_BETWEEN = 84;
/** Half the width of what can be grasped of an axis. */
const GRASP = 14;
/** A shorter drag is a click. */
const LEAST_DRAG = 0.01;

interface Props {
  name: string;
  axes: Axis[];
  lines: ParallelLine[];
  ranges: ReadonlyMap<string, Range>;
  /** undefined: the whole axis */
  choose: (id: string, range: Range | undefined) => void;
}

export function Parallel({ name, axes, lines, ranges, choose }: Props) {
  const { height, left, right, top, bottom } = SIZE;
  const [drag, setDrag] = useState<{ axis: number; from: number; to: number }>();
  const py = (share: number) => height - bottom - share * (height - top - bottom);
  const shareAt = (event: PointerEvent) => {
    const { top: y, height: size } = (event.currentTarget as SVGElement).ownerSVGElement!
      .getBoundingClientRect();
    const inDrawing = (event.clientY - y) / size * height;
    return Math.max(0, Math.min(1, (height - bottom - inDrawing) / (height - top - bottom)));
  };
  const released = () => {
    if (drag === undefined) return;
    const { id, scale } = axes[drag.axis]!;
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    choose(id, to - from < LEAST_DRAG ? undefined : scale.between(from, to));
    setDrag(undefined);
  };
  /** Ends of the range of an axis. */
  const endsOf = ({ id, scale }: Axis, a: number): [number, number] | undefined => {
    if (drag?.axis === a) return [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    const range = ranges.get(id);
    if (range === undefined) return undefined;
    const places = "texts" in range
      ? range.texts.map(scale.at)
      : [scale.at(range.from), scale.at(range.to)];
    return [Math.min(...places) - 0.02, Math.max(...places) + 0.02];
  };
  const drawn = (width: number) => {
    const px = (axis: number) =>
      left + (axes.length < 2 ? 0.5 : axis / (axes.length - 1)) * (width - left - right);
    const line = ({ key, title, places, color, chosen, open }: ParallelLine) => (
      <polyline
        key={key}
        class={chosen ? undefined : "left-out"}
        points={places.map((place, a) => `${px(a)},${py(place)}`).join(" ")}
        stroke={color}
        onClick={open}
      >
        <title>{title}</title>
      </polyline>
    );
    return (
      <>
        {lines.filter(({ chosen }) => !chosen).map(line)}
        {lines.filter(({ chosen }) => chosen).map(line)}
        {axes.map((axis, a) => {
          const ends = endsOf(axis, a);
          return (
            <g key={axis.id}>
              <line class="axis" x1={px(a)} x2={px(a)} y1={py(0)} y2={py(1)} />
              <text x={px(a)} y={height - 8} text-anchor="middle">
                {axis.label + axis.scale.note}
              </text>
              {axis.scale.ticks.map((t) => (
                <text key={t.at} class="tick" x={px(a) + 4} y={py(t.at) + 4}>{t.text}</text>
              ))}
              {ends && (
                <rect
                  class="range"
                  x={px(a) - 6}
                  width={12}
                  y={py(ends[1])}
                  height={Math.max(1, py(ends[0]) - py(ends[1]))}
                />
              )}
              <rect
                class="grasp"
                x={px(a) - GRASP}
                width={2 * GRASP}
                y={py(1)}
                height={py(0) - py(1)}
                onPointerDown={(event: PointerEvent) => {
                  (event.currentTarget as Element).setPointerCapture(event.pointerId);
                  setDrag({ axis: a, from: shareAt(event), to: shareAt(event) });
                }}
                onPointerMove={(event: PointerEvent) => {
                  if (drag?.axis === a) setDrag({ ...drag, to: shareAt(event) });
                }}
                onPointerUp={released}
                onPointerCancel={() => setDrag(undefined)}
              />
            </g>
          );
        })}
      </>
    );
  };
  return (
    <Drawing
      label={name}
      kind="parallel"
      height={height}
      least={left + right + LEAST_BETWEEN * (axes.length - 1)}
      of={drawn}
    />
  );
}
