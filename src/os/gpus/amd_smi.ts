/**
 * Reads the JSON of AMD's amd-smi, where there is no rocm-smi. Versions wrap lists and figures
 * differently.
 */
import { type Answer, type Card, figure, type GpuProcess, UNSAID, word } from "./card.ts";
import type { Output } from "./nvidia_smi.ts";

export const CARD_QUERY = ["amd-smi", "metric", "--json"];
/** UUIDs. */
export const LIST = ["amd-smi", "list", "--json"];
/** Names. */
export const NAMES = ["amd-smi", "static", "--asic", "--json"];
export const PROCESS_QUERY = ["amd-smi", "process", "--json"];

/** What does not change while the card is there, by card number. */
export type Known = ReadonlyMap<number, { uuid: string; name: string }>;

export function parseKnown(list: string, names: string): Known {
  const market = new Map(
    entries(names).map((card) => [card["gpu"], word(text(at(card, "asic", "market_name")))]),
  );
  return new Map(
    entries(list).flatMap((card) => {
      const { gpu } = card;
      return typeof gpu === "number"
        ? [[gpu, { uuid: word(text(card["uuid"])), name: market.get(gpu) ?? "" }]]
        : [];
    }),
  );
}

export function parseCards({ code, stdout, stderr }: Output, known: Known): Answer {
  const found = entries(stdout);
  const said = `${stderr.trim()} ${found.length === 0 ? stdout.trim() : ""}`.trim().split("\n")[0]!
    .slice(0, 300);
  const cards = found.flatMap((card): Card[] => {
    const { gpu } = card;
    if (typeof gpu !== "number") return [];
    const { uuid = "", name = "" } = known.get(gpu) ?? {};
    return [{
      ...UNSAID,
      ...{ vendor: "amd", index: gpu, uuid, name, instances: null },
      memoryMb: megabytes(at(card, "mem_usage", "total_vram")),
      usedMb: megabytes(at(card, "mem_usage", "used_vram")),
      percent: value(at(card, "usage", "gfx_activity")),
      watts: value(at(card, "power", "socket_power")) ??
        value(at(card, "power", "average_socket_power")),
      celsius: value(at(card, "temperature", "edge")) ?? value(at(card, "temperature", "hotspot")),
      eccErrors: value(at(card, "ecc", "total_uncorrectable_count")),
    }];
  }).sort((a, b) => a.index - b.index).slice(0, 64);
  const failed = code !== 0 || cards.length === 0;
  return {
    cards,
    complete: !failed,
    problem: failed ? `amd-smi: ${said || `exited with ${code}`}` : "",
  };
}

export function parseProcesses(stdout: string, known: Known): GpuProcess[] {
  return entries(stdout).flatMap((card) => {
    const list = card["process_list"];
    const uuid = known.get(card["gpu"] as number)?.uuid ?? "";
    return (Array.isArray(list) ? list : []).flatMap((entry) => {
      const info = isObject(entry) ? entry["process_info"] : undefined;
      if (!isObject(info) || typeof info["pid"] !== "number") return [];
      const used = at(info, "memory_usage", "vram_mem") ?? info["mem_usage"];
      const name = word(text(info["name"])).split("/").at(-1)!;
      return [{ pid: info["pid"], name, uuid, usedMb: megabytes(used) }];
    });
  }).slice(0, 4096);
}

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const text = (value: unknown) => typeof value === "string" ? value : "";

function at(object: Json, first: string, second: string): unknown {
  const inner = object[first];
  return isObject(inner) ? inner[second] : undefined;
}

/** `72`, `{"value": 72, "unit": "%"}`, "N/A". */
function value(given: unknown): number | null {
  const bare = isObject(given) ? given["value"] : given;
  return typeof bare === "number" && Number.isFinite(bare) ? bare : figure(text(bare));
}

function megabytes(given: unknown): number | null {
  const amount = value(given);
  const unit = isObject(given) ? text(given["unit"]).toUpperCase() : "MB";
  if (amount === null) return null;
  const size = { B: 1 / (1 << 20), KB: 1 / 1024, MB: 1, GB: 1024 }[unit.replace("IB", "B")];
  return size === undefined ? null : amount * size;
}

/** A list of cards, alone or in `gpu_data`; warnings may stand before it. */
function entries(output: string): Json[] {
  const from = output.search(/^[ \t]*[[{]/m);
  if (from < 0 || output.length - from > 8 << 20) return [];
  try {
    const read: unknown = JSON.parse(output.slice(from));
    const list = isObject(read) ? read["gpu_data"] : read;
    return Array.isArray(list) ? list.filter(isObject) : [];
  } catch {
    return [];
  }
}
