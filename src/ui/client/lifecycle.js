// @ts-check
/** A run's states as they happened: a bar in proportion to time, and the list with reasons. */
import { fill, h } from "./dom.js";
import { clock, duration, moment } from "./format.js";
import { chip, isEnded } from "./states.js";
/** @typedef {import("../page_json.ts").RunPage} RunPage */

/** @param {HTMLElement} root @param {RunPage} run @param {number} now */
export function drawLifecycle(root, run, now) {
  const steps = run.transitions;
  const first = steps[0];
  if (first === undefined) return;
  const until = (/** @type {number} */ i) => steps[i + 1]?.at ?? (isEnded(run) ? steps[i]?.at ?? now : now);
  const bar = h("div", {
    class: "lifebar",
    role: "img",
    "aria-label": `States over ${duration(until(steps.length - 1) - first.at)}`,
  });
  steps.forEach((t, i) => {
    const last = i === steps.length - 1;
    if (last && isEnded(run)) return;
    const took = Math.max(0, until(i) - t.at);
    const part = h("span", { "data-state": t.to, title: `${t.to} for ${duration(took)} (attempt ${t.attempt})` });
    part.style.flexGrow = String(Math.max(1, took));
    bar.append(part);
  });
  fill(
    root,
    bar,
    h(
      "ol",
      { class: "lifelist" },
      steps.map((t, i) => {
        const last = i === steps.length - 1;
        const previous = steps[i - 1];
        const newAttempt = previous !== undefined && t.attempt !== previous.attempt;
        return h(
          "li",
          { "data-state": t.to },
          h("time", { title: moment(t.at) }, clock(t.at)),
          chip(t.to),
          h("span", { class: "took" }, last && isEnded(run) ? "" : duration(until(i) - t.at)),
          h(
            "span",
            { class: "why" },
            [newAttempt ? `attempt ${t.attempt}` : "", t.reason ?? ""].filter((x) => x !== "").join(": "),
          ),
        );
      }),
    ),
  );
}
