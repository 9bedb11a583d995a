/** The text output of `mosaic status`. */
import { RUN_STATES } from "../../registry/lifecycle/lifecycle.ts";
import { bytes, duration } from "../../base/text/format.ts";
import type { HostJson } from "../../runs/fields/host_json.ts";
import { facts } from "./table.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

export function statusPage(
  host: HostJson,
  { now, color }: { now: number; color: boolean },
): string {
  const up = host.started_at === null ? "" : `, up ${duration(now - Date.parse(host.started_at))}`;
  const states = RUN_STATES.filter((s) => (host.runs_by_state[s] ?? 0) > 0).map((s) =>
    `${host.runs_by_state[s]} ${stateWord(s).toLowerCase()}`
  );
  const free = host.gpus.filter((g) => g.run_id === null && g.shares.length === 0).length;
  return facts([
    ["daemon", `mosaic ${host.version}, pid ${host.pid}${up}`],
    ["listens on", host.listen],
    ["page", host.http === "" ? "" : `${host.tls ? "https" : "http"}://${host.http}/`],
    ["state", host.state_dir],
    ["runs", states.length === 0 ? "none" : states.join(", ")],
    ["gpus", host.gpus.length === 0 ? "none" : `${free} of ${host.gpus.length} free`],
    ...host.gpus.map((g) =>
      [
        `  slot ${g.slot}`,
        [g.name, g.run_id ?? (g.shares.map((share) => share.run_id).join(", ") || "free")].filter((
          t,
        ) => t !== "").join(
          ", ",
        ),
      ] as const
    ),
    ["load", `${host.load_average.map((l) => l.toFixed(2)).join(" ")} on ${host.cpus} cores`],
    ["memory", `${bytes(host.memory_available_bytes)} of ${bytes(host.memory_bytes)} available`],
    ["disk", `${bytes(host.disk_available_bytes)} of ${bytes(host.disk_bytes)} available`],
    ["telemetry", bytes(host.telemetry_bytes)],
    ["daemon memory", bytes(host.rss_bytes)],
  ], color);
}
