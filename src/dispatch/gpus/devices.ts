/**
 * From cards to slots: which devices runs may get, and the number by which each is known. Pure
 * functions.
 */
import type { Card, Vendor } from "../../os/gpus/card.ts";
import type { GpuOption, Visible } from "../../os/gpus/gpu_option.ts";

/** What one slot stands for: a card, or a MIG device. */
export interface Device {
  /** Of the card or MIG device; "" if unknown. */
  uuid: string;
  vendor: Vendor;
  /** The card's device number. */
  card: number;
  /** The MIG device's number on its card. */
  instance: number | null;
  /** "" if unknown. */
  name: string;
  memoryMb: number | null;
}

/** A slot as the registry has it. */
export interface KnownSlot {
  slot: number;
  uuid: string;
  held: boolean;
}

export function devicesOf(cards: readonly Card[]): Device[] {
  return cards.flatMap(({ uuid, vendor, index: card, name, memoryMb, instances }): Device[] =>
    instances === null
      ? [{ uuid, vendor, card, instance: null, name, memoryMb }]
      : instances.map((part) => ({
        ...{ uuid: part.uuid, vendor, card, instance: part.index },
        ...{ name: `${name} MIG ${part.profile}`, memoryMb: part.memoryMb },
      }))
  );
}

/**
 * Names are device numbers, and UUIDs or their beginnings; a card's name stands for all its MIG
 * devices.
 */
function isNamed(device: Device, cards: readonly Card[], name: string): boolean {
  const card = cards.find(({ vendor, index }) => vendor === device.vendor && index === device.card);
  if (/^\d+$/.test(name)) return Number(name) === device.card;
  const uuids = [device.uuid, card?.uuid ?? ""].filter((uuid) => uuid !== "").flatMap((uuid) =>
    // ROCr's names for AMD's unique ids.
    uuid.startsWith("0x") ? [uuid, `GPU-${uuid.slice(2)}`] : [uuid]
  );
  return uuids.some((uuid) => uuid.toLowerCase().startsWith(name.toLowerCase()));
}

export interface Choice {
  devices: Device[];
  /** Names that `--gpus` gives and that are not there, and devices that the daemon may not see. */
  problems: string[];
}

/** What is offered of the cards that the tools list. */
export function chosen(cards: readonly Card[], option: GpuOption, visible: Visible): Choice {
  const all = devicesOf(cards);
  const problems = cards.filter(({ instances }) => instances?.length === 0)
    .map(({ index }) => `GPU ${index} is in MIG mode and has no MIG devices`);
  const mayBeSeen = (device: Device) =>
    visible[device.vendor]?.some((name) => isNamed(device, cards, name)) ?? true;
  const seen = all.filter(mayBeSeen);
  if (option.type === "auto") return { devices: seen, problems };
  if (option.type === "count") {
    if (seen.length < option.count) {
      const hidden = all.length - seen.length;
      problems.push(
        `--gpus ${option.count}: ${seen.length} ${seen.length === 1 ? "is" : "are"} there` +
          (hidden === 0 ? "" : `, and ${hidden} that the daemon's own ${variables(all)} hides`),
      );
    }
    return { devices: seen.slice(0, option.count), problems };
  }
  const devices: Device[] = [];
  for (const name of option.names) {
    const its = all.filter((device) => isNamed(device, cards, name));
    if (its.length === 0) problems.push(`--gpus: ${name} is not there`);
    else if (!its.some(mayBeSeen)) {
      problems.push(`--gpus: the daemon's own ${variables(its)} hides ${name}`);
    }
    devices.push(...its.filter((device) => mayBeSeen(device) && !devices.includes(device)));
  }
  return { devices, problems };
}

/** By which a vendor's programs see cards; "": by none. */
const VISIBLE_VARIABLE: Record<Vendor, string> = {
  nvidia: "CUDA_VISIBLE_DEVICES",
  amd: "HIP_VISIBLE_DEVICES",
  intel: "ZE_AFFINITY_MASK",
  apple: "",
};

const variables = (devices: readonly Device[]) =>
  [...new Set(devices.map(({ vendor }) => VISIBLE_VARIABLE[vendor]))].join(" or ");

