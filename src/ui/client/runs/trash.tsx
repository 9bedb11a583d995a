/** Deleted runs: brought back, or removed for good. */
import { agoText } from "../../../runs/fields/run_texts.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { actOn, deleteForGood } from "../parts/actions.tsx";
import { listRuns, now, readOnly } from "../parts/api.ts";
import { ask, attempt } from "../parts/dialog.tsx";
import { plural } from "../parts/format.ts";
import { useEffect, useState } from "../parts/preact.ts";
import { Chip } from "../parts/states.tsx";
import { shownState } from "../../../runs/fields/lifecycle_states.ts";

export interface TrashProps {
  done(): void;
}

/** The newest; older ones: `mosaic list --trash`. */
const MOST = 200;

export function Trash({ done }: TrashProps) {
  const [runs, setRuns] = useState<RunJson[]>();
  const [total, setTotal] = useState(0);
  const read = () =>
    attempt(async () => {
      const page = await listRuns({ trash: "1", sort: "-deleted", limit: String(MOST) });
      setRuns(page.runs);
      setTotal(page.total);
    });
  useEffect(() => void read(), []);
  const restore = (run: RunJson) => attempt(() => actOn("restore", [run.run_id]).then(read));
  const remove = async (run: RunJson) => {
    if (await ask(deleteForGood(`"${run.name}"`)) === undefined) return;
    await attempt(() => actOn("delete", [run.run_id], { forever: true }).then(read));
  };
  return (
    <dialog
      class="columns trash"
      aria-label="Deleted runs"
      ref={(dialog: HTMLDialogElement | null) =>
        void (dialog?.open === false && dialog.showModal())}
      onClose={done}
    >
      <h2>Deleted runs</h2>
      {runs?.length === 0 && <p class="empty">The trash is empty.</p>}
      <ol>
        {runs?.map((run) => (
          <li key={run.run_id}>
            <span class="name" title={`${run.name} (${run.run_id})`}>{run.name}</span>
            <Chip state={shownState(run)} />
            <span class="sub">{agoText(run.deleted_at, now())}</span>
            {!readOnly && (
              <>
                <button
                  type="button"
                  aria-label={`Restore ${run.name}`}
                  onClick={() => restore(run)}
                >
                  Restore
                </button>
                <button
                  type="button"
                  class="danger"
                  aria-label={`Delete ${run.name} for good`}
                  onClick={() => remove(run)}
                >
                  Delete for good
                </button>
              </>
            )}
          </li>
        ))}
      </ol>
      {total > MOST && (
        <p class="sub">
          {`The newest ${MOST} of ${plural(total, "run")}; all: mosaic list --trash`}
        </p>
      )}
      <div class="dialog-buttons">
        <button type="button" class="primary" onClick={done}>Close</button>
      </div>
    </dialog>
  );
}
