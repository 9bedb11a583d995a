/** Reads the JSON of AMD's rocm-smi. The names of its keys differ between versions. */
import { type Answer, type Card, figure, type GpuProcess, word } from "./card.ts";
import type { Output } from "./nvidia_smi.ts";

export const CARD_QUERY = [
  ...[
    "rocm-smi",
    "--showuniqueid",
    "--showproductname",
    "--showmeminfo",
    "vram",
    "--showuse",
    "--showpower",
  ],
  ...["--showtemp", "--json"],
];
export const PROCESS_QUERY = ["rocm-smi", "--showpids", "--json"];

const MB = 1 << 20;
/** Of a key. */
const LONGEST_NAME = 200;

/** A list may nest deeper than a text can be made of. */
const textOf = (value: unknown) =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

export function parseCards({ code, stdout, stderr }: Output): Answer {
  const read = objectIn(stdout);
  const said = `${stderr.trim()} ${read === undefined ? stdout.trim() : ""}`.trim().split("\n")[0]!
    .slice(0, 300);
  if (read === undefined) {
    const none = /No AMD GPUs|not initialized|amdgpu not found/i.test(`${stdout} ${stderr}`);
    return {
      cards: [],
      complete: none,
      problem: none ? "" : `rocm-smi: ${said || `exited with ${code}`}`,
    };
  }
  const cards: Card[] = [];
  for (const [key, values] of Object.entries(read)) {
    const [, index] = /^card(\d+)$/.exec(key) ?? [];
    if (index === undefined || typeof values !== "object" || values === null) continue;
    const of = (pattern: RegExp) => {
      const found = Object.entries(values).find(([name, value]) =>
        name.length <= LONGEST_NAME && pattern.test(name) && word(textOf(value)) !== ""
      );
      return found === undefined ? undefined : textOf(found[1]);
    };
    const megabytes = (pattern: RegExp) => {
      const bytes = figure(of(pattern));
      return bytes === null ? null : bytes / MB;
    };
    cards.push({
      vendor: "amd",
      index: Number(index),
      uuid: word(of(/^Unique ID$/i)),
      name: word(of(/^Card Series$/i) ?? of(/^Device Name$/i) ?? of(/^Card Model$/i)),
      memoryMb: megabytes(/^VRAM Total Memory \(B\)$/i),
      usedMb: megabytes(/^VRAM Total Used Memory \(B\)$/i),
      percent: figure(of(/^GPU use \(%\)$/i)),
      watts: figure(of(/(Average|Current Socket).*Power \(W\)/i)),
      celsius: figure(of(/^Temperature \(Sensor (edge|junction)\) \(C\)$/i)),
      instances: null,
    });
  }
  cards.sort((a, b) => a.index - b.index);
  return {
    cards: cards.slice(0, 64),
    complete: code === 0,
    problem: code === 0 ? "" : `rocm-smi: ${said}`,
  };
}

/** It does not say on which card a process is. */
export function parseProcesses(stdout: string): GpuProcess[] {
  const { system } = objectIn(stdout) ?? {};
  return Object.entries(typeof system === "object" && system !== null ? system : {}).flatMap(
    ([key, value]) => {
      const [, pid] = /^PID\s*(\d+)$/.exec(key) ?? [];
      if (pid === undefined) return [];
      const [name, , bytes] = textOf(value).split(",").map((field) => field.trim());
      const used = figure(bytes);
      return [{
        pid: Number(pid),
        name: word(name),
        uuid: "",
        usedMb: used === null ? null : used / MB,
      }];
    },
  ).slice(0, 4096);
}

/** Warnings may stand before it. */
function objectIn(text: string): Record<string, unknown> | undefined {
  const [from, to] = [text.indexOf("{"), text.lastIndexOf("}")];
  if (from < 0 || to < from || to - from > 4 << 20) return undefined;
  try {
    const read: unknown = JSON.parse(text.slice(from, to + 1));
    return typeof read === "object" && read !== null ? read as Record<string, unknown> : undefined;
  } catch {
    return undefined;
  }
}
