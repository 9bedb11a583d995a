/** Structured logs on stderr (and, for the daemon, logs/daemon.log): one JSON object per line, by pino. */
import { pino } from "pino";
import { type LogFormat, type LogLevel, type LogSink, stderrSink, textLine } from "./log_line.ts";

export type Logger = pino.Logger;

/** A logger that writes each line to every sink, as JSON or as text for people. */
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
        const text = format === "text" ? textLine(JSON.parse(line)) : line;
        for (const sink of sinks) sink(text);
      },
    },
  );
}
