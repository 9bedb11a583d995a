/** What of OpenTelemetry is asked for, by the standard's environment variables. Loads nothing of it. */
export type Env = (name: string) => string | undefined;
export type Signal = "TRACES" | "METRICS";

/** Whether the environment asks for traces, or metrics, over OTLP. */
export function exportWanted(env: Env, signal: Signal): boolean {
  if (env("OTEL_SDK_DISABLED")?.toLowerCase() === "true" || env(`OTEL_${signal}_EXPORTER`) === "none") return false;
  return Boolean(env(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`) || env("OTEL_EXPORTER_OTLP_ENDPOINT"));
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

/** The exporter that the environment asks for, of those that a signal has. @throws Error for a protocol that is not supported. */
export async function exporterFor<T>(
  env: Env,
  signal: Signal,
  exporters: Record<Protocol, () => Promise<new () => T>>,
): Promise<T> {
  const protocol = protocolOf(env, signal);
  if (protocol === "grpc") (await import("./ended_connections.ts")).noticeEndedConnections();
  return new (await exporters[protocol]())();
}

/** Milliseconds from a variable. @throws Error when it is no positive number. */
export function millisecondsOf(env: Env, name: string, byDefault: number): number {
  const text = env(name);
  if (text === undefined || text === "") return byDefault;
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new Error(`${name} "${text}" is no number of milliseconds above 0`);
  return value;
}

/** A collector that does not answer must not hold up a daemon that stops. */
const LAST_EXPORT_MS = 2000;

/** Waits for a last export, but not for long. */
export async function lastExport(exported: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const enough = new Promise<void>((resolve) => timer = setTimeout(resolve, LAST_EXPORT_MS));
  await Promise.race([exported, enough]);
  clearTimeout(timer);
}
