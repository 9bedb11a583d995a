/** Questions before something irreversible, and short notices. */
import { h } from "./dom.ts";
import { render } from "./preact.ts";

export interface Question {
  title: string;
  text: string;
  confirm: string;
  danger?: boolean;
  field?: { label: string; value: string };
}

/** @returns the field's text ("" without one), or undefined if the person cancelled */
export function ask({ title, text, confirm, danger, field }: Question): Promise<string | undefined> {
  const place = h("div");
  document.body.append(place);
  return new Promise((resolve) => {
    const shown = (dialog: HTMLDialogElement | null) => {
      if (dialog === null || dialog.open) return;
      dialog.showModal();
      dialog.querySelector<HTMLElement>("input, button[value=yes]")?.focus();
    };
    const closed = ({ currentTarget: dialog }: { currentTarget: HTMLDialogElement }) => {
      const answer = dialog.querySelector("input")?.value ?? "";
      resolve(dialog.returnValue === "yes" ? answer : undefined);
      render(null, place);
      place.remove();
    };
    render(
      <dialog aria-label={title} ref={shown} onClose={closed}>
        <form method="dialog">
          <h2>{title}</h2>
          <p>{text}</p>
          {field && (
            <label class="field">
              {field.label}
              <input type="text" value={field.value} aria-label={field.label} />
            </label>
          )}
          <div class="dialog-buttons">
            <button type="submit" value="" formNoValidate>Keep as it is</button>
            <button type="submit" value="yes" class={danger ? "danger" : "primary"}>{confirm}</button>
          </div>
        </form>
      </dialog>,
      place,
    );
  });
}

export function notice(text: string, kind: "info" | "error" = "info"): void {
  const box = document.getElementById("notices")!;
  const item = h("div", { class: `notice ${kind}` }, h("span", {}, text));
  item.append(
    h("button", { type: "button", class: "icon", "aria-label": "Dismiss", onclick: () => item.remove() }, "×"),
  );
  box.append(item);
  while (box.children.length > 4) box.firstElementChild?.remove();
  setTimeout(() => item.remove(), kind === "error" ? 15_000 : 5000);
}

/** Runs an action and shows an error if it failed. */
export async function attempt(action: () => Promise<unknown>): Promise<void> {
  try {
    await action();
  } catch (error) {
    notice(error instanceof Error ? error.message : String(error), "error");
  }
}
