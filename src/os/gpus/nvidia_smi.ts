/**
 * Reads the output of nvidia-smi. Other lines than rows (warnings, "No devices were found") are not
 * rows.
 */
import {
  type Answer,
  type Card,
  figure,
  type GpuProcess,
  type Instance,
  type Link,
  word,
} from "./card.ts";

const FIELDS = [
  "index",
  "uuid",
  "name",
  "memory.total",
  "memory.used",
  "utilization.gpu",
  "power.draw",
] as const;
/** Not known to every driver. */
const NEWER = [
  "temperature.gpu",
  "mig.mode.current",
  "pci.bus_id",
  "ecc.errors.uncorrected.volatile.total",
  // From driver 535; before it, THROTTLE_REASONS.
  "clocks_event_reasons.active",
] as const;
const THROTTLE_REASONS = "clocks_throttle_reasons.active";
const FORMAT = "--format=csv,noheader,nounits";

/** @param unknown fields that the driver does not know */
export function cardQuery(
  unknown: ReadonlySet<string>,
): { argv: string[]; fields: readonly string[] } {
  const newer = unknown.has("clocks_event_reasons.active") ? [...NEWER, THROTTLE_REASONS] : NEWER;
  const fields = [...FIELDS, ...newer.filter((field) => !unknown.has(field))];
  return { argv: ["nvidia-smi", `--query-gpu=${fields.join(",")}`, FORMAT], fields };
}

export const PROCESS_QUERY = [
  "nvidia-smi",
  "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
  FORMAT,
];
/** Lists MIG devices under their cards. */
export const LIST = ["nvidia-smi", "-L"];

/** How the cards are connected. */
export const TOPOLOGY = ["nvidia-smi", "topo", "-m"];

/** A driver names the first field that it does not know. */
export function unknownField({ stdout, stderr }: Output): string | undefined {
  const [, field] = /Field "([\w.]{1,80})" is not a valid field to query/.exec(stdout + stderr) ??
    [];
  return [...NEWER, THROTTLE_REASONS].find((newer) => newer === field);
}

/** Bits of the reasons for which a card runs slower than it could; its limit of power is usual. */
const SLOW: readonly [bit: number, text: string][] = [
  [0x20, "heat"],
  [0x40, "heat (hardware)"],
  [0x80, "power brake"],
];
const HW_SLOWDOWN = 0x8;

function slowedBy(field: string | undefined): string | null {
  if (!/^0x[0-9a-f]{1,16}$/i.test(field ?? "")) return null;
  const bits = Number(field);
  const found = SLOW.filter(([bit]) => Math.floor(bits / bit) % 2 === 1).map(([, text]) => text);
  // The hardware's general reason, if no special one stands beside it.
  if (found.length === 0 && Math.floor(bits / HW_SLOWDOWN) % 2 === 1) return "hardware";
  return found.join(", ");
}

/** "00000000:3B:00.0", "PCI:0000:3b:00" as "0000:3b:00". */
export function busOf(text: string): string {
  const [, domain, place] = /([0-9a-f]{4}):([0-9a-f]{2}:[0-9a-f]{2})/i.exec(text) ?? [];
  return domain === undefined ? "" : `${domain}:${place}`.toLowerCase();
}

const LOST = /GPU is lost|GPU requires reset/i;
const MOST_CARDS = 64;
/** Of those that are searched for names. */
const LONGEST_LINE = 1000;

