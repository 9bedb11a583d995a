/** An event of a run's life as one line. */
import { clock, number } from "./format.ts";
import type { EventJson } from "./json.ts";
import { harmless, paint, stateStyle } from "./text.ts";

export interface EventLineOptions {
  color: boolean;
  /** Name the run: where events of several are shown. */
  withRun: boolean;
}

const ID_SHOWN = 14;
const LONGEST_VALUE = 120;

export function eventLine(event: EventJson, options: EventLineOptions): string {
  const at = event.at === null ? "        " : clock(Date.parse(event.at));
  const run = options.withRun ? `${event.run_id.slice(0, ID_SHOWN)}  ${harmless(event.run_name)}  ` : "";
  const attempt = event.attempt > 1 ? ` (attempt ${event.attempt})` : "";
  return `${paint(at, "dim", options.color)}  ${run}${eventText(event, options.color)}${attempt}\n`;
}

function eventText(event: EventJson, color: boolean): string {
  const { data } = event;
  if (event.kind === "state") {
    const to = String(data["to"] ?? "");
    const from = data["from"] ? `${data["from"]} → ` : "";
    const reason = data["reason"] ? `: ${harmless(String(data["reason"]))}` : "";
    return `${from}${paint(to, stateStyle(to), color)}${reason}`;
  }
  const fields = Object.entries(data)
    .filter(([, value]) => value !== null && value !== "")
    .map(([key, value]) => `${harmless(key)}=${shown(value)}`);
  return [paint(harmless(event.kind), "bold", color), ...fields].join(" ");
}

function shown(value: unknown): string {
  if (typeof value === "number") return number(value);
  const text = harmless(typeof value === "string" ? value : JSON.stringify(value));
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text;
}
