// @ts-check
/** What happened to a run, from the daemon's event log: states, checkpoints, artifacts, failures, commands. */
import { get } from "./api.js";
import { attempt } from "./dialog.js";
import { h, scrollTable } from "./dom.js";
import { moment, words } from "./format.js";
/** @typedef {import("../page_json.ts").EventLine} EventLine */

const PAGE = 500;
/** The newest ones stay in the document. */
const MOST = 2000;

/** @param {unknown} data */
function told(data) {
  if (data === null || typeof data !== "object") return String(data ?? "");
  return Object.entries(data).filter(([, v]) => v !== null && v !== "")
    .map(([k, v]) => `${words(k)}: ${typeof v === "string" ? v : JSON.stringify(v)}`).join(", ");
}

export class Events {
  #body = h("tbody");
  #seen = 0;
  #wanted = false;
  #busy = false;
  #again = false;

  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    this.element = scrollTable("Events", "events", ["Time", "Event", "Attempt", "What"], this.#body);
  }

  /** Shows what there is, and from now on what comes. */
  load() {
    this.#wanted = true;
    this.changed();
  }

  /** There is a new event: everything after the last shown is read, so that none is left out. */
  changed() {
    if (!this.#wanted) return;
    this.#again = true;
    if (!this.#busy) attempt(() => this.#read());
  }

  async #read() {
    this.#busy = true;
    try {
      while (this.#again) {
        this.#again = false;
        const run = encodeURIComponent(this.runId);
        const { events } = await get(`/api/events?run=${run}&since=${this.#seen}&limit=${PAGE}`);
        for (const event of events) this.#add(event);
        if (events.length === PAGE) this.#again = true;
      }
    } finally {
      this.#busy = false;
    }
  }

  /** @param {EventLine} event */
  #add(event) {
    this.#seen = event.seq;
    this.#body.prepend(h(
      "tr",
      {},
      h("td", {}, moment(event.at)),
      h("td", {}, words(event.kind)),
      h("td", {}, event.attempt),
      h("td", { class: "wide" }, told(event.data)),
    ));
    if (this.#body.childElementCount > MOST) this.#body.lastElementChild?.remove();
  }
}
