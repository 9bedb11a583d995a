/** Logs OpenTelemetry's own errors, rate-limited: a collector may be unreachable for days. */
import { diag, DiagLogLevel } from "@opentelemetry/api";
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";

const INTERVAL_MS = 10 * 60_000;

export function reportExportTrouble(log: Logger): void {
  let warnedAt = -Infinity;
  const warn = (message: string, ...more: unknown[]) => {
    if (performance.now() - warnedAt < INTERVAL_MS) return;
    warnedAt = performance.now();
    log.warn(
      { error: [message, ...more.map(messageOf)].join(" ").slice(0, 500) },
      "OpenTelemetry: an export failed",
    );
  };
  const silent = () => {};
  diag.setLogger(
    { error: warn, warn, info: silent, debug: silent, verbose: silent },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
