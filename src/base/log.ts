/**
 * Structured logs: one line per message, as a JSON object or as text for people. Loading a library
 * for this took longer than the rest of a proxy's start.
 */
import {
  LOG_LEVELS,
  type LogFormat,
  type LogLevel,
  type LogSink,
  stderrSink,
  textLine,
} from "./log_line.ts";

type Write = {
  (message: string): void;
  /** A field that is undefined is left out. */
  (fields: Record<string, unknown>, message: string): void;
};

export type Logger = Readonly<Record<LogLevel, Write>>;

/** Values that JSON cannot express. */
function loggable(_name: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  return value instanceof Error ? value.stack ?? value.message : value;
}

const silent: Write = () => {};

/**
 * A logger that writes each line of its level or above to every sink.
 *
 * @param options `level`: `info` by default. `fields`: on every line. `sinks`: stderr by default
 */
export function createLogger(
  options: {
    level?: LogLevel;
    format?: LogFormat;
    sinks?: readonly LogSink[];
    fields?: Record<string, unknown>;
  } = {},
): Logger {
  const sinks = options.sinks ?? [stderrSink];
  const render = options.format === "text"
    ? textLine
    : (record: Record<string, unknown>) => `${JSON.stringify(record, loggable)}\n`;
  const lowest = LOG_LEVELS.indexOf(options.level ?? "info");
  const write =
    (level: LogLevel): Write => (first: string | Record<string, unknown>, message?: string) => {
      const fields = typeof first === "string" ? { msg: first } : { ...first, msg: message };
      const line = render({ level, time: new Date().toISOString(), ...options.fields, ...fields });
      for (const sink of sinks) sink(line);
    };
  const writers = LOG_LEVELS.map((level, i) =>
    [level, i < lowest ? silent : write(level)] as const
  );
  return Object.fromEntries(writers) as Record<LogLevel, Write>;
}
