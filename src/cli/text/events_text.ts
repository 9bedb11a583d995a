/** An event as one line of text. */
import { clock, number } from "../../base/text/format.ts";
import type { EventJson } from "../../runs/fields/host_json.ts";
import { escapeControl, paint, stateStyle } from "./text.ts";
import {
  endText,
  type RunState,
  shownState,
  stateWord,
} from "../../runs/fields/lifecycle_states.ts";

export interface EventLineOptions {
  color: boolean;
  /** Include the run's id and name. */
  withRun: boolean;
  /** For a terminal: cut long values, and print the hint uncut on its own line. */
  brief: boolean;
}

const ID_SHOWN = 14;
const LONGEST_VALUE = 120;

export function eventLine(event: EventJson, options: EventLineOptions): string {
  const at = event.at === null ? "        " : clock(Date.parse(event.at));
  const run = options.withRun
    ? `${event.run_id.slice(0, ID_SHOWN)}  ${escapeControl(event.run_name)}  `
    : "";
  const attempt = event.attempt > 1 ? ` (attempt ${event.attempt})` : "";
  const line = `${paint(at, "dim", options.color)}  ${run}${eventText(event, options)}${attempt}\n`;
  const hint = options.brief ? hintOf(event) : undefined;
  return hint === undefined ? line : `${line}${" ".repeat(at.length + 2)}${escapeControl(hint)}\n`;
}

function hintOf({ kind, data: { hint } }: EventJson): string | undefined {
  return kind !== "state" && typeof hint === "string" && hint !== "" ? hint : undefined;
}

function eventText(event: EventJson, { color, brief }: EventLineOptions): string {
  const { data } = event;
  if (event.kind === "state") {
    const to = String(data["to"] ?? "");
    const from = data["from"] ? `${stateWord(String(data["from"]))} → ` : "";
    const at = { state: to as RunState, reason: data["reason"] ? String(data["reason"]) : null };
    const word = escapeControl(stateWord(shownState(at)));
    const rest = escapeControl(endText(at)).slice(word.length);
    return `${from}${paint(word, stateStyle(to), color)}${rest}`;
  }
  const fields = Object.entries(data)
    .filter(([key, value]) => value !== null && value !== "" && !(brief && key === "hint"))
    .map(([key, value]) => `${escapeControl(key)}=${shown(value, brief)}`);
  return [paint(escapeControl(event.kind), "bold", color), ...fields].join(" ");
}

function shown(value: unknown, brief: boolean): string {
  if (typeof value === "number") return number(value);
  const text = escapeControl(typeof value === "string" ? value : JSON.stringify(value));
  return brief && text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text;
}
