/** Where lines of a log go, and how they look to a person. */
import { harmless, harmlessLines } from "./terminal_text.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export type LogLevel = typeof LOG_LEVELS[number];
export type LogFormat = "json" | "text";

/** Where finished lines go; each ends with a newline. */
export type LogSink = (line: string) => void;

const encoder = new TextEncoder();

/** Writes to stderr; a closed stderr must not end the process. */
export const stderrSink: LogSink = (line) => {
  try {
    // JSON escapes most of what a terminal obeys, not all.
    const shown = Deno.stderr.isTerminal() ? harmlessLines(line) : line;
    Deno.stderr.writeSync(encoder.encode(shown));
  } catch {
    // Nobody is left to tell.
  }
};

/** A person's form of a log record: time, level, message, then the fields. */
export function textLine({ time, level, msg, ...rest }: Record<string, unknown>): string {
  const fields = Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  const text = `${time} ${String(level).toUpperCase().padEnd(5)} ${msg ?? ""}${
    fields.length > 0 ? "  " + fields.join(" ") : ""
  }`;
  return `${harmless(text)}\n`;
}
