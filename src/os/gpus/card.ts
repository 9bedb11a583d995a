/**
 * What the drivers' tools say of a host's GPUs: one form for all vendors. Null: the tool does not
 * say.
 */

export type Vendor = "nvidia" | "amd" | "intel" | "apple";

export interface Card {
  vendor: Vendor;
  /** The tool's number of it. NVIDIA's is in the order of the PCI bus. */
  index: number;
  /**
   * Such as "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"; of AMD, "0x719d230578348e8c"; "" if the
   * tool does not say.
   */
  uuid: string;
  /** Such as "NVIDIA A100-SXM4-40GB". */
  name: string;
  memoryMb: number | null;
  usedMb: number | null;
  /** Share of the time in which a kernel ran, 0 to 100. */
  percent: number | null;
  watts: number | null;
  celsius: number | null;
  /** Errors of its memory that could not be corrected, since the driver was loaded. */
  eccErrors: number | null;
  /** What slows it down beyond its usual limit of power: heat, a power brake; "": nothing. */
  slowedBy: string | null;
  /** Its place on the PCI bus, such as "0000:3b:00"; "" if the tool does not say. */
  bus: string;
  /** Of a card in MIG mode: its parts. Such a card is never given to a run as a whole. */
  instances: readonly Instance[] | null;
}

/** A MIG device. */
export interface Instance {
  /** Its number on its card. */
  index: number;
  uuid: string;
  /** Such as "1g.10gb". */
  profile: string;
  memoryMb: number | null;
}

export interface GpuProcess {
  pid: number;
  /** The program's name without its directory; "" if it may not be known. */
  name: string;
  /** Of the card or instance; "" if the tool does not say on which it is. */
  uuid: string;
  usedMb: number | null;
}

/** How two cards of one vendor are connected. */
export interface Link {
  vendor: Vendor;
  /** Numbers of the cards. */
  cards: readonly [number, number];
  /** The tool's word for it, such as "NV12", "PIX", "XGMI". */
  name: string;
  /** Higher is closer. */
  closeness: number;
}

/** What a tool does not say of a card. */
export const UNSAID = { eccErrors: null, slowedBy: null, bus: "" } as const;

export interface Answer {
  cards: Card[];
  /** The tool has answered for all cards: one that it does not list is not there. */
  complete: boolean;
  /** What it said of cards that it cannot ask, or why it failed. */
  problem: string;
}

/** Fields such as "[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!" are null. */
export function figure(field: string | undefined): number | null {
  const text = field?.trim() ?? "";
  const value = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  return Number.isFinite(value) ? value : null;
}

/** Text of a field; "" for "[N/A]" and the like. */
export function word(field: string | undefined): string {
  const text = (field ?? "").trim();
  return /^(\[.*\]|N\/A|ERR!|None|Unknown)$/i.test(text) ? "" : text.slice(0, 200);
}
