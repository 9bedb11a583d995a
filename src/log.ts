/** Structured logs on stderr (and, for the daemon, logs/daemon.log): one JSON object per line, by pino. */
import { pino } from "pino";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export type LogLevel = typeof LOG_LEVELS[number];
export type LogFormat = "json" | "text";
export type Logger = pino.Logger;

/** Where finished lines go; each ends with a newline. */
export type LogSink = (line: string) => void;

const encoder = new TextEncoder();

/** Writes to stderr; a closed stderr must not end the daemon. */
export const stderrSink: LogSink = (line) => {
  try {
    Deno.stderr.writeSync(encoder.encode(line));
  } catch {
    // Nobody is left to tell.
  }
};

/** A person's form of a JSON log line: time, level, message, then the fields. */
export function asText(json: string): string {
  const { time, level, msg, ...rest } = JSON.parse(json);
  const fields = Object.entries(rest).map(([k, v]) => `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`);
  return `${time} ${String(level).toUpperCase().padEnd(5)} ${msg ?? ""}${
    fields.length ? "  " + fields.join(" ") : ""
  }\n`;
}

/** A logger that hands each line to every sink; `text` turns lines into a person's form for all of them. */
export function createLogger(
  options: { level?: LogLevel; format?: LogFormat; sinks?: LogSink[]; fields?: Record<string, unknown> } = {},
): Logger {
  const sinks = options.sinks ?? [stderrSink];
  const format = options.format ?? "json";
  return pino(
    {
      level: options.level ?? "info",
      base: options.fields ?? null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label: string) => ({ level: label }) },
    },
    {
      write(line: string) {
        const text = format === "text" ? asText(line) : line;
        for (const sink of sinks) sink(text);
      },
    },
  );
}
