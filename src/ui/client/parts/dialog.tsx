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

/**
 * Enter confirms a name, and never a destruction: then it keeps things as they are, or does nothing
 * in a field.
 *
 * @returns the field's text ("" without one), or undefined if the person cancelled
 */
export function ask(
  { title, text, confirm, danger, field }: Question,
): Promise<string | undefined> {
  const place = h("div");
  document.body.append(place);
  return new Promise((resolve) => {
    const shown = (dialog: HTMLDialogElement | null) => {
      if (dialog === null || dialog.open) return;
      dialog.showModal();
      const input = dialog.querySelector("input");
      (input ?? dialog.querySelector<HTMLElement>(`button[value=${danger ? "no" : "yes"}]`))
        ?.focus();
      input?.select();
    };
    const answered = (event: Event) => {
      const button = event.currentTarget as HTMLButtonElement;
      button.closest("dialog")!.close(button.value);
    };
    const closed = ({ currentTarget: dialog }: { currentTarget: HTMLDialogElement }) => {
      const answer = dialog.querySelector("input")?.value ?? "";
      resolve(dialog.returnValue === "yes" ? answer : undefined);
      render(null, place);
      place.remove();
    };
    render(
      <dialog aria-label={title} ref={shown} onClose={closed}>
        <form
          onSubmit={(event) => {
            // By Enter in the field.
            event.preventDefault();
            if (!danger) event.currentTarget.closest("dialog")!.close("yes");
          }}
        >
          <h2>{title}</h2>
          <p>{text}</p>
          {field && (
            <label class="field">
              {field.label}
              <input type="text" defaultValue={field.value} aria-label={field.label} />
            </label>
          )}
          <div class="dialog-buttons">
            <button type="button" value="no" onClick={answered}>Keep as it is</button>
            <button
              type="button"
              value="yes"
              class={danger ? "danger" : "primary"}
              onClick={answered}
            >
              {confirm}
            </button>
          </div>
        </form>
      </dialog>,
      place,
    );
  });
}

/** @param undo takes back what the text says, for as long as the notice is there */
export function notice(text: string, kind: "info" | "error" = "info", undo?: () => void): void {
  const box = document.getElementById("notices")!;
  const item = h("div", { class: `notice ${kind}` }, h("span", {}, text));
  if (undo !== undefined) {
    const take = () => {
      item.remove();
      undo();
    };
    item.append(h("button", { type: "button", onclick: take }, "Undo"));
  }
  item.append(
    h("button", {
      type: "button",
      class: "icon",
      "aria-label": "Dismiss",
      onclick: () => item.remove(),
    }, "×"),
  );
  box.append(item);
  while (box.children.length > 4) box.firstElementChild?.remove();
  setTimeout(() => item.remove(), kind === "error" || undo !== undefined ? 15_000 : 5000);
}

export function noticeOf(error: unknown): void {
  notice(error instanceof Error ? error.message : String(error), "error");
}

/** Runs an action and shows an error if it failed. */
export async function attempt(action: () => Promise<unknown>): Promise<void> {
  try {
    await action();
  } catch (error) {
    noticeOf(error);
  }
}
