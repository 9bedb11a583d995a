/** Chooses one of all runs, however many, by a part of its name. */
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { listRuns } from "../parts/api.ts";
import { useEffect, useState } from "../parts/preact.ts";

/** Offered at once; typing narrows them. */
const OFFERED = 50;

const optionOf = ({ name, run_id }: RunJson) => `${name} (${run_id.slice(-6)})`;

interface Props {
  label: string;
  /** Ids that are not offered. */
  without: readonly string[];
  onpick(run: RunJson): void;
}

export function RunPicker({ label, without, onpick }: Props) {
  const [typed, setTyped] = useState("");
  const [found, setFound] = useState<RunJson[]>([]);
  const [asked, setAsked] = useState(false);
  // What follows the name in an option is not part of it.
  const name = typed.replace(/ \([0-9A-Z]{6}\)$/, "");
  useEffect(() => {
    if (!asked) return;
    let current = true;
    const timer = setTimeout(() => {
      // While the daemon cannot be reached, the page says so.
      listRuns({ limit: String(OFFERED), name }).then(
        ({ runs }) => current && setFound(runs),
        () => {},
      );
    }, 150);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [name, asked]);
  const offered = found.filter(({ run_id }) => !without.includes(run_id));
  const list = `runs-${label.replace(/\W/g, "")}`;
  return (
    <>
      <input
        type="search"
        list={list}
        placeholder={`${label} …`}
        aria-label={label}
        value={typed}
        onFocus={() => setAsked(true)}
        onInput={(e) => {
          const text = e.currentTarget.value;
          const chosen = offered.find((run) => optionOf(run) === text);
          setTyped(chosen === undefined ? text : "");
          if (chosen !== undefined) onpick(chosen);
        }}
      />
      <datalist id={list}>
        {offered.map((run) => <option key={run.run_id} value={optionOf(run)} />)}
      </datalist>
    </>
  );
}