/** What `--gpus` tells without a tool that would know it; for auto nothing. */
export function told(option: GpuOption, visible: Visible): Device[] {
  if (option.type === "auto") return [];
  const { nvidia } = visible;
  const names = option.type === "named"
    ? option.names.filter((name) => nvidia === undefined || nvidia.includes(name))
    : (nvidia ?? Array.from({ length: option.count }, (_, index) => String(index))).slice(
      0,
      option.count,
    );
  return names.map((name) => {
    const isNumber = /^\d+$/.test(name);
    return {
      uuid: isNumber ? "" : name,
      vendor: name.startsWith("0x") ? "amd" : "nvidia",
      card: isNumber ? Number(name) : -1,
      instance: null,
      name: "",
      memoryMb: null,
    };
  });
}

/**
 * A card's slot is its number, MIG device 2 of card 1 is slot 202; undefined for a device whose
 * card is not known.
 */
function usualSlot({ card, instance }: Device): number | undefined {
  if (card < 0) return undefined;
  return instance === null ? card : 100 * (card + 1) + instance;
}

/**
 * A device keeps its slot as long as it is known by its UUID, even if the tool numbers the cards
 * anew (a card has fallen off); a slot that a run holds never stands for another device.
 */
export function slotsFor(
  devices: readonly Device[],
  known: readonly KnownSlot[],
): Map<number, Device> {
  const slots = new Map<number, Device>();
  const holderOf = new Map(known.filter(({ held }) => held).map(({ slot, uuid }) => [slot, uuid]));
  const rest: Device[] = [];
  for (const device of devices) {
    const mine = device.uuid === ""
      ? undefined
      : known.find(({ uuid }) => uuid === device.uuid)?.slot;
    if (mine === undefined || slots.has(mine)) rest.push(device);
    else slots.set(mine, device);
  }
  for (const device of rest) {
    const usual = usualSlot(device);
    const isFree = (slot: number) =>
      !slots.has(slot) &&
      (!holderOf.has(slot) ||
        (slot === usual && (holderOf.get(slot) === "" || device.uuid === "")));
    let slot = usual ?? 0;
    while (!isFree(slot)) slot = slot < 1000 ? 1000 : slot + 1;
    slots.set(slot, device);
  }
  return new Map([...slots].sort(([a], [b]) => a - b));
}

/** "gpu 2", "gpu 1 MIG 0", with its name and UUID as far as they are known. */
export function textOf(slot: number, { card, instance, uuid, name }: Device): string {
  const number = card < 0 ? slot : card;
  const what = instance === null ? `gpu ${number}` : `gpu ${number} MIG ${instance}`;
  const more = [name, uuid].filter((text) => text !== "");
  return more.length === 0 ? what : `${what} (${more.join(", ")})`;
}

/**
 * The variables by which a worker sees these devices and no others. UUIDs cannot be misread; device
 * numbers mean the same as in nvidia-smi only in the order of the bus, which is not CUDA's own. HIP
 * knows numbers only.
 */
export function gpuVariables(
  slots: readonly number[],
  deviceOf: (slot: number) => Device | undefined,
  hasAmd: boolean,
): Record<string, string> {
  // An empty list means all cards to HIP.
  if (slots.length === 0) {
    return { CUDA_VISIBLE_DEVICES: "", ...(hasAmd ? { HIP_VISIBLE_DEVICES: "-1" } : {}) };
  }
  const devices = slots.map((slot) =>
    deviceOf(slot) ?? told({ type: "named", names: [String(slot)] }, ALL)[0]!
  );
  const numbers = devices.map(({ card }) => String(card)).join(",");
  if (devices.some(({ vendor }) => vendor === "amd")) {
    return { HIP_VISIBLE_DEVICES: numbers, CUDA_VISIBLE_DEVICES: numbers };
  }
  // Level Zero counts cards, and not their tiles, in this order of theirs only.
  if (devices.some(({ vendor }) => vendor === "intel")) {
    return { ZE_AFFINITY_MASK: numbers, ZE_FLAT_DEVICE_HIERARCHY: "COMPOSITE" };
  }
  if (devices.some(({ vendor }) => vendor === "apple")) return {};
  return {
    CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    CUDA_VISIBLE_DEVICES: devices.map(({ uuid, card }) => uuid === "" ? String(card) : uuid).join(
      ",",
    ),
  };
}

const ALL: Visible = {};
