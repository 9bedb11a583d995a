/**
 * Reads the output of nvidia-smi. Other lines than rows (warnings, "No devices were found") are not
 * rows.
 */
import { type Answer, type Card, figure, type GpuProcess, type Instance, word } from "./card.ts";

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
const NEWER = ["temperature.gpu", "mig.mode.current"] as const;
const FORMAT = "--format=csv,noheader,nounits";

/** @param old for a driver that does not know the newer fields */
export function cardQuery(old: boolean): { argv: string[]; fields: readonly string[] } {
  const fields = old ? FIELDS : [...FIELDS, ...NEWER];
  return { argv: ["nvidia-smi", `--query-gpu=${fields.join(",")}`, FORMAT], fields };
}

export const PROCESS_QUERY = [
  "nvidia-smi",
  "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
  FORMAT,
];
/** Lists MIG devices under their cards. */
export const LIST = ["nvidia-smi", "-L"];

export const isOldDriver = (output: string) => /is not a valid field to query/.test(output);

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
