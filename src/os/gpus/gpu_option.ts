/**
 * Which of the host's GPUs the daemon gives to runs: `--gpus`, and the variables that restrict the
 * daemon itself.
 */
import { MosaicError } from "../../base/errors.ts";
import type { Vendor } from "./card.ts";

export type GpuOption =
  | { type: "auto" }
  /** The first so many that the daemon may see. */
  | { type: "count"; count: number }
  /**
   * Device numbers such as "2", and UUIDs or their beginnings such as "GPU-8932f937", "MIG-…",
   * "0x719d…".
   */
  | { type: "named"; names: string[] };

const MOST_SLOTS = 64;
const UUID =
  /^(GPU-|MIG-)[0-9a-zA-Z][\w\-/]{3,99}$|^0x[0-9a-fA-F]{4,16}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Reads `--gpus auto|N|i,j,…|UUID,…`. A single number is a count; a list of numbers has a comma, so
 * that `2,` is device 2 alone.
 *
 * @throws {MosaicError} `invalid_argument`
 */
export function parseGpuOption(text: string): GpuOption {
  if (text === "auto") return { type: "auto" };
  const wrong = (why: string) =>
    new MosaicError("invalid_argument", `--gpus ${JSON.stringify(text)}: ${why}`, {
      hint:
        'Give "auto", a count such as 2, device numbers such as 0,2 (one device alone: "2,"), or UUIDs of cards and MIG ' +
        "devices, as nvidia-smi -L prints them.",
    });
  const names = text.split(",").map((part) => part.trim()).filter((part) => part !== "");
  if (names.length === 0 || names.some((name) => !/^\d+$/.test(name) && !UUID.test(name))) {
    throw wrong("neither auto, nor a count, nor a list of device numbers and UUIDs");
  }
  if (!text.includes(",") && /^\d+$/.test(text)) {
    if (Number(text) > MOST_SLOTS) throw wrong(`more than ${MOST_SLOTS} GPUs`);
    return { type: "count", count: Number(text) };
  }
  const plain = names.map((name) => /^\d+$/.test(name) ? String(Number(name)) : name);
  if (new Set(plain).size !== plain.length) throw wrong("a device is given twice");
  if (plain.some((name) => /^\d+$/.test(name) && Number(name) > 1023)) {
    throw wrong("a device number above 1023");
  }
  return { type: "named", names: plain };
}

/** What the daemon itself may see, by vendor; undefined: everything. */
export type Visible = { [vendor in Vendor]?: string[] | undefined };

/** Names end at the first that is no device, as in CUDA. "" and "NoDevFiles" are none. */
function listed(value: string | undefined): string[] | undefined {
  if (value === undefined) return undefined;
  const names = value.split(",").map((name) => name.trim());
  const end = names.findIndex((name) => !/^\d+$/.test(name) && !UUID.test(name));
  return end < 0 ? names : names.slice(0, end);
}

export function visibleOf(env: Readonly<Record<string, string>>): Visible {
  const nvidia = listed(env.CUDA_VISIBLE_DEVICES);
  const outer = listed(env.ROCR_VISIBLE_DEVICES);
  const inner = listed(env.HIP_VISIBLE_DEVICES);
  // The inner numbers count within the outer list.
  const amd = outer === undefined || inner === undefined
    ? outer ?? inner
    : inner.flatMap((name) => /^\d+$/.test(name) ? outer[Number(name)] ?? [] : [name]);
  // "0.1" is a tile of card 0: the card is offered as a whole.
  const intel = env.ZE_AFFINITY_MASK === undefined || env.ZE_AFFINITY_MASK === ""
    ? undefined
    : listed(env.ZE_AFFINITY_MASK.replace(/\.\d+/g, ""));
  return { nvidia, amd, intel };
}
