/** Sinks of log lines, and the text format for people. */
import { escapeControl, escapeControlLines } from "./text/terminal_text.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export type LogLevel = typeof LOG_LEVELS[number];
export type LogFormat = "json" | "text";

/** Where finished lines go; each ends with a newline. */
export type LogSink = (line: string) => void;

const encoder = new TextEncoder();

/** Writes to stderr; a closed stderr must not end the process. */
export const stderrSink: LogSink = (line) => {
  try {
    // JSON does not escape all control characters.
    const shown = Deno.stderr.isTerminal() ? escapeControlLines(line) : line;
    Deno.stderr.writeSync(encoder.encode(shown));
  } catch {
    // stderr is closed: nowhere to report it.
  }
};

/** A log record as text: time, level, message, fields. */
export function textLine({ time, level, msg, ...rest }: Record<string, unknown>): string {
  const fields = Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  const text = `${time} ${String(level).toUpperCase().padEnd(5)} ${msg ?? ""}${
    fields.length > 0 ? "  " + fields.join(" ") : ""
  }`;
  return `${escapeControl(text)}\n`;
}
