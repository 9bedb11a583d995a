// @ts-check
/** What happened to a run, from the daemon's event log: states, checkpoints, artifacts, failures, commands. */
import { get } from "./api.js";
import { attempt } from "./dialog.js";
import { h } from "./dom.js";
import { moment, words } from "./format.js";
/** @typedef {ReturnType<typeof import("../shapes.ts").eventLine>} EventLine */

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
  #loaded = false;

  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    this.element = h(
      "div",
      { class: "table-scroll", tabIndex: 0, role: "region", "aria-label": "Events" },
      h(
        "table",
        { class: "events" },
        h("caption", { class: "unseen" }, "Events"),
        h("thead", {}, h("tr", {}, ["Time", "Event", "Attempt", "What"].map((t) => h("th", { scope: "col" }, t)))),
        this.#body,
      ),
    );
  }

  /** Reads what is not shown yet: newest on top. */
  load() {
    if (this.#loaded) return;
    this.#loaded = true;
    attempt(async () => {
      for (;;) {
        const { events } = await get(
          `/api/events?run=${encodeURIComponent(this.runId)}&since=${this.#seen}&limit=${PAGE}`,
        );
        for (const event of events) this.add(event);
        if (events.length < PAGE) return;
      }
    });
  }

  /** @param {EventLine} event */
  add(event) {
    if (!this.#loaded || event.seq <= this.#seen) return;
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
