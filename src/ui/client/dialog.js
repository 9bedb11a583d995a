// @ts-check
/** Questions before something irreversible, and short notices. */
import { h } from "./dom.js";

/**
 * @param {{title: string, text: string, confirm: string, danger?: boolean, field?: {label: string, value: string}}} ask
 * @returns {Promise<string | undefined>} the field's text ("" without one), or undefined when the person changed their mind
 */
export function ask({ title, text, confirm, danger = false, field }) {
  return new Promise((resolve) => {
    const input = field && h("input", { type: "text", value: field.value, "aria-label": field.label });
    const dialog = h(
      "dialog",
      { "aria-label": title },
      h(
        "form",
        { method: "dialog" },
        h("h2", {}, title),
        h("p", {}, text),
        field && h("label", { class: "field" }, field.label, input),
        h(
          "div",
          { class: "dialog-buttons" },
          h("button", { type: "submit", value: "", formnovalidate: true }, "Keep as it is"),
          h("button", { type: "submit", value: "yes", class: danger ? "danger" : "primary" }, confirm),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? input?.value ?? "" : undefined);
    });
    document.body.append(dialog);
    dialog.showModal();
    (input ?? /** @type {HTMLElement} */ (dialog.querySelector("button[value=yes]"))).focus();
  });
}

/** @param {string} text @param {"info" | "error"} [kind] */
export function notice(text, kind = "info") {
  const box = /** @type {HTMLElement} */ (document.getElementById("notices"));
  const item = h("div", { class: `notice ${kind}` }, h("span", {}, text));
  item.append(
    h("button", { type: "button", class: "icon", "aria-label": "Dismiss", onclick: () => item.remove() }, "×"),
  );
  box.append(item);
  while (box.children.length > 4) box.firstElementChild?.remove();
  setTimeout(() => item.remove(), kind === "error" ? 15_000 : 5000);
}

/** Runs an action and tells when it failed. @param {() => Promise<unknown>} action */
export async function attempt(action) {
  try {
    await action();
  } catch (error) {
    notice(error instanceof Error ? error.message : String(error), "error");
  }
}
