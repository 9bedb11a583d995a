// @ts-check
/** GPU slots and the host's load, on top of the list of runs. */
import { fill, h } from "./dom.js";
import { bytes, rate } from "./format.js";
/** @typedef {import("../page_json.ts").HostLine} HostLine */

/** @param {string} label @param {string} value @param {number} part of 1 @param {string} [title] */
function meter(label, value, part, title) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
  const inner = /** @type {HTMLElement} */ (bar.firstElementChild);
  inner.style.width = `${Math.round(Math.min(1, Math.max(0, part)) * 100)}%`;
  if (part > 0.9) bar.dataset.full = "";
  return h("div", { class: "meter", title }, h("span", { class: "label" }, label), h("span", {}, value), bar);
}

/** @param {HTMLElement} root @param {HostLine} host @param {number} stepsPerSecond @param {(id: string) => string} nameOf */
export function drawHost(root, host, stepsPerSecond, nameOf) {
  const used = host.gpus.filter((g) => g.run_id !== null).length;
  const load = host.load_average[0] ?? 0;
  const memory = host.memory_bytes - host.memory_available_bytes;
  const disk = host.disk_bytes - host.disk_available_bytes;
  fill(
    root,
    h(
      "div",
      { class: "meter gpus" },
      h("span", { class: "label" }, "GPUs"),
      h("span", {}, host.gpus.length === 0 ? "none" : `${used} of ${host.gpus.length} in use`),
      h(
        "span",
        { class: "slots" },
        host.gpus.map((g) => {
          const title = `GPU ${g.slot}${g.name ? ` (${g.name})` : ""}: ${
            g.run_id === null ? "free" : nameOf(g.run_id)
          }`;
          return g.run_id === null ? h("span", { class: "slot", title }, g.slot) : h(
            "a",
            { class: "slot used", title, "aria-label": title, href: `/runs/${encodeURIComponent(g.run_id)}` },
            g.slot,
          );
        }),
      ),
    ),
    meter(
      "Load",
      `${load.toFixed(1)} of ${host.cpus}`,
      host.cpus > 0 ? load / host.cpus : 0,
      "Load average over one minute, and processors",
    ),
    meter("Memory", `${bytes(memory)} of ${bytes(host.memory_bytes)}`, memory / (host.memory_bytes || 1)),
    meter("Disk", `${bytes(host.disk_available_bytes)} free`, disk / (host.disk_bytes || 1), host.state_dir),
    h(
      "div",
      { class: "meter" },
      h("span", { class: "label" }, "Telemetry"),
      h("span", {}, `${rate(stepsPerSecond)} steps/s`),
      h("span", { class: "sub" }, bytes(host.telemetry_bytes)),
    ),
  );
}
