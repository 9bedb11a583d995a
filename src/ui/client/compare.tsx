/** Several runs side by side: figures, charts laid over each other, and where their configs differ. */
import type { RunLine, RunPage } from "../page_json.ts";
import { answer, heardTime, listRuns, live, param, runApi, runsByIds } from "./api.ts";
import { Charts, toAddress } from "./charts.tsx";
import { ConfigDifferences } from "./config_diff.tsx";
import { attempt } from "./dialog.tsx";
import { go } from "./dom.ts";
import { duration, elapsed, plural, score, whole } from "./format.ts";
import { natural } from "../../base/natural_order.ts";
import { groupsOf, spreadOf } from "../../telemetry/groups.ts";
import { ScrollTable, useNow } from "./parts.tsx";
import { Scatter } from "./scatter.tsx";
import { useEffect, useRef, useState } from "./preact.ts";
import { Chip, isEnded } from "./states.tsx";

/** Runs in one comparison; the daemon gives no more at once. */
const MOST = 200;
/** Every so many ticks the figures and charts are read again. */
const TICKS = 3;

type Compared = RunLine & Pick<RunPage, "parameters">;

/** Names may be the same: then the id tells them apart. */
function labelled(runs: Compared[]): Compared[] {
  return runs.map((r) => ({
    ...r,
    name: runs.some((o) => o !== r && o.name === r.name) ? `${r.name} (${r.run_id.slice(-6)})` : r.name,
  }));
}

export function Compare() {
  const query = new URLSearchParams(location.search);
  const all = (query.get("runs") ?? "").split(",").filter((id) => id !== "");
  const ids = all.slice(0, MOST);
  const [groupBy, setGroupBy] = useState(query.get("group") ?? "");
  const [known, setKnown] = useState<RunLine[]>([]);
  const [chosen, setChosen] = useState<Compared[]>();
  const [changes, setChanges] = useState(0);
  const latest = useRef<Compared[]>([]);
  useEffect(() => {
    document.title = "Compare · mosaic";
    let close = () => {};
    let mounted = true;
    const show = (runs: Compared[]) => {
      if (!mounted) return;
      latest.current = runs;
      setChosen(labelled(runs));
      setChanges((n) => n + 1);
    };
    const readAgain = async () => {
      if (latest.current.every(isEnded)) return;
      const runs = await runsByIds(latest.current.map((r) => r.run_id));
      show(latest.current.map((mine) => ({ ...mine, ...runs.find((r) => r.run_id === mine.run_id) })));
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
          // The page already shows the state of the connection.
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

  const groups = chosen && groupBy !== "" ? groupsOf(chosen, groupBy) : [];
  const parameters = [...new Set((chosen ?? []).flatMap((r) => r.parameters.map(({ name }) => name)))].sort(natural);
  const pick = (next: string[]) => {
    toAddress({ runs: next.join(",") });
    go(location.pathname + location.search);
  };
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
        {chosen && (
          <label>
            Group by{" "}
            <select
              value={groupBy}
              onChange={(e) => {
                setGroupBy(e.currentTarget.value);
                toAddress({ group: e.currentTarget.value });
              }}
            >
              <option value="">Nothing</option>
              <option value="name">Name without its seed</option>
              <option value="parameters">All parameters but the seed</option>
              <option value="tags">Tags</option>
              {parameters.map((name) => <option key={name} value={`parameter:${name}`}>{name}</option>)}
            </select>
          </label>
        )}
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
      {all.length > MOST && <p class="empty" role="status">{`The first ${MOST} of ${all.length} runs are compared.`}
      </p>}
      <div class="compare">
        {ids.length === 0 && <p class="empty">Choose runs to lay their charts over each other.</p>}
        {chosen && (
          <>
            <Figures runs={chosen} groups={groups} />
            <Charts runs={chosen.map((r, i) => ({ ...r, group: groups[i] }))} changes={changes} />
            <h2>Parameters and results</h2>
            <Scatter runs={chosen} groups={groups} />
            <h2>Where the configs differ</h2>
            <ConfigDifferences runs={chosen} />
          </>
        )}
      </div>
    </>
  );
}

/** Groups are rows that fold, over those of their runs. */
function Figures({ runs, groups }: { runs: RunLine[]; groups: string[] }) {
  const at = useNow();
  const numeric = ["Steps", "Episodes", "Mean reward", "Elapsed"].map((t) => [t, "num"] as const);
  const [opened, setOpened] = useState<string[]>([]);
  const row = (r: RunLine) => (
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
  );
  const rows = [...new Set(groups)].sort(natural).map((group) => {
    const members = runs.filter((_, i) => groups[i] === group);
    const open = opened.includes(group);
    const spread = (values: (number | null)[], text: (n: number) => string) => {
      const known = values.filter((v) => v !== null);
      if (known.length === 0) return "–";
      const { middle, high } = spreadOf(known, "sd");
      return known.length === 1 ? text(middle) : `${text(middle)} ± ${text(high - middle)}`;
    };
    return [
      <tr key={group} class="group">
        <th scope="row" colSpan={2}>
          <button
            type="button"
            class="link"
            aria-expanded={open ? "true" : "false"}
            onClick={() => setOpened(open ? opened.filter((g) => g !== group) : [...opened, group])}
          >
            {group}
          </button>{" "}
          <span class="sub">{`${plural(members.length, "run")}, mean ± sd`}</span>
        </th>
        <td class="num">{spread(members.map((r) => r.steps), (n) => whole(Math.round(n)))}</td>
        <td class="num">{spread(members.map((r) => r.episodes), (n) => whole(Math.round(n)))}</td>
        <td class="num">{spread(members.map((r) => r.mean_reward_100), score)}</td>
        <td class="num">{spread(members.map((r) => elapsed(r, at)), duration)}</td>
      </tr>,
      ...(open ? members.map(row) : []),
    ];
  });
  return (
    <ScrollTable label="Figures" kind="records" headings={["Run", "State", ...numeric]}>
      {rows.length > 0 ? rows : runs.map(row)}
    </ScrollTable>
  );
}
