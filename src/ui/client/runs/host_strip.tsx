/** GPU slots and the host's load, above the list of runs. */
import { gpuShareText } from "../../../runs/fields/run_texts.ts";
import type { HostJson } from "../../../runs/fields/host_json.ts";
import { bytes, compact } from "../../../base/text/format.ts";
import type { ComponentChildren } from "../parts/preact.ts";

interface MeterProps {
  label: string;
  title?: string;
  kind?: string;
  /** 0 to 1; undefined draws no bar. */
  part?: number;
  children: ComponentChildren;
}

function Meter({ label, title, kind = "", part, children }: MeterProps) {
  return (
    <div class={`meter ${kind}`} title={title}>
      <span class="label">{label}</span>
      {children}
      {part !== undefined && (
        <span class="bar" aria-hidden="true" data-full={part > 0.9 ? "" : undefined}>
          <span style={{ width: `${Math.round(Math.min(1, Math.max(0, part)) * 100)}%` }} />
        </span>
      )}
    </div>
  );
}

interface Props {
  host: HostJson | undefined;
  stepsPerSecond: number;
  nameOf(id: string): string;
}

export function HostStrip({ host, stepsPerSecond, nameOf }: Props) {
  return (
    <section class="host" aria-label="Host" tabIndex={0}>
      {host && <Meters host={host} stepsPerSecond={stepsPerSecond} nameOf={nameOf} />}
    </section>
  );
}

type Gpu = HostJson["gpus"][number];

/** "GPU 1 (H200): train-a, 105 of 140 GiB, 97 %, 598 W, 58 °C; others: pid 4123 of ada, python". */
export function gpuTitle(
  { slot, name, run_id, shares, others, lost, health, link, ...figures }: Gpu,
  nameOf: (id: string) => string,
): string {
  const { used_mb, memory_mb, percent, watts, celsius } = figures;
  const size = (mb: number | null) => mb === null ? "?" : bytes(mb * 1024 * 1024);
  const known = [
    lost ? "the card does not answer" : "",
    used_mb === null ? "" : `${size(used_mb)} of ${size(memory_mb)}`,
    ...[[percent, "%"], [watts, "W"], [celsius, "°C"]].map(([n, unit]) =>
      typeof n === "number" ? `${Math.round(n)} ${unit}` : ""
    ),
    link,
    health,
  ].filter((text) => text !== "");
  const sharers = shares.map((share) => `${nameOf(share.run_id)} (${gpuShareText(share)})`);
  const what = `GPU ${slot}${name ? ` (${name})` : ""}: ${
    [run_id === null ? sharers.join("; ") || "free" : nameOf(run_id), ...known].join(", ")
  }`;
  return others === "" ? what : `${what}; others: ${others}`;
}

/** A card: the part of its memory in use is filled. */
function Slot({ gpu, nameOf }: { gpu: Gpu; nameOf(id: string): string }) {
  const title = gpuTitle(gpu, nameOf);
  const part = gpu.used_mb === null || !gpu.memory_mb
    ? 0
    : Math.min(1, gpu.used_mb / gpu.memory_mb);
  const kind = gpu.lost || gpu.health !== "" ? " lost" : gpu.others === "" ? "" : " others";
  const inside = (
    <>
      {part > 0 && (
        <span class="memory" aria-hidden="true" style={{ height: `${Math.round(part * 100)}%` }} />
      )}
      <span class="number">{gpu.slot}</span>
    </>
  );
  // A shared card leads to the first of its runs; the title names all.
  const run = gpu.run_id ?? gpu.shares[0]?.run_id;
  if (run === undefined) return <span class={`slot${kind}`} title={title}>{inside}</span>;
  const href = `/runs/${encodeURIComponent(run)}`;
  return (
    <a
      class={`slot used${gpu.run_id === null ? " shared" : ""}${kind}`}
      title={title}
      aria-label={title}
      href={href}
    >
      {inside}
    </a>
  );
}

function Meters({ host, stepsPerSecond, nameOf }: Props & { host: HostJson }) {
  const used = host.gpus.filter((g) => g.run_id !== null || g.shares.length > 0).length;
  const load = host.load_average[0] ?? 0;
  const memory = host.memory_bytes - host.memory_available_bytes;
  const disk = host.disk_bytes - host.disk_available_bytes;
  return (
    <>
      <Meter label="GPUs" kind="gpus">
        <span>{host.gpus.length === 0 ? "none" : `${used} of ${host.gpus.length} in use`}</span>
        <span class="slots">
          {host.gpus.map((gpu) => <Slot key={gpu.slot} gpu={gpu} nameOf={nameOf} />)}
        </span>
      </Meter>
      <Meter
        label="Load"
        part={host.cpus > 0 ? load / host.cpus : 0}
        title="Load average over one minute, and processors"
      >
        <span>{`${load.toFixed(1)} of ${host.cpus}`}</span>
      </Meter>
      <Meter label="Memory" part={memory / (host.memory_bytes || 1)}>
        <span>{`${bytes(memory)} of ${bytes(host.memory_bytes)}`}</span>
      </Meter>
      <Meter label="Disk" part={disk / (host.disk_bytes || 1)} title={host.state_dir}>
        <span>{`${bytes(host.disk_available_bytes)} free`}</span>
      </Meter>
      <Meter label="Telemetry">
        <span>{`${compact(stepsPerSecond)} steps/s`}</span>
        <span class="sub">{bytes(host.telemetry_bytes)}</span>
      </Meter>
    </>
  );
}
