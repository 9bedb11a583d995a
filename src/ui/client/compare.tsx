/** Several runs side by side: figures, charts laid over each other, and where their configs differ. */
import type { RunLine } from "../page_json.ts";
import { answer, heardTime, listRuns, live, param, runApi, runsByIds } from "./api.ts";
import { Charts } from "./charts.tsx";
import { ConfigDifferences } from "./config_diff.tsx";
import { attempt } from "./dialog.tsx";
import { go } from "./dom.ts";
import { duration, elapsed, score, whole } from "./format.ts";
import { ScrollTable, useNow } from "./parts.tsx";
import { useEffect, useRef, useState } from "./preact.ts";
import { Chip, isEnded } from "./states.tsx";

const MOST = 12;
/** Every so many ticks the figures and charts are read again. */
const TICKS = 3;

/** Names may be the same: then the id tells them apart. */
function labelled(runs: RunLine[]): RunLine[] {
  return runs.map((r) => ({
    ...r,
    name: runs.some((o) => o !== r && o.name === r.name) ? `${r.name} (${r.run_id.slice(-6)})` : r.name,
  }));
}

export function Compare() {
  const ids = (new URLSearchParams(location.search).get("runs") ?? "").split(",").filter((id) => id !== "")
    .slice(0, MOST);
  const [known, setKnown] = useState<RunLine[]>([]);
  const [chosen, setChosen] = useState<RunLine[]>();
  const [changes, setChanges] = useState(0);
  const latest = useRef<RunLine[]>([]);
  useEffect(() => {
    document.title = "Compare · mosaic";
    let close = () => {};
    let mounted = true;
    const show = (runs: RunLine[]) => {
      if (!mounted) return;
      latest.current = runs;
      setChosen(labelled(runs));
      setChanges((n) => n + 1);
    };
    const readAgain = async () => {
      if (latest.current.every(isEnded)) return;
      const runs = await runsByIds(latest.current.map((r) => r.run_id));
      show(latest.current.map((mine) => runs.find((r) => r.run_id === mine.run_id) ?? mine));
    };
    attempt(async () => {
      const { runs, head } = await listRuns({ limit: "200" });
      if (!mounted) return;
      setKnown(runs);
      if (ids.length > 0) show(await Promise.all(ids.map((id) => answer(runApi.$get(param(id))))));
      let ticks = 0;
      close = live("/api/live", head, {
        tick: (data) => {
          heardTime(data.at);
          // The connection's state is shown already.
          if (++ticks % TICKS === 0) readAgain().catch(() => {});
        },
      });
      if (!mounted) close();
    });
    return () => {
      mounted = false;
      close();
    };
  }, []);

  const pick = (next: string[]) => go(next.length > 0 ? `/compare?runs=${next.join(",")}` : "/compare");
  return (
    <>
      <h1>Compare</h1>
      <div class="filters">
        {ids.map((id) => {
          const name = [...(chosen ?? []), ...known].find((r) => r.run_id === id)?.name ?? id.slice(-6);
          return (
            <button
              key={id}
              type="button"
              class="picked"
              aria-label={`Leave out ${name}`}
              onClick={() => pick(ids.filter((i) => i !== id))}
            >
              <span>{name}</span> ×
            </button>
          );
        })}
        {ids.length < MOST && (
          <select
            aria-label="Add a run"
            onChange={(e) => e.currentTarget.value !== "" && pick([...ids, e.currentTarget.value])}
          >
            <option value="">Add a run …</option>
            {known.filter((r) => !ids.includes(r.run_id)).map((r) => (
              <option key={r.run_id} value={r.run_id}>{`${r.name} (${r.run_id.slice(-6)})`}</option>
            ))}
          </select>
        )}
      </div>
      <div class="compare">
        {ids.length === 0 && <p class="empty">Choose runs to lay their charts over each other.</p>}
        {chosen && (
          <>
            <Figures runs={chosen} />
            <Charts runs={chosen} changes={changes} />
            <h2>Where the configs differ</h2>
            <ConfigDifferences runs={chosen} />
          </>
        )}
      </div>
    </>
  );
}

function Figures({ runs }: { runs: RunLine[] }) {
  const at = useNow();
  const numeric = ["Steps", "Episodes", "Mean reward", "Elapsed"].map((t) => [t, "num"] as const);
  return (
    <ScrollTable label="Figures" kind="records" headings={["Run", "State", ...numeric]}>
      {runs.map((r) => (
        <tr key={r.run_id}>
          <td>
            <a href={`/runs/${encodeURIComponent(r.run_id)}`}>{r.name}</a>
          </td>
          <td>
            <Chip state={r.state} />
          </td>
          <td class="num">{whole(r.steps)}</td>
          <td class="num">{whole(r.episodes)}</td>
          <td class="num">{score(r.mean_reward_100)}</td>
          <td class="num">{duration(elapsed(r, at))}</td>
        </tr>
      ))}
    </ScrollTable>
  );
}
