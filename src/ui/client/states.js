// @ts-check
/** States of a run: how they look and what may be done in them. */
import { h, setText } from "./dom.js";
import { age } from "./format.js";
/** @typedef {import("../page_json.ts").RunLine} RunLine */

export const STATES = /** @type {const} */ ([
  "INIT",
  "HANDSHAKE",
  "READY",
  "EXECUTING",
  "PAUSED",
  "FAULTED",
  "TERMINATED",
  "CANCELLED",
]);
export const ENDED = ["FAULTED", "TERMINATED", "CANCELLED"];
/** @param {{state: string}} run */
export const isEnded = (run) => ENDED.includes(run.state);

/** @param {string} state */
export function chip(state) {
  return h("span", { class: "chip", "data-state": state }, state);
}

/** @param {HTMLElement} element @param {string} state */
export function setChip(element, state) {
  if (element.dataset.state !== state) element.dataset.state = state;
  setText(element, state);
}

/** One line on why the run is where it is. @param {RunLine} run @param {number} at now, Unix milliseconds */
export function explanation(run, at) {
  if (run.cancel_requested && !isEnded(run)) return "being cancelled";
  if (run.state === "INIT") {
    const place = run.queue_position > 0 ? `#${run.queue_position} in the queue` : "queued";
    return run.waiting_for ? `${place}, waits for ${run.waiting_for}` : place;
  }
  if (run.pause_requested && run.state !== "PAUSED" && !isEnded(run)) return "being paused";
  if (run.state === "READY" && run.last_output_at !== null) {
    return `no telemetry, output ${age(run.last_output_at, at)}`;
  }
  return run.reason ?? run.outcome ?? "";
}