export interface Output {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * The cards that answer; a card that is lost is in `problem`. Some drivers print the healthy rows
 * and exit with an error for the lost card, others exit with 0, others print a row whose fields say
 * so.
 */
export function parseCards(
  { code, stdout, stderr }: Output,
  fields: readonly string[],
): Answer & { divided: boolean } {
  const cards: Card[] = [];
  const problems: string[] = [];
  let divided = false;
  for (const line of stdout.split("\n")) {
    const values = line.split(",").map((field) => field.trim());
    if (!/^\d+$/.test(values[0] ?? "") || values.length !== fields.length) {
      if (line.trim() !== "") problems.push(line.trim());
      continue;
    }
    const of = (name: string) => values[fields.indexOf(name)];
    const lost = values.find((value) => LOST.test(value));
    if (lost !== undefined) {
      problems.push(`GPU ${values[0]}: ${lost.replace(/^\[|\]$/g, "")}`);
      continue;
    }
    const isDivided = of("mig.mode.current") === "Enabled";
    divided ||= isDivided;
    cards.push({
      vendor: "nvidia",
      index: Number(values[0]),
      uuid: word(of("uuid")),
      name: word(of("name")),
      memoryMb: figure(of("memory.total")),
      usedMb: figure(of("memory.used")),
      percent: figure(of("utilization.gpu")),
      watts: figure(of("power.draw")),
      celsius: figure(of("temperature.gpu")),
      eccErrors: figure(of("ecc.errors.uncorrected.volatile.total")),
      slowedBy: slowedBy(of("clocks_event_reasons.active") ?? of(THROTTLE_REASONS)),
      bus: busOf(of("pci.bus_id") ?? ""),
      instances: isDivided ? [] : null,
    });
  }
  for (const line of stderr.split("\n")) if (line.trim() !== "") problems.push(line.trim());
  const none = problems.some((line) => /^No devices were found/i.test(line));
  const problem = problems.filter((line) => !/^No devices were found/i.test(line)).slice(0, 4).join(
    "; ",
  ).slice(0, 500);
  const unlisted = problems.some((line) =>
    /GPU/.test(line) && !/^(GPU \d+: )?(WARNING|Warning)/.test(line)
  );
  return {
    cards: cards.slice(0, MOST_CARDS),
    complete: (code === 0 && !unlisted) || (none && cards.length === 0),
    problem: code !== 0 && problem === "" && !none ? `nvidia-smi exited with ${code}` : problem,
    divided,
  };
}

const CARD_LINE = /^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)/;
const INSTANCE_LINE = /^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)/;

/** Adds the MIG devices of `nvidia-smi -L` to cards in MIG mode. */
export function withInstances(cards: readonly Card[], list: string): Card[] {
  const found = new Map<number, Instance[]>();
  let card: Instance[] | undefined;
  for (const whole of list.split("\n")) {
    const line = whole.slice(0, LONGEST_LINE);
    const [, index] = CARD_LINE.exec(line) ?? [];
    if (index !== undefined) found.set(Number(index), card = []);
    const [, profile, at, uuid] = INSTANCE_LINE.exec(line) ?? [];
    if (profile === undefined || card === undefined || card.length >= 64) continue;
    card.push({ index: Number(at), uuid: uuid!, profile, memoryMb: memoryOf(profile) });
  }
  return cards.map((card) =>
    card.instances === null ? card : { ...card, instances: found.get(card.index) ?? [] }
  );
}

/** Profiles name the memory: "1c.3g.20gb", "1g.10gb+me". */
function memoryOf(profile: string): number | null {
  const [, gb] = /(\d+)gb/.exec(profile) ?? [];
  return gb === undefined ? null : Number(gb) * 1024;
}

export function parseProcesses(stdout: string): GpuProcess[] {
  return stdout.split("\n").flatMap((line) => {
    const [uuid = "", pid = "", ...rest] = line.split(",").map((field) => field.trim());
    if (!/^\d+$/.test(pid) || rest.length < 2) return [];
    const name = word(rest.slice(0, -1).join(","));
    return [{
      pid: Number(pid),
      name: name.split(/[\\/]/).at(-1)!,
      uuid: word(uuid),
      usedMb: figure(rest.at(-1)),
    }];
  }).slice(0, 4096);
}

/** From the closest: through one PCIe switch, several, the host's bridge, a NUMA node, and beyond. */
const PCIE = ["PIX", "PXB", "PHB", "NODE", "SYS"];

/** Of `nvidia-smi topo -m`: a matrix; other devices (NICs) stand in it, too. */
export function parseTopology(output: string): Link[] {
  // deno-lint-ignore no-control-regex
  const lines = output.slice(0, 1 << 20).replace(/\x1b\[[\d;]{0,10}m/g, "").split("\n");
  const cells = (line: string) => line.split(/\t| {2,}/).map((cell) => cell.trim()).filter(Boolean);
  const head = lines.find((line) => /^\s*GPU\d+\s+GPU\d+/.test(line));
  const columns = cells(head ?? "");
  return lines.flatMap((line): Link[] => {
    const [row, ...values] = cells(line);
    const [, from] = /^GPU(\d{1,4})$/.exec(row ?? "") ?? [];
    if (from === undefined || line === head) return [];
    return values.slice(0, columns.length).flatMap((name, at): Link[] => {
      const [, to] = /^GPU(\d{1,4})$/.exec(columns[at]!) ?? [];
      const [, links] = /^NV(\d{1,3})$/.exec(name) ?? [];
      const pcie = PCIE.indexOf(name);
      if (to === undefined || Number(from) >= Number(to) || (links === undefined && pcie < 0)) {
        return [];
      }
      const closeness = links === undefined ? PCIE.length - pcie : 10 + Number(links);
      return [{ vendor: "nvidia", cards: [Number(from), Number(to)], name, closeness }];
    });
  }).slice(0, MOST_CARDS * MOST_CARDS);
}
