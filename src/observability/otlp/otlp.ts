/** Reads OpenTelemetry's standard environment variables. Does not load OpenTelemetry. */
import { SENT_BY_DAEMON } from "../../wire/sender_headers.ts";

export type Env = (name: string) => string | undefined;
export type Signal = "TRACES" | "METRICS";

/** Whether export of traces, or metrics, over OTLP is configured. */
export function exportWanted(env: Env, signal: Signal): boolean {
  if (
    env("OTEL_SDK_DISABLED")?.toLowerCase() === "true" || env(`OTEL_${signal}_EXPORTER`) === "none"
  ) return false;
  return Boolean(
    env(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`) || env("OTEL_EXPORTER_OTLP_ENDPOINT"),
  );
}

const PROTOCOLS = ["http/protobuf", "http/json", "grpc"] as const;
type Protocol = typeof PROTOCOLS[number];

function protocolOf(env: Env, signal: Signal): Protocol {
  const own = `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`;
  const name = env(own) ? own : "OTEL_EXPORTER_OTLP_PROTOCOL";
  const given = env(name) || "http/protobuf";
  const protocol = PROTOCOLS.find((p) => p === given);
  if (protocol !== undefined) return protocol;
  throw new Error(`${name} is "${given}": give one of ${PROTOCOLS.join(", ")}`);
}

/** The configured exporter of a signal. @throws Error for an unsupported protocol */
export async function exporterFor<T>(
  env: Env,
  signal: Signal,
  exporters: Record<
    Protocol,
    () => Promise<new (config?: { headers?: Record<string, string>; timeoutMillis?: number }) => T>
  >,
): Promise<T> {
  const protocol = protocolOf(env, signal);
  if (protocol === "grpc") {
    (await import("./ended_connections.ts")).noticeEndedConnections();
    // The exporter gets gRPC by `require`, which finds no package beside an executable
    // (scripts/compile/build.ts).
    Object.assign(globalThis, {
      MOSAIC_REQUIRED: { "@grpc/grpc-js": (await import("@grpc/grpc-js")).default },
    });
  }
  // Over gRPC the path is the collector's own; over HTTP it may be any.
  return new (await exporters[protocol]())(
    protocol === "grpc" ? undefined : { headers: { ...SENT_BY_DAEMON } },
  );
}

/** Milliseconds from a variable. @throws Error unless it is a positive number */
export function millisecondsOf(env: Env, name: string, byDefault: number): number {
  const text = env(name);
  if (text === undefined || text === "") return byDefault;
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) {
    throw new Error(`${name} is "${text}": must be a number of milliseconds above 0`);
  }
  return value;
}

/** An unreachable collector must not delay the daemon's stop. */
const LAST_EXPORT_MS = 2000;

/** Waits for the last export, with a timeout. */
export async function lastExport(exported: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const enough = new Promise<void>((resolve) => timer = setTimeout(resolve, LAST_EXPORT_MS));
  await Promise.race([exported, enough]);
  clearTimeout(timer);
}
