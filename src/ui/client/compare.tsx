/** Several runs side by side: key numbers, charts with all runs, and the differences of their configs. */
import { elapsedMs, elapsedText, rewardOf, stepsOf } from "../../runs/fields/run_texts.ts";
import type { ComparedRun } from "../api/page_json.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { comparedRuns, heardTime, listRuns, live } from "./parts/api.ts";
import { isCrowd, MOST_RUNS, runsOfAddress } from "./parts/early.ts";
import { Charts } from "./charts/charts.tsx";
import { colorsOfGroups, colorsOfRuns } from "./parts/colors.ts";
import { attempt } from "./parts/dialog.tsx";
import { go, toAddress } from "./parts/dom.ts";
import { figure, plural, recorded, whole } from "./parts/format.ts";
import { duration } from "../../base/text/format.ts";
import { natural } from "../../base/text/natural_order.ts";
import { groupsOf, spreadOf } from "../../telemetry/series/groups.ts";
import { RunPicker } from "./runs/run_picker.tsx";
import type { DifferencesProps } from "./run/config_diff.tsx";
import { Later, ScrollTable, useNow, WhenSeen } from "./parts/parts.tsx";
import { LoadedInsight } from "./sweeps/load_sweeps.tsx";
import { useEffect, useRef, useState } from "./parts/preact.ts";
import { Chip, Chips, isEnded } from "./parts/states.tsx";

/** Interval, in ticks, at which runs that have changed are read again, and the charts with them. */
const TICKS = 3;
/** More runs than this are not all shown in the table until a person asks. */
const FEW = 40;
const FIRST_ROWS = 6;
/** Runs that are named above the charts; names come later than their places. */
const FEW_NAMED = 6;

/** If names are equal, the id distinguishes the runs. */
function labelled(runs: ComparedRun[]): ComparedRun[] {
  const seen = Map.groupBy(runs, ({ name }) => name);
  return runs.map((r) => seen.get(r.name)!.length === 1 ? r : { ...r, name: `${r.name} (${r.run_id.slice(-6)})` });
}

