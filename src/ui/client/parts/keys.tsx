/** The list of keys, shown by `?`, and the keys of every view. */
import { go, h } from "./dom.ts";
import { render } from "./preact.ts";

const KEYS: [where: string, keys: [key: string, does: string][]][] = [
  ["Everywhere", [
    ["?", "these keys"],
    ["g r", "runs"],
    ["t", "other colours"],
    ["Tab, Enter", "to every control, and to use it"],
  ]],
  ["Runs", [
    ["/", "filter"],
    ["↑ ↓ or j k, Home, End", "move"],
    ["x", "select"],
    ["Enter", "open the run, fold the group"],
    ["Escape", "leave the filter"],
  ]],
  ["A run", [["← →, Home, End", "the other tabs"]]],
  ["A chart that has the focus", [
    ["← → (with Shift: ten)", "move the cursor"],
    ["Home, End", "first and last point"],
    ["+ −", "zoom in around the cursor, show all"],
    ["b", "the table behind it"],
    ["drag; double click", "zoom in; show all"],
  ]],
];

/** Time for the second key after `g`. */
const PAIR_MS = 1500;

/** Whether typed keys are text for this target. */
export function isTyping(event: Event): boolean {
  return (event.target as Element).matches?.("input, select, textarea, dialog *") ?? false;
}

function showKeys(): void {
  if (document.querySelector("dialog[open]")) return;
  const place = h("div");
  document.body.append(place);
  const closed = () => {
    render(null, place);
    place.remove();
  };
  render(
    <dialog
      aria-label="Keys"
      class="keys"
      ref={(d: HTMLDialogElement | null) => void (d?.open === false && d.showModal())}
      onClose={closed}
    >
      <form method="dialog">
        <h2>Keys</h2>
        {KEYS.map(([where, keys]) => (
          <section key={where}>
            <h3>{where}</h3>
            <dl>
              {keys.map(([key, does]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <div class="dialog-buttons">
          <a class="button" href="/docs/index.html">Manual</a>
          <button type="submit" class="primary">Close</button>
        </div>
      </form>
    </dialog>,
    place,
  );
}

export function listenToKeys(): void {
  let went = 0;
  document.getElementById("keys")!.addEventListener("click", showKeys);
  addEventListener("keydown", (event) => {
    if (
      event.defaultPrevented || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey
    ) return;
    const second = event.timeStamp - went < PAIR_MS;
    went = 0;
    if (event.key === "?") showKeys();
    else if (event.key === "g") went = event.timeStamp;
    else if (second && event.key === "r") go("/");
    else if (event.key === "t") document.getElementById("theme")!.click();
    else return;
    event.preventDefault();
  });
}
