/** Which columns the list of runs shows, and in which order. Each change is shown at once. */

export interface ColumnsProps {
  all: { name: string; label: string; title?: string }[];
  /** Names, in their order. */
  shown: string[];
  /** @param names undefined: the usual columns again */
  change(names: string[] | undefined): void;
  done(): void;
}

export function Columns({ all, shown, change, done }: ColumnsProps) {
  const hidden = all.filter(({ name }) => !shown.includes(name));
  const of = (name: string) => all.find((column) => column.name === name);
  const move = (name: string, by: -1 | 1) => {
    const at = shown.indexOf(name);
    const next = shown.filter((one) => one !== name);
    next.splice(at + by, 0, name);
    change(next);
  };
  return (
    <dialog
      class="columns"
      aria-label="Columns"
      ref={(dialog: HTMLDialogElement | null) => void (dialog?.open === false && dialog.showModal())}
      onClose={done}
    >
      <h2>Columns</h2>
      <ol>
        {[...shown.flatMap((name) => of(name) ?? []), ...hidden].map(({ name, label, title }) => {
          const at = shown.indexOf(name);
          return (
            <li key={name} title={title}>
              <label>
                <input
                  type="checkbox"
                  checked={at >= 0}
                  onChange={() => change(at >= 0 ? shown.filter((one) => one !== name) : [...shown, name])}
                />{" "}
                {label}
              </label>
              {([[-1, "earlier", "↑"], [1, "later", "↓"]] as const).map(([by, where, sign]) => (
                <button
                  key={where}
                  type="button"
                  class="icon"
                  aria-label={`${label} ${where}`}
                  disabled={at < 0 || at + by < 0 || at + by >= shown.length}
                  onClick={() => move(name, by)}
                >
                  {sign}
                </button>
              ))}
            </li>
          );
        })}
      </ol>
      <div class="dialog-buttons">
        <button type="button" onClick={() => change(undefined)}>Usual columns</button>
        <button type="button" class="primary" onClick={done}>Close</button>
      </div>
    </dialog>
  );
}
