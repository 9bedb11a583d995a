/** Finds texts and histograms among a run's events. */
import type { Core } from "../../dispatch/core/core.ts";
import { parsedObject } from "../../base/text/json_text.ts";
import type { MediaEvent } from "./page_json.ts";

/** Events searched for one answer. */
const SCAN_EVENTS = 2000;
const KINDS = ["text", "histogram"];

/**
 * The texts and histograms among the events before seq `before`, the newest first; events before
 * `from` are not searched.
 */
export function mediaEventsBefore(
  core: Core,
  runId: string,
  before: number,
): { events: MediaEvent[]; from: number } {
  const end = Math.min(before - 1, core.records.head(runId, "events"));
  const from = Math.max(0, end - SCAN_EVENTS);
  const found: MediaEvent[] = [];
  for (let since = from; since < end;) {
    const page = core.records.read(runId, "events", since, end - since);
    if (page.length === 0) break;
    since = page.at(-1)!.seq;
    for (const { seq, kind, dataJson } of page) {
      if (!KINDS.includes(kind)) continue;
      const { tag, global_step: step } = parsedObject(dataJson) ?? {};
      if (typeof tag === "string") {
        found.push({ seq, kind, tag, step: Number.isSafeInteger(step) ? step as number : null });
      }
    }
  }
  return { events: found.reverse(), from: from + 1 };
}
