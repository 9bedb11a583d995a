/** Variables that mosaic reads; a trailing `*` stands for any text. */
import { PASS_VARIABLE, PASSED_ON } from "../os/processes/inherited_environment.ts";
import { absolutePath } from "./find_option.ts";
import type { World } from "./world.ts";

/** Paths of mosaic's own files, and output settings. */
const OWN = [
  "MOSAIC_*",
  "HOME",
  "XDG_STATE_HOME",
  "NO_COLOR",
  "TERM",
  "COLUMNS",
  "LINES",
  "TMPDIR",
];

export const CLIENT_VARIABLES: readonly string[] = [
  ...OWN,
  "PATH",
  "CI",
  "SHELL",
  "LANG",
  "LC_*",
  "TZ",
];

export const PROXY_VARIABLES: readonly string[] = [...OWN, "PATH"];

/** Variables of an engine's jobs on its nodes (src/proxy/start/node_environment.ts). */
export const PLACED_VARIABLES: readonly string[] = [
  ...["SLURM_*", "SLURMD_NODENAME"],
  ...["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"],
];

const DAEMON_VARIABLES = [
  "NOTIFY_SOCKET",
  "WATCHDOG_USEC",
  "WATCHDOG_PID",
  "RUNTIME_DIRECTORY",
  "OTEL_*",
  "SLURM_CONF",
  "HIP_VISIBLE_DEVICES",
  "ROCR_VISIBLE_DEVICES",
];

/** Variables of OpenTelemetry with the address of a collector (src/observability/otlp/otlp.ts). */
export const COLLECTOR_VARIABLES = [
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
  "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
] as const;

/** The daemon also reads what it passes on to workers. */
export function daemonVariables(world: World): string[] {
  const further = (world.env(PASS_VARIABLE) ?? "").split(",").map((name) => name.trim()).filter((
    name,
  ) => name !== "");
  const names = [...OWN, ...DAEMON_VARIABLES];
  for (const pattern of [...PASSED_ON, ...further]) {
    // The runtime has no patterns that begin with a star, so the matching names that are set now
    // are listed.
    if (!pattern.startsWith("*")) names.push(pattern);
    else names.push(...world.envNames().filter((name) => name.endsWith(pattern.slice(1))));
  }
  return names;
}

/** Files that clients' variables name. */
export function tlsFiles(world: World): string[] {
  const named = ["MOSAIC_TLS_CA", "MOSAIC_TLS_CERT", "MOSAIC_TLS_KEY"].map((name) =>
    world.env(name)
  );
  return named.flatMap((file) => file ? [absolutePath(file, world.cwd)] : []);
}
