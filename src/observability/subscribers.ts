/** The current readers of logs, and how far each is behind the head. Computed only when read. */
export type Via = "grpc" | "page";

export interface Following {
  via: Via;
  /**
   * What is followed: `steps`, `episodes`, `events`, `metrics`, `transitions`, `event_log`, `logs`.
   */
  stream: string;
  subscribers: number;
  /** Unsent records of the slowest reader; undefined for streams without records. */
  lag: number | undefined;
}

interface Subscriber {
  via: Via;
  stream: string;
  behind: (() => number) | undefined;
}

export class Subscribers {
  readonly #open = new Set<Subscriber>();

  /** @param behind records between its cursor and the head. @returns the end of the subscription */
  opened(via: Via, stream: string, behind?: () => number): () => void {
    const subscriber = { via, stream, behind };
    this.#open.add(subscriber);
    return () => void this.#open.delete(subscriber);
  }

  /** By transport and stream. */
  following(): Following[] {
    const found = new Map<string, Following>();
    for (const { via, stream, behind } of this.#open) {
      const key = `${via} ${stream}`;
      const known = found.get(key) ?? { via, stream, subscribers: 0, lag: undefined };
      known.subscribers++;
      if (behind !== undefined) known.lag = Math.max(known.lag ?? 0, behind());
      found.set(key, known);
    }
    return [...found.values()];
  }
}
