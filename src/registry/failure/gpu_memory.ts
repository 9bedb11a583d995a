/**
 * Messages of frameworks whose GPU's memory was full: what was asked for, what was free, and who
 * had the rest. Pure.
 */
import { bytes } from "../../base/text/format.ts";

/** CUDA's and ROCm's, of PyTorch, JAX, TensorFlow, CuPy and plain programs. */
export const GPU_MEMORY_FULL =
  /(?:CUDA|HIP) out of memory|(?:CUDA|HIP)_ERROR_OUT_OF_MEMORY|(?:cuda|hip)Error(?:MemoryAllocation|OutOfMemory)|OutOfMemoryError: (?:CUDA|HIP)|CUBLAS_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: Out of memory|OOM when allocating tensor|out of memory allocating [\d,]+ bytes/i;

export interface GpuMemoryFull {
  /** Sizes as texts such as "978.00 MiB"; undefined: the message does not say. */
  asked: string | undefined;
  free: string | undefined;
  total: string | undefined;
  /** What the failed process itself had. */
  own: string | undefined;
  /** Other processes on the card. */
  others: { pid: string; has: string }[];
}

const SIZE = String.raw`(\d[\d.,]*\s?(?:[KMGT]i?B|bytes?))`;
const ASKED = [
  new RegExp(`Tried to allocate ${SIZE}`, "i"),
  new RegExp(`trying to allocate ${SIZE}`, "i"),
  new RegExp(`out of memory allocating ${SIZE}`, "i"),
];
/** Of PyTorch 2, and of PyTorch 1. */
const FREE = [new RegExp(`of which ${SIZE} is free`, "i"), new RegExp(`; ${SIZE} free;`, "i")];
const TOTAL = [
  new RegExp(`total capacity of ${SIZE}`, "i"),
  new RegExp(`; ${SIZE} total capacity`, "i"),
];
const OWN = [
  new RegExp(`this process has ${SIZE} memory in use`, "i"),
  new RegExp(`; ${SIZE} already allocated`, "i"),
];
const OTHER = new RegExp(`\\bProcess (\\d+) has ${SIZE} memory in use`, "gi");

/** @param line that matches GPU_MEMORY_FULL */
export function readGpuMemoryFull(line: string): GpuMemoryFull {
  const first = (patterns: readonly RegExp[]) => {
    for (const pattern of patterns) {
      const [, size] = pattern.exec(line) ?? [];
      if (size !== undefined) return sizeText(size);
    }
    return undefined;
  };
  return {
    asked: first(ASKED),
    free: first(FREE),
    total: first(TOTAL),
    own: first(OWN),
    others: [...line.matchAll(OTHER)].slice(0, 8).map(([, pid, has]) => ({
      pid: pid!,
      has: sizeText(has!),
    })),
  };
}

/**
 * "asked for 978.00 MiB, 630.00 MiB of 15.98 GiB free, pid 4123 has 10.00 GiB"; "" if the message
 * has no figures.
 */
export function gpuMemoryText({ asked, free, total, own, others }: GpuMemoryFull): string {
  return [
    asked === undefined ? "" : `asked for ${asked}`,
    free === undefined ? "" : `${free}${total === undefined ? "" : ` of ${total}`} free`,
    own === undefined ? "" : `it had ${own} itself`,
    ...others.map(({ pid, has }) => `pid ${pid} had ${has}`),
  ].filter((part) => part !== "").join(", ");
}

function sizeText(size: string): string {
  const [, count] = /^([\d,]+)\s?bytes?$/i.exec(size) ?? [];
  return count === undefined ? size : bytes(Number(count.replaceAll(",", "")));
}
