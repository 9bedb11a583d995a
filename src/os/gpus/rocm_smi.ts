/** Reads the JSON of AMD's rocm-smi. The names of its keys differ between versions. */
import {
  type Answer,
  type Card,
  figure,
  type GpuProcess,
  type Link,
  UNSAID,
  word,
} from "./card.ts";
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
/** How the cards are connected. */
export const TOPOLOGY = ["rocm-smi", "--showtopo"];
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
      ...UNSAID,
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

/**
 * Of `rocm-smi --showtopo`: tables of weights (the lower, the closer) and of link types. Its hops
 * are 1 for all cards that XGMI connects.
 */
export function parseTopology(output: string): Link[] {
  const tables = new Map<string, string>();
  let [title, columns] = ["", [] as string[]];
  for (const line of output.slice(0, 1 << 20).split("\n")) {
    const [, heading] = /^=+ ([A-Z][\w ]{1,60}) =+\s*$/.exec(line) ?? [];
    if (heading !== undefined) title = heading;
    const [first = "", ...rest] = line.trim().split(/\s+/);
    if (/^\s+GPU\d/.test(line)) columns = [first, ...rest];
    else if (/^GPU\d{1,4}$/.test(first)) {
      rest.slice(0, columns.length).forEach((value, at) =>
        tables.set(`${title} ${first} ${columns[at]}`, value)
      );
    }
  }
  const LINK = /^Link Type between two GPUs GPU(\d+) GPU(\d+)$/;
  return [...tables].flatMap(([key, name]): Link[] => {
    const [, from, to] = LINK.exec(key) ?? [];
    if (from === undefined || Number(from) >= Number(to)) return [];
    const weight = figure(tables.get(`Weight between two GPUs GPU${from} GPU${to}`)) ?? 1000;
    const closeness = (name === "XGMI" ? 10 : 1) + 1 / (1 + Math.max(0, weight));
    return [{ vendor: "amd", cards: [Number(from), Number(to)], name: word(name), closeness }];
  });
}