export function Compare() {
  const query = new URLSearchParams(location.search);
  const all = runsOfAddress();
  const ids = all.slice(0, MOST_RUNS);
  const [groupBy, setGroupBy] = useState(query.get("group") ?? "");
  const [chosen, setChosen] = useState<ComparedRun[]>();
  const [changes, setChanges] = useState(0);
  const [picking, setPicking] = useState(false);
  const latest = useRef(new Map<string, ComparedRun>());
  useEffect(() => {
    document.title = "Compare · mosaic";
    let close = () => {};
    let mounted = true;
    /** Runs of which something was recorded or decided since they were read. */
    const changed = new Set<string>();
    const show = (runs: ComparedRun[]) => {
      if (!mounted) return;
      latest.current = new Map(runs.map((r) => [r.run_id, r]));
      setChosen(labelled(runs));
      setChanges((n) => n + 1);
    };
    const note = (line: RunJson) => {
      const before = latest.current.get(line.run_id);
      if (before === undefined) return;
      // These are not shown here, and change without a new point.
      const { steps_per_second, last_output_at, journal_size } = before.telemetry;
      const telemetry = { ...line.telemetry, steps_per_second, last_output_at, journal_size };
      const after = { ...before, ...line, telemetry };
      if (JSON.stringify(after) !== JSON.stringify(before)) changed.add(line.run_id);
    };
    let reading = false;
    const readAgain = async () => {
      if (reading) return;
      const asked = new Set([...changed].filter((id) => latest.current.has(id)));
      changed.clear();
      if (asked.size === 0) return;
      reading = true;
      try {
        const read = new Map((await comparedRuns([...asked])).map((r) => [r.run_id, r]));
        show([...latest.current].flatMap(([id, before]) => asked.has(id) ? read.get(id) ?? [] : before));
      } catch {
        // The page already shows the state of the connection.
        for (const id of asked) changed.add(id);
      } finally {
        reading = false;
      }
    };
    attempt(async () => {
      const compared = ids.length > 0 ? comparedRuns(ids) : undefined;
      const [{ head }] = await Promise.all([listRuns({ limit: "1" }), compared?.then(show)]);
      if (!mounted) return;
      let ticks = 0;
      close = live("/api/live", head, {
        runs: (data: { runs: RunJson[]; deleted: string[] }) => {
          data.runs.forEach(note);
          for (const id of data.deleted) changed.add(id);
        },
        tick: (data: { at: number; runs: RunJson[] }) => {
          heardTime(data.at);
          data.runs.forEach(note);
          if (++ticks % TICKS !== 0) return;
          // A tick has a bound on its runs.
          const sent = new Set(data.runs.map((r) => r.run_id));
          for (const [id, r] of latest.current) {
            if (r.started_at !== null && !isEnded(r) && !sent.has(id)) changed.add(id);
          }
          readAgain();
        },
        restarted: () => {
          for (const id of latest.current.keys()) changed.add(id);
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
  const named = groupBy.startsWith("parameter:") ? [groupBy.slice("parameter:".length)] : [];
  const parameters = [...new Set([...named, ...(chosen ?? []).flatMap((r) => r.parameters.map(({ name }) => name))])]
    .sort(natural);
  const pick = (next: string[]) => {
    toAddress({ runs: next.join(",") });
    go(location.pathname + location.search);
  };
  const names = new Map((chosen ?? []).map((r) => [r.run_id, r.name]));
  const picked = () =>
    ids.map((id) => {
      const name = names.get(id) ?? id.slice(-6);
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
    });
  const gone = chosen === undefined ? 0 : ids.length - chosen.length;
  return (
    <>
      <h1>Compare</h1>
      <div class="filters">
        {ids.length > FEW_NAMED
          ? (
            <details class="many" onToggle={(e) => setPicking(e.currentTarget.open)}>
              <summary>{plural(ids.length, "run")}</summary>
              {picking && <div class="filters">{picked()}</div>}
            </details>
          )
          : picked()}
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
        {ids.length < MOST_RUNS && (
          <RunPicker
            label="Add a run"
            without={ids}
            onpick={(run) => pick([...ids, run.run_id])}
          />
        )}
      </div>
      {all.length > MOST_RUNS && (
        <p class="empty" role="status">{`The first ${MOST_RUNS} of ${all.length} runs are compared.`}</p>
      )}
      {gone > 0 && <p class="empty" role="status">{`${plural(gone, "run")} no longer there.`}</p>}
      <div class="compare">
        {ids.length === 0 && <p class="empty">Choose runs to lay their charts over each other.</p>}
        {chosen && (
          <>
            <Figures runs={chosen} groups={groups} />
            <Charts runs={chosen.map((r, i) => ({ ...r, group: groups[i] }))} changes={changes} />
            <h2>Parameters and results</h2>
            <WhenSeen of={() => <LoadedInsight runs={chosen} groups={groups} changes={changes} />} />
            <h2>Where the configs differ</h2>
            <WhenSeen
              of={() => <Later view="ConfigDifferences" props={{ runs: chosen } satisfies DifferencesProps} />}
            />
          </>
        )}
      </div>
    </>
  );
}

/** Groups are foldable rows above those of their runs. */
function Figures({ runs, groups }: { runs: RunJson[]; groups: string[] }) {
  const at = useNow();
  const numeric = ["Mean reward", "Steps", "Episodes", "Elapsed"].map((t) => [t, "num"] as const);
  const [opened, setOpened] = useState(() => new URLSearchParams(location.search).getAll("open"));
  const [all, setAll] = useState(false);
  const toggle = (group: string) => {
    const next = opened.includes(group) ? opened.filter((g) => g !== group) : [...opened, group];
    setOpened(next);
    toAddress({ open: next });
  };
  const places = colorsOfGroups(groups);
  const own = colorsOfRuns(runs);
  // The lines of a crowd are identified by pointing at them.
  const mark = (color: string) =>
    !isCrowd(groups.length > 0 ? [...places] : runs) && <span class="mark" style={{ color }} />;
  const row = (r: RunJson, i?: number) => (
    <tr key={r.run_id}>
      <td>
        {i !== undefined && mark(own.get(r.run_id)!)}
        <a href={`/runs/${encodeURIComponent(r.run_id)}`}>{r.name}</a>
      </td>
      <td>
        <Chip state={r.state} />
      </td>
      <td class="num">{figure(rewardOf(r))}</td>
      <td class="num">{whole(stepsOf(r))}</td>
      <td class="num">{recorded(r.telemetry.episodes)}</td>
      <td class="num">{elapsedText(r, at)}</td>
    </tr>
  );
  const rows = [...places].map(([group, color]) => {
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
        <th scope="row">
          {mark(color)}
          <button
            type="button"
            class="link"
            aria-expanded={open ? "true" : "false"}
            onClick={() => toggle(group)}
          >
            {group}
          </button>{" "}
          <span class="sub">{plural(members.length, "run") + (members.length > 1 ? ", mean ± sd" : "")}</span>
        </th>
        <td>
          <Chips of={members} />
        </td>
        <td class="num">{spread(members.map(rewardOf), figure)}</td>
        <td class="num">{spread(members.map(stepsOf), (n) => whole(Math.round(n)))}</td>
        <td class="num">
          {spread(members.map((r) => r.telemetry.episodes || null), (n) => whole(Math.round(n)))}
        </td>
        <td class="num">{spread(members.map((r) => elapsedMs(r, at)), duration)}</td>
      </tr>,
      ...(open ? members.map((r) => row(r)) : []),
    ];
  });
  const of = rows.length > 0 ? rows.flat() : runs;
  // With many runs, the charts are more important than the table.
  const shown = all || of.length <= FEW ? of : of.slice(0, FIRST_ROWS);
  return (
    <div class="compared">
      <ScrollTable label="Figures" kind="records" headings={["Run", "State", ...numeric]}>
        {shown.map((one, i) => "run_id" in one ? row(one, i) : one)}
      </ScrollTable>
      {of.length > shown.length && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          {`The first ${shown.length} of ${of.length} rows: show all`}
        </button>
      )}
    </div>
  );
}
