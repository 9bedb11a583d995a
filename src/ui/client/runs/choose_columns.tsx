/** Which columns the list of runs shows, in which order. Each change is shown at once. */
import { natural } from "../../../base/text/natural_order.ts";
import { useState } from "../parts/preact.ts";

/** Offered at once; the search narrows them. */
const OFFERED = 200;

interface Offered {
  name: string;
  label: string;
  title?: string;
}

export interface ColumnsProps {
  /** Parameters and metrics. */
  all: Offered[];
  /** Those of the run itself. */
  usual: readonly Offered[];
  /** Names, in their order. */
  shown: string[];
  /** @param names undefined: the usual columns again */
  change(names: string[] | undefined): void;
  done(): void;
}

export function Columns({ all, usual, shown, change, done }: ColumnsProps) {
  const [typed, setTyped] = useState("");
  const known = [...usual, ...all];
  const of = (name: string) =>
    known.find((column) => column.name === name) ?? { name, label: name };
  const wanted = typed.trim().toLowerCase();
  const fits = ({ name, label }: Offered) => `${name} ${label}`.toLowerCase().includes(wanted);
  const hidden = known.filter((one) => !shown.includes(one.name) && fits(one))
    .sort((a, b) =>
      Number(!usual.includes(a)) - Number(!usual.includes(b)) || natural(a.name, b.name)
    );
  const move = (name: string, to: number) => {
    const next = shown.filter((one) => one !== name);
    next.splice(to, 0, name);
    change(next);
  };
  const [dragged, setDragged] = useState<string>();
  const line = ({ name, label, title = name }: Offered) => {
    const at = shown.indexOf(name);
    return (
      <li
        key={name}
        title={title}
        draggable={at >= 0}
        onDragStart={() => setDragged(name)}
        onDragOver={(e) => dragged !== undefined && at >= 0 && e.preventDefault()}
        onDrop={() => dragged !== undefined && at >= 0 && move(dragged, at)}
      >
        <label>
          <input
            type="checkbox"
            checked={at >= 0}
            onChange={() =>
              change(at >= 0 ? shown.filter((one) => one !== name) : [...shown, name])}
          />{" "}
          {label}
          {/^(?:param|metric)\./.test(name) && (
            <span class="sub">{` ${name.slice(0, name.indexOf("."))}`}</span>
          )}
        </label>
        {([[-1, "earlier", "↑"], [1, "later", "↓"]] as const).map(([by, where, sign]) => (
          <button
            key={where}
            type="button"
            class="icon"
            aria-label={`${label} ${where}`}
            disabled={at < 0 || at + by < 0 || at + by >= shown.length}
            onClick={() => move(name, at + by)}
          >
            {sign}
          </button>
        ))}
      </li>
    );
  };
  return (
    <dialog
      class="columns"
      aria-label="Columns"
      ref={(dialog: HTMLDialogElement | null) =>
        void (dialog?.open === false && dialog.showModal())}
      onClose={done}
    >
      <h2>Columns</h2>
      <input
        type="search"
        placeholder="Find a parameter, a metric or a column"
        aria-label="Find a column"
        value={typed}
        onInput={(e) => setTyped(e.currentTarget.value)}
      />
      <ol aria-label="Shown">{shown.map(of).filter(fits).map(line)}</ol>
      <h3>
        {`Not shown${hidden.length > OFFERED ? `: the first ${OFFERED} of ${hidden.length}` : ""}`}
      </h3>
      <ol aria-label="Not shown">{hidden.slice(0, OFFERED).map(line)}</ol>
      <div class="dialog-buttons">
        <button type="button" onClick={() => change(undefined)}>Usual columns</button>
        <button type="button" class="primary" onClick={done}>Close</button>
      </div>
    </dialog>
  );
}
