/** The host's GPUs, from nvidia-smi or `--gpus`. */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { hostEnvironment } from "../processes/environment.ts";
import { runProgram } from "../processes/external_program.ts";

export interface Gpu {
  /** Device number for CUDA_VISIBLE_DEVICES. */
  slot: number;
  /** Such as "NVIDIA A100-SXM4-40GB"; "" if unknown. */
  name: string;
}

export type GpuOption =
  | { type: "auto" }
  /** Exactly these slots, without asking the host. */
  | { type: "slots"; slots: number[] };

const MOST_SLOTS = 64;
const NO_SUCH_PROGRAM = 127;
/** A start waits for it. Where the slots are told, only their names are missing without it. */
const LIMIT_MS = { auto: 10_000, slots: 3000 };

/**
 * Reads `--gpus auto|N|i,j,…`. A single number is a count (slots 0 … N-1); a list has a comma, so that `2,` is device 2 alone.
 *
 * @throws {MosaicError} `invalid_argument`
 */
export function parseGpuOption(text: string): GpuOption {
  if (text === "auto") return { type: "auto" };
  const wrong = (why: string) =>
    new MosaicError("invalid_argument", `--gpus ${JSON.stringify(text)}: ${why}`, {
      hint: 'Give "auto", a count such as 2, or device numbers such as 0,2 (one device alone: "2,").',
    });
  if (!/^\d+(,\d+)*,?$/.test(text)) throw wrong("neither auto, nor a count, nor a list of device numbers");
  const numbers = text.split(",").filter((part) => part !== "").map(Number);
  if (!text.includes(",")) {
    if (numbers[0]! > MOST_SLOTS) throw wrong(`more than ${MOST_SLOTS} GPUs`);
    return { type: "slots", slots: Array.from({ length: numbers[0]! }, (_, i) => i) };
  }
  if (new Set(numbers).size !== numbers.length) throw wrong("a device number is given twice");
  if (numbers.some((n) => n > 1023)) throw wrong("a device number above 1023");
  return { type: "slots", slots: numbers.toSorted((a, b) => a - b) };
}

/**
 * Parses `nvidia-smi --query-gpu=index,name --format=csv,noheader`. Ignores other lines ("No devices were found", warnings).
 */
export function parseNvidiaSmi(output: string): Gpu[] {
  const gpus: Gpu[] = [];
  for (const line of output.split("\n")) {
    const match = /^\s*(\d+)\s*,\s*(.*?)\s*$/.exec(line);
    if (match !== null) gpus.push({ slot: Number(match[1]), name: match[2]! });
  }
  return gpus.toSorted((a, b) => a.slot - b.slot);
}

export type NvidiaSmi = () => Promise<{ code: number; stdout: string; stderr: string }>;

/** It hangs if the driver does. @throws `Deno.errors.NotFound` if not installed */
const nvidiaSmi = async (limitMs = LIMIT_MS.auto): ReturnType<NvidiaSmi> => {
  const query = ["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"];
  const out = await runProgram(query, { env: hostEnvironment(), limitMs });
  if (out.code === NO_SUCH_PROGRAM) throw new Deno.errors.NotFound("nvidia-smi is not in PATH");
  return out;
};

/** The host's GPUs, and the problem if nvidia-smi failed. A host without nvidia-smi has no GPUs. */
export async function detectGpus(run: NvidiaSmi = nvidiaSmi): Promise<{ gpus: Gpu[]; problem?: string }> {
  try {
    const { code, stdout, stderr } = await run();
    if (code === 0) return { gpus: parseNvidiaSmi(stdout) };
    const text = (stderr.trim() || stdout.trim()).split("\n")[0] ?? "";
    return { gpus: [], problem: `nvidia-smi exited with ${code}: ${text}` };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { gpus: [] };
    return { gpus: [], problem: `nvidia-smi: ${messageOf(error)}` };
  }
}

/** The daemon's GPU slots, with names if nvidia-smi knows them. */
export async function gpusOf(
  option: GpuOption,
  run: NvidiaSmi = () => nvidiaSmi(LIMIT_MS[option.type]),
): Promise<{ gpus: Gpu[]; problem?: string }> {
  const found = await detectGpus(run);
  if (option.type === "auto") return found;
  const names = new Map(found.gpus.map((gpu) => [gpu.slot, gpu.name]));
  return { ...found, gpus: option.slots.map((slot) => ({ slot, name: names.get(slot) ?? "" })) };
}
