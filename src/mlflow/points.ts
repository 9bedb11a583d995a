/** Metrics of MLflow's clients as records of the telemetry store, each once. */
import type { WorkerEventRecord } from "../gen/records/record_types.ts";
import { MAX_POINTS_PER_RECORD } from "../records/points.ts";

export interface MetricPoint {
  /** Name of the series. */
  name: string;
  /** JSON has no NaN and no infinities: those are texts. */
  value: number | "NaN" | "Infinity" | "-Infinity";
  step: number;
  /** The client names no step, and sends 0: the points are in the order of their arrival. */
  isUnplaced?: boolean;
  /** Unix milliseconds. */
  timestamp: number;
}

/** Points that a client may repeat: two of its largest batches. */
const REMEMBERED = 2000;

/**
 * A client whose answer was lost sends its points again. As in MLflow, points with equal name,
 * step, time and value are the same point.
 */
export class RecentPoints {
  readonly #seen = new Set<string>();
  /** When the newest point of a series with step 0 was logged. */
  readonly #atZero = new Map<string, number>();

  /** The points that are new; they are remembered when `stored` is called. */
  fresh(points: readonly MetricPoint[]): MetricPoint[] {
    const now = new Set<string>();
    return points.filter((point) => {
      const key = keyOf(point);
      if (this.#seen.has(key) || now.has(key)) return false;
      now.add(key);
      return true;
    });
  }

  /**
   * A second point at step 0, later than the first, has no step: clients send 0 where a program
   * names none.
   */
  placed(points: readonly MetricPoint[]): MetricPoint[] {
    const at = new Map<string, number>();
    return points.map((point) => {
      if (point.step !== 0) return point;
      const before = at.get(point.name) ?? this.#atZero.get(point.name);
      at.set(point.name, point.timestamp);
      return before === undefined || before === point.timestamp
        ? point
        : { ...point, isUnplaced: true };
    });
  }

  stored(points: readonly MetricPoint[]): void {
    for (const point of points) {
      this.#seen.add(keyOf(point));
      if (point.step === 0) this.#atZero.set(point.name, point.timestamp);
    }
    for (const key of this.#seen) {
      if (this.#seen.size <= REMEMBERED) return;
      this.#seen.delete(key);
    }
  }
}

function keyOf({ name, value, step, timestamp }: MetricPoint): string {
  return `${step} ${timestamp} ${value} ${name}`;
}

/**
 * One event per step and time, in the order of arrival; a series with several points there gives
 * several events.
 */
export function eventsOf(points: readonly MetricPoint[]): WorkerEventRecord[] {
  const events: { at: string; values: Map<string, MetricPoint["value"]>; point: MetricPoint }[] =
    [];
  for (const point of points) {
    const at = `${point.isUnplaced ? "" : point.step} ${point.timestamp}`;
    const last = events.at(-1);
    if (
      last?.at === at && !last.values.has(point.name) && last.values.size < MAX_POINTS_PER_RECORD
    ) {
      last.values.set(point.name, point.value);
    } else events.push({ at, values: new Map([[point.name, point.value]]), point });
  }
  return events.map(({ values, point: { step, isUnplaced, timestamp } }) => ({
    kind: "metrics",
    dataJson: JSON.stringify({
      ...(isUnplaced ? {} : { global_step: step }),
      ...Object.fromEntries(values),
    }),
    tsNs: `${timestamp}000000`,
  }));
}

/** The points of a stored event. */
export function pointsOfEvent(
  { dataJson, tsNs }: { dataJson: string; tsNs: string },
): MetricPoint[] {
  const { global_step: step = 0, ...values } = JSON.parse(dataJson) as Record<
    string,
    MetricPoint["value"]
  >;
  if (typeof step !== "number") return [];
  const timestamp = Number(tsNs.slice(0, -6));
  return Object.entries(values).map(([name, value]) => ({ name, value, step, timestamp }));
}
