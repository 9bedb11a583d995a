// @ts-check
/** Steps and episodes page by page, by their sequence numbers; each opens as JSON. */
import { get, runPath } from "./api.js";
import { attempt } from "./dialog.js";
import { fill, h, scrollTable, setText } from "./dom.js";
import { clock, figure, whole } from "./format.js";

const PAGE = 100;

/** @param {unknown} value */
function brief(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** @typedef {Record<string, any>} Row */
/** @type {Record<string, [string, string, (r: Row) => string][]>} */
const COLUMNS = {
  steps: [
    ["Episode", "num", (r) => whole(r.episode_index)],
    ["Step", "num", (r) => whole(r.step_index)],
    ["Reward", "num", (r) => figure(r.reward ?? r.reward_text)],
    ["Action", "mono", (r) => brief(r.action)],
    ["Observation", "mono wide c1", (r) => brief(r.observation)],
    ["End", "", (r) => r.terminated ? "terminated" : r.truncated ? "truncated" : ""],
    ["Agent", "c2", (r) => r.agent_id ?? ""],
    ["Time", "c2", (r) => clock(Number(BigInt(r.ts_ns || "0") / 1000000n))],
  ],
  episodes: [
    ["Episode", "num", (r) => whole(r.episode_index)],
    ["Reward", "num", (r) => figure(r.total_reward ?? r.total_reward_text)],
    ["Length", "num", (r) => whole(r.steps)],
    ["End", "", (r) => r.terminated ? "terminated" : r.truncated ? "truncated" : ""],
    ["Agent", "c2", (r) => r.agent_id ?? ""],
    ["Metadata", "mono wide c1", (r) => brief(r.metadata)],
    ["Time", "c2", (r) => clock(Number(BigInt(r.ts_ns || "0") / 1000000n))],
  ],
};

export class Explorer {
  #since = 0;
  #head = 0;
  #busy = false;
  #body = h("tbody");
  #range = h("span", { class: "sub", role: "status" });
  #follow = h("input", { type: "checkbox", checked: true, onchange: () => this.#goTo(Infinity, this.#follow.checked) });
  #json = h(
    "pre",
    { class: "json", tabIndex: 0, "aria-label": "Record as JSON" },
    "Choose a row to see the whole record.",
  );

  /** @param {string} runId @param {"steps" | "episodes"} kind */
  constructor(runId, kind) {
    this.runId = runId;
    this.kind = kind;
    const jump = h("input", { type: "number", min: "1", placeholder: "seq", "aria-label": "Go to sequence number" });
    /** @type {[string, string][]} */
    const headings = [
      ["Seq", "num"],
      ...(COLUMNS[kind] ?? []).map(([label, c]) => /** @type {[string, string]} */ ([label, c])),
    ];
    this.element = h(
      "div",
      { class: "explorer" },
      h(
        "form",
        {
          class: "log-tools",
          onsubmit: (/** @type {Event} */ event) => {
            event.preventDefault();
            if (jump.value !== "") this.#goTo(Number(jump.value) - 1);
          },
        },
        h("button", { type: "button", onclick: () => this.#goTo(0) }, "First"),
        h("button", { type: "button", onclick: () => this.#goTo(this.#since - PAGE) }, "Back"),
        h("button", { type: "button", onclick: () => this.#goTo(this.#since + PAGE) }, "Next"),
        h("button", { type: "button", onclick: () => this.#goTo(Infinity) }, "Last"),
        h("label", {}, this.#follow, " Follow"),
        this.#range,
        h("span", { class: "grow" }),
        jump,
        h("button", { type: "submit" }, "Go to"),
      ),
      h(
        "div",
        { class: "explorer-parts" },
        scrollTable(`Table of ${kind}`, "records", headings, this.#body, kind),
        this.#json,
      ),
    );
  }

  /** Called on every tick, with the newest seq. @param {number} head */
  update(head) {
    const grown = head !== this.#head;
    this.#head = head;
    if (this.#follow.checked && (grown || this.#body.childElementCount === 0)) this.#goTo(Infinity, true);
    else this.#describe();
  }

  #describe() {
    const last = Math.min(this.#since + PAGE, this.#head);
    setText(
      this.#range,
      this.#head === 0 ? `No ${this.kind} yet` : `${whole(this.#since + 1)} to ${whole(last)} of ${whole(this.#head)}`,
    );
  }

  /** @param {number} since @param {boolean} [follow] */
  async #goTo(since, follow = false) {
    this.#follow.checked = follow;
    if (this.#busy) return;
    this.#busy = true;
    await attempt(async () => {
      const from = Math.max(0, Math.min(since, this.#head - PAGE));
      const answer = await get(runPath(this.runId, `/${this.kind}?since=${from}&limit=${PAGE}`));
      this.#head = answer.heads[this.kind];
      this.#since = from;
      this.#draw(answer[this.kind]);
    });
    this.#busy = false;
  }

  /** @param {Row[]} rows */
  #draw(rows) {
    const columns = COLUMNS[this.kind] ?? [];
    fill(
      this.#body,
      rows.map((row) =>
        h(
          "tr",
          {},
          h(
            "td",
            { class: "num" },
            h("button", { type: "button", class: "link", onclick: () => this.#open(row.seq) }, whole(row.seq)),
          ),
          columns.map(([, c, text]) => h("td", { class: c }, text(row))),
        )
      ),
    );
    this.#describe();
  }

  /** @param {number} seq */
  #open(seq) {
    this.#follow.checked = false;
    attempt(async () => {
      const record = await get(runPath(this.runId, `/${this.kind}/${seq}`));
      // A picture is for the view of frames; as digits it would bury everything else.
      if (record.render_payload) record.render_payload = brief(record.render_payload);
      setText(this.#json, JSON.stringify(record, null, 2));
    });
  }
}
