/** Reads what macOS says of its GPUs. It tells names only: memory is the host's, use is not told. */
import { type Answer, type Card, UNSAID, word } from "./card.ts";
import type { Output } from "./nvidia_smi.ts";

export const CARD_QUERY = ["system_profiler", "SPDisplaysDataType", "-json"];

export function parseCards({ code, stdout }: Output): Answer {
  let list: unknown;
  try {
    list = JSON.parse(stdout.slice(0, 4 << 20))["SPDisplaysDataType"];
  } catch {
    list = undefined;
  }
  if (!Array.isArray(list)) {
    return {
      cards: [],
      complete: false,
      problem: `system_profiler printed no GPUs and exited with ${code}`,
    };
  }
  // Other vendors' cards of older Macs have no Metal for training.
  const cards = list.filter((its) => its?.["spdisplays_vendor"] === "sppci_vendor_Apple")
    .slice(0, 8).map((its, index): Card => ({
      ...UNSAID,
      ...{ vendor: "apple", index, uuid: "", instances: null },
      name: word(typeof its["sppci_model"] === "string" ? its["sppci_model"] : ""),
      ...{ memoryMb: null, usedMb: null, percent: null, watts: null, celsius: null },
    }));
  return { cards, complete: true, problem: "" };
}
