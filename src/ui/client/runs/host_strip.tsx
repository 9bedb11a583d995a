/** GPU slots and the host's load, above the list of runs. */
import type { HostLine } from "../../api/page_json.ts";
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
  host: HostLine | undefined;
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

function Meters({ host, stepsPerSecond, nameOf }: Props & { host: HostLine }) {
  const used = host.gpus.filter((g) => g.run_id !== null).length;
  const load = host.load_average[0] ?? 0;
  const memory = host.memory_bytes - host.memory_available_bytes;
  const disk = host.disk_bytes - host.disk_available_bytes;
  return (
    <>
      <Meter label="GPUs" kind="gpus">
        <span>{host.gpus.length === 0 ? "none" : `${used} of ${host.gpus.length} in use`}</span>
        <span class="slots">
          {host.gpus.map(({ slot, name, run_id }) => {
            const title = `GPU ${slot}${name ? ` (${name})` : ""}: ${run_id === null ? "free" : nameOf(run_id)}`;
            return run_id === null ? <span key={slot} class="slot" title={title}>{slot}</span> : (
              <a
                key={slot}
                class="slot used"
                title={title}
                aria-label={title}
                href={`/runs/${encodeURIComponent(run_id)}`}
              >
                {slot}
              </a>
            );
          })}
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
