/** Reads what Intel's xpu-smi prints: devices as JSON, figures as CSV. */
import { type Answer, type Card, figure, UNSAID, word } from "./card.ts";
import { busOf, type Output } from "./nvidia_smi.ts";

export const DISCOVERY = ["xpu-smi", "discovery", "-j"];
/** Of all devices once: utilisation, power, temperature, memory in use. It takes a second. */
export const FIGURES = ["xpu-smi", "dump", "-d", "-1", "-m", "0,1,3,18", "-n", "1"];

/** One device's memory is told only of one device. */
export const detailOf = (index: number) => ["xpu-smi", "discovery", "-d", String(index), "-j"];

type Json = Record<string, unknown>;
const MB = 1 << 20;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;
const text = (value: unknown) =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

/** @param memory of each device, as `parseMemory` gives it */
export function parseCards(
  { code, stdout, stderr }: Output,
  figures: string,
  memory: ReadonlyMap<string, number | null>,
): Answer {
  const list = objectIn(stdout)?.["device_list"];
  const rows = figuresOf(figures);
  const cards = (Array.isArray(list) ? list : []).flatMap((device): Card[] => {
    if (!isObject(device) || typeof device["device_id"] !== "number") return [];
    // A virtual function is a part of a card that stands beside it.
    if (device["device_function_type"] === "virtual") return [];
    const row = rows.get(device["device_id"]);
    const uuid = word(text(device["uuid"]));
    return [{
      ...UNSAID,
      ...{ vendor: "intel", index: device["device_id"], uuid, instances: null },
      name: word(text(device["device_name"])),
      memoryMb: memory.get(uuid) ?? parseMemory(JSON.stringify(device)),
      usedMb: figure(row?.[3]),
      percent: figure(row?.[0]),
      watts: figure(row?.[1]),
      celsius: figure(row?.[2]),
      bus: busOf(text(device["pci_bdf_address"])),
    }];
  }).toSorted((a, b) => a.index - b.index).slice(0, 64);
  const said = (stderr.trim() || stdout.trim()).split("\n")[0]!.slice(0, 300);
  const none = (code === 0 && Array.isArray(list) && list.length === 0) ||
    /No (GPU )?devices? (found|discovered)/i.test(`${stdout} ${stderr}`);
  const failed = !none && cards.length === 0;
  return {
    cards,
    complete: !failed,
    problem: failed ? `xpu-smi: ${said || `exited with ${code}`}` : "",
  };
}

/** MiB; null if the tool does not say. */
export function parseMemory(detail: string): number | null {
  const bytes = figure(text(objectIn(detail)?.["memory_physical_size_byte"]));
  return bytes === null ? null : bytes / MB;
}

/** By device: what stands after time and device. */
function figuresOf(csv: string): Map<number, string[]> {
  return new Map(
    csv.split("\n").slice(0, 200).flatMap((line) => {
      const [, device, ...rest] = line.split(",").map((field) => field.trim());
      return /^\d{1,4}$/.test(device ?? "") ? [[Number(device), rest] as const] : [];
    }),
  );
}

function objectIn(output: string): Json | undefined {
  const from = output.indexOf("{");
  if (from < 0 || output.length - from > 4 << 20) return undefined;
  try {
    const read: unknown = JSON.parse(output.slice(from));
    return isObject(read) ? read : undefined;
  } catch {
    return undefined;
  }
}
