/** Sentences about what a program produced and mosaic did not take. Pure. */
import { count } from "../../base/text/format.ts";

/** Prefix of such names among a run's violations (src/telemetry/commit/count_not_read.ts). */
export const NOT_READ = "not read: ";
export const NOT_READ_KINDS: readonly string[] = ["source_problem", "not_read", "source_observed"];

interface Data {
  problem?: string;
  source?: string;
  detail?: string;
  what?: string;
  remedy?: string;
  line?: string;
  count?: number;
}

/** One sentence for each file and kind: each attempt reports it again, later with larger counts. */
export class NotReadLines {
  readonly #lines = new Map<string, string>();

  add(
    kind: string,
    { problem, source = "", detail = "", what = "", remedy, line, count: n = 1 }: Data,
  ): void {
    const name = source.slice(source.lastIndexOf("/") + 1);
    if (kind === "source_observed") {
      // Somebody has named it since.
      for (const key of this.#lines.keys()) {
        if (key.startsWith(`not_read ${source} `)) this.#lines.delete(key);
      }
    } else if (kind === "not_read") {
      const example = line === undefined ? "" : `, as in "${line}"`;
      const advice = remedy === undefined ? "" : `. To change it: ${remedy}`;
      this.#lines.set(`not_read ${source} ${what}`, `${name}: ${what}${example}${advice}`);
    } else if (problem === "left_out") {
      this.#lines.set(detail, detail);
    } else if (problem !== "replaced" && problem !== "torn") {
      this.#lines.set(
        `${source} ${problem}`,
        `${name}: ${detail}${n > 1 ? ` (${count(n)} times)` : ""}`,
      );
    }
  }

  get lines(): string[] {
    return [...this.#lines.values()];
  }
}

/**
 * Of such kinds a few say nothing about a run whose numbers were read: one line of prose, a table
 * beside the log.
 */
const OF_OTHERS =
  /(?:lines with numbers in no known form|lines whose step is no whole number|values with an unknown unit|a table with numbers|JSON lines with numbers)$/;

interface Counted {
  violations: Readonly<Record<string, number>>;
  steps: number;
  episodes: number;
  metrics: number;
}

/** "not read: train.csv … (and 2 more)"; "" if everything was read that matters beside what was. */
export function notReadNote({ violations, steps, episodes, metrics }: Counted): string {
  const read = steps + episodes + metrics;
  const names = Object.entries(violations)
    .filter(([name, n]) => name.startsWith(NOT_READ) && !(OF_OTHERS.test(name) && n < read))
    .map(([name]) => name);
  if (names.length === 0) return "";
  return names[0]! + (names.length > 1 ? ` (and ${names.length - 1} more)` : "");
}
