/**
 * The list of sweeps, and one sweep: its winner, the best so far, what matters, curves, points,
 * trials, what was stopped.
 */
import "../parts/common.ts";
import { metricColumn } from "../../../runs/query/query_columns.ts";
import type { SweepJson } from "../../../dispatch/core/core.ts";
import { duration } from "../../../base/text/format.ts";
import { answer, api, readOnly } from "../parts/api.ts";
import { colorsOfGroups } from "../parts/colors.ts";
import { stateWord } from "../../../runs/fields/lifecycle_states.ts";
import { ask, attempt } from "../parts/dialog.tsx";
import { Charts } from "../charts/charts.tsx";
import { BestSoFar } from "../insight/best_so_far.tsx";
import { ImportanceOf } from "../insight/importance.tsx";
import { Insight } from "../insight/insight.tsx";
import { figure, plural, whole } from "../parts/format.ts";
import { ScrollTable, Terms, useConnection } from "../parts/parts.tsx";
import { useEffect, useState } from "../parts/preact.ts";
import { SaveLink } from "../media/save_link.tsx";

type Detail = NonNullable<SweepJson["detail"]>;
type Trial = Detail["trials"][number];
const POLL_MS = 2000;
/** The view rests for this many times the time of an answer. */
const POLL_REST = 9;
/** Rows of a table until a person asks for all. */
const FIRST_ROWS = 50;
/** Points whose curves are drawn until a person asks for all. */
const FIRST_CURVES = 8;
/** Runs of one chart. */
const MOST_CURVES = 1000;

/** @param name of one sweep; "": all */
export function SweepsView({ name }: { name: string }) {
  useConnection();
  return <div class="compare">{name === "" ? <All /> : <One key={name} name={name} />}</div>;
}

/** Reads again while the view is open; faults are shown once, by the state of the connection. */
function usePolled<T>(read: () => Promise<T>): [T | undefined, () => void] {
  const [value, setValue] = useState<T>();
  const [asked, ask] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let mounted = true;
    let first = true;
    const again = async () => {
      const began = performance.now();
      if (first) await attempt(async () => setValue(await read()));
      else await read().then((value) => mounted && setValue(value), () => {});
      first = false;
      // A sweep of thousands of trials takes the daemon long to read.
      if (mounted) {
        timer = setTimeout(again, Math.max(POLL_MS, POLL_REST * (performance.now() - began)));
      }
    };
    again();
    return () => {
      mounted = false;
      clearTimeout(timer);
    };
  }, [asked]);
  return [value, () => ask(asked + 1)];
}

/** As people say it; a run's states, and what only a trial can be. */
const trialWord = (state: string) => stateWord(state.toUpperCase());
const statesText = ({ states }: SweepJson) =>
  Object.entries(states).map(([state, n]) => `${whole(n)} ${trialWord(state).toLowerCase()}`).join(
    ", ",
  );

function All() {
  const [sweeps] = usePolled(async () =>
    (await answer(api.sweeps.$get()) as { sweeps: SweepJson[] }).sweeps
  );
  useEffect(() => {
    document.title = "Sweeps · mosaic";
  }, []);
  return (
    <>
      <h1>Sweeps</h1>
      {sweeps?.length === 0 && (
        <p class="empty">
          No sweeps yet.{" "}
          <code>{"mosaic sweep --grid lr=1e-3,3e-4 -- python train.py --lr {lr}"}</code> begins one.
        </p>
      )}
      {sweeps !== undefined && sweeps.length > 0 && (
        <ScrollTable
          label="Sweeps"
          kind="records"
          headings={["Sweep", "State", ["Trials", "num"], "", "Parameters", "Metric", "Begun"]}
        >
          {sweeps.map((sweep) => (
            <tr key={sweep.sweep_id}>
              <td>
                <a href={`/sweeps/${encodeURIComponent(sweep.name)}`}>{sweep.name}</a>
              </td>
              <td>{sweep.state}</td>
              <td class="num">{`${whole(sweep.made)} of ${whole(sweep.total)}`}</td>
              <td>{statesText(sweep)}</td>
              <td>{sweep.parameters.join(", ")}</td>
              <td>{sweep.metric?.name ?? ""}</td>
              <td>{sweep.created_at.slice(0, 16).replace("T", " ")}</td>
            </tr>
          ))}
        </ScrollTable>
      )}
    </>
  );
}

/** Changes that a state allows. */
const CHANGES: Record<string, string[]> = {
  running: ["pause", "cancel"],
  paused: ["resume", "cancel"],
  cancelled: ["resume"],
};

function One({ name }: { name: string }) {
  const [sweep, readAgain] = usePolled(async () =>
    await answer(api.sweeps[":id"].$get({ param: { id: encodeURIComponent(name) } })) as SweepJson
  );
  useEffect(() => {
    document.title = `${name} · sweeps · mosaic`;
  }, []);
  if (sweep?.detail === undefined) return <h1>{name}</h1>;
  const { detail, metric } = sweep;
  const { best, winner, saved, spent } = detail;
  const change = (action: string, json: { seeds?: string; winner?: boolean } = {}) =>
    attempt(async () => {
      await answer(
        api.sweeps[":id"][":action"].$post({
          param: { id: encodeURIComponent(name), action },
          json,
        }),
      );
      readAgain();
    });
  const moreSeeds = async (winner: boolean) => {
    const seeds = await ask({
      title: winner ? "More seeds for the best point" : "More seeds for all points",
      text: `The sweep goes on with ${
        winner ? "this point" : plural(detail.points.length, "point")
      } and each of these seeds.`,
      confirm: "Add trials",
      field: { label: "Seeds, such as 4..8 or 11,12", value: detail.next_seeds! },
    });
    if (seeds !== undefined) await change("extend", { seeds, winner });
  };
  const failed = sweep.states["faulted"] ?? 0;
  // The point is what a person keeps; one trial says little of it if there are several.
  const keeps = winner !== null && winner.values > 1 ? winner : best;
  const ended = detail.trials.filter(({ finished_at }) => finished_at !== null).length;
  return (
    <>
      <h1>{name}</h1>
      <div class="filters">
        <span>
          {`${sweep.state}: ${whole(sweep.made)} of ${whole(sweep.total)} made, ${
            statesText(sweep)
          }`}
        </span>
        {!readOnly &&
          (CHANGES[sweep.state] ?? []).map((action) => (
            <button
              key={action}
              type="button"
              onClick={() => change(action)}
            >
              {action[0]!.toUpperCase() + action.slice(1)}
            </button>
          ))}
        {!readOnly && failed > 0 && (
          <button type="button" onClick={() => change("retry_failed")}>
            {`Retry ${plural(failed, "failed trial")}`}
          </button>
        )}
        {!readOnly && detail.next_seeds !== null && (
          <>
            {winner !== null && detail.points.length > 1 && (
              <button
                type="button"
                onClick={() => moreSeeds(true)}
              >
                More seeds for the best …
              </button>
            )}
            <button type="button" onClick={() => moreSeeds(false)}>More seeds …</button>
          </>
        )}
        <a href={`/?where=${encodeURIComponent(`sweep = ${JSON.stringify(name)}`)}`}>Its runs</a>
      </div>
      <Terms
        kind="facts"
        of={[
          ...(metric === null ? [] : [
            [
              "Metric",
              `${metric.name}, the ${metric.goal === "max" ? "higher" : "lower"} the better`,
            ] as const,
          ]),
          ...(best === null
            ? []
            : [["Best", `${figure(best.value)} in trial ${best.trial}`] as const]),
          ...(winner === null || winner.low === null ? [] : [
            [
              "Best point",
              `${figure(winner.mean!)} [${figure(winner.low)}, ${figure(winner.high!)}] over ${
                plural(winner.values, "trial")
              }: ${parametersText(winner.parameters)}`,
            ] as const,
          ]),
          ...(sweep.waiting_for === null ? [] : [["Waits", sweep.waiting_for] as const]),
          [
            "Spent",
            `${duration(spent.seconds * 1000)} of running time, ${whole(spent.steps)} steps`,
          ],
          ...(saved.trials === 0 ? [] : [
            [
              "Saved",
              `about ${whole(saved.steps)} steps and ${
                duration(saved.seconds * 1000)
              }, by stopping ${plural(saved.trials, "trial")} early`,
            ] as const,
          ]),
        ]}
      />
      {keeps !== null && (
        <p class="command">
          <code>{keeps.command}</code> <Copy text={keeps.command} />
        </p>
      )}
      <details class="statement">
        <summary>A statement to publish</summary>
        <p>
          {detail.statement} <Copy text={detail.statement} />
        </p>
      </details>
      {metric !== null && (
        <div class="insights">
          <div>
            <h2>Best so far</h2>
            <BestSoFar
              ends={detail.trials.flatMap(({ run_id, trial, finished_at, value, state }) =>
                finished_at === null || value === null || state !== "terminated" ? [] : [{
                  run_id: run_id!,
                  name: `trial ${trial}`,
                  at: Date.parse(finished_at),
                  result: value,
                }]
              )}
              begun={Date.parse(sweep.created_at)}
              goal={metric.goal}
            />
          </div>
          <div>
            <h2>What matters</h2>
            <ImportanceOf
              outcomes={detail.trials.flatMap(({ parameters, judged }) =>
                judged === null ? [] : [{ parameters: unseeded(parameters, sweep), result: judged }]
              )}
              note={detail.judged_at === null
                ? ""
                : "Trials are compared at the first rung, which those that were stopped have reached, too."}
            />
          </div>
        </div>
      )}
      {metric !== null && <Curves sweep={sweep} />}
      {metric !== null && (
        <Results detail={detail} metric={metric} changes={`${sweep.made} ${ended}`} />
      )}
      <Points sweep={sweep} goal={metric?.goal ?? "max"} />
      <Trials sweep={sweep} />
      {detail.stopped.length > 0 && (
        <>
          <h2>Stopped early</h2>
          <ScrollTable
            label="Stopped early"
            kind="records"
            headings={[["Trial", "num"], ["Step", "num"], "Why"]}
          >
            {detail.stopped.toReversed().slice(0, FIRST_ROWS).map((
              { trial, run_id, step, reason },
            ) => (
              <tr key={trial}>
                <td class="num">
                  <a href={`/runs/${run_id}`}>{trial}</a>
                </td>
                <td class="num">{whole(step)}</td>
                <td>{reason}</td>
              </tr>
            ))}
          </ScrollTable>
        </>
      )}
    </>
  );
}

function Copy({ text }: { text: string }) {
  return (
    <button
      type="button"
      class="link"
      onClick={() => attempt(() => navigator.clipboard.writeText(text))}
    >
      Copy
    </button>
  );
}

const valueText = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);
const parametersText = (parameters: Record<string, unknown>) =>
  Object.entries(parameters).map(([name, value]) => `${name}=${valueText(value)}`).join(" ");
const unseeded = (parameters: Trial["parameters"], { seeds }: SweepJson) =>
  Object.fromEntries(Object.entries(parameters).filter(([name]) => !seeds.includes(name)));
const keyOf = (parameters: Trial["parameters"]) =>
  JSON.stringify(Object.entries(parameters).sort());

/** Best first; points without a value last. */
function ranked({ points }: Detail, goal: "max" | "min"): Detail["points"] {
  const sign = goal === "min" ? 1 : -1;
  return points.toSorted((a, b) =>
    a.mean === null || b.mean === null
      ? Number(a.mean === null) - Number(b.mean === null)
      : sign * (a.mean - b.mean)
  );
}

/** The metric of the best points over steps, each the mean over its seeds. */
function Curves({ sweep }: { sweep: SweepJson }) {
  const [all, setAll] = useState(false);
  const { made, metric } = sweep;
  const detail = sweep.detail!;
  const trials = Map.groupBy(
    detail.trials.filter(({ run_id, state }) => run_id !== null && state !== "deleted"),
    ({ parameters }) => keyOf(unseeded(parameters, sweep)),
  );
  const points = ranked(detail, metric!.goal).filter(({ parameters }) =>
    trials.has(keyOf(parameters))
  );
  const shown = points.slice(0, all ? undefined : FIRST_CURVES);
  const colors = colorsOfGroups(shown.map(({ parameters }) => parametersText(parameters)));
  const runs = shown.flatMap(({ parameters }) => {
    const group = parametersText(parameters);
    return trials.get(keyOf(parameters))!.map(({ run_id, trial, started_at }) => ({
      ...{ run_id: run_id!, name: `trial ${trial}`, started_at, group },
      color: colors.get(group)!,
    }));
  }).slice(0, MOST_CURVES);
  const drawn = new Set(runs.map(({ group }) => group)).size;
  const changes = made + detail.spent.seconds + detail.spent.steps;
  return (
    <>
      <h2>Curves by point</h2>
      <div class="sweep-curves">
        {runs.length > 0 && <Charts runs={runs} changes={changes} only={metric!.name} />}
      </div>
      {drawn < points.length && (
        <p class="sub">
          {`The best ${drawn} of ${plural(points.length, "point")}. `}
          {!all && (
            <button type="button" class="link" onClick={() => setAll(true)}>All points</button>
          )}
        </p>
      )}
    </>
  );
}

function Results(
  { detail, metric, changes }: {
    detail: Detail;
    metric: NonNullable<SweepJson["metric"]>;
    changes: string;
  },
) {
  const runs = detail.trials.filter(({ value, run_id }) => value !== null && run_id !== null).map((
    trial,
  ) => ({
    ...{ run_id: trial.run_id!, name: `trial ${trial.trial}` },
    parameters: Object.entries(trial.parameters).map(([name, value]) => ({ name, value })),
    ...{ started_at: trial.started_at, finished_at: trial.finished_at },
  }));
  if (runs.length < 2) return null;
  return (
    <>
      <h2>Parameters and results</h2>
      <Insight
        runs={runs}
        groups={[]}
        result={metricColumn(metric.name, "last")}
        goal={metric.goal}
        changes={changes}
      />
    </>
  );
}

/** The table behind a heading, as files. */
function Files({ name, of }: { name: string; of: "points" | "trials" }) {
  return (
    <p class="sub">
      As {["csv", "json", "parquet"].map((format, i) => (
        <span key={format}>
          {i === 0 ? "" : ", "}
          <SaveLink
            url={`/api/sweeps/${encodeURIComponent(name)}/table?of=${of}&format=${format}`}
            path={`${name}-${of}.${format}`}
          >
            {{ csv: "CSV", json: "JSON", parquet: "Parquet" }[format]}
          </SaveLink>
        </span>
      ))}
    </p>
  );
}

function Points({ sweep, goal }: { sweep: SweepJson; goal: "max" | "min" }) {
  const [all, setAll] = useState(false);
  const detail = sweep.detail!;
  const { points } = detail;
  if (points.length === 0 || points.length === detail.trials.length) return null;
  const names = [
    ...new Set(points.slice(0, FIRST_ROWS).flatMap(({ parameters }) => Object.keys(parameters))),
  ];
  return (
    <>
      <h2>Points</h2>
      <ScrollTable
        label="Points"
        kind="records"
        headings={[...names, ["Mean", "num"], ["95 % interval", "num"], ["Values", "num"], [
          "Stopped",
          "num",
        ], [
          "Failed",
          "num",
        ]]}
      >
        {ranked(detail, goal).slice(0, all ? undefined : FIRST_ROWS).map((point, i) => (
          <tr key={i}>
            {names.map((name) => <td key={name}>{valueText(point.parameters[name])}</td>)}
            <td class="num">{figure(point.mean)}</td>
            <td class="num">
              {point.low === null ? "" : `${figure(point.low)} to ${figure(point.high!)}`}
            </td>
            <td class="num">{`${point.values} of ${point.trials}`}</td>
            <td class="num">{point.pruned || ""}</td>
            <td class="num">{point.failed || ""}</td>
          </tr>
        ))}
      </ScrollTable>
      <More of={points.length} all={all} show={() => setAll(true)} />
      <Files name={sweep.name} of="points" />
    </>
  );
}

function Trials({ sweep }: { sweep: SweepJson }) {
  const [all, setAll] = useState(false);
  const { trials } = sweep.detail!;
  if (trials.length === 0) return null;
  const names = [
    ...new Set(trials.slice(0, FIRST_ROWS).flatMap(({ parameters }) => Object.keys(parameters))),
  ];
  return (
    <>
      <h2>Trials</h2>
      <ScrollTable
        label="Trials"
        kind="records"
        headings={[["Trial", "num"], "State", ...names, ["Value", "num"], ["Steps", "num"], [
          "Time",
          "num",
        ], "Reason"]}
      >
        {trials.slice(0, all ? undefined : FIRST_ROWS).map((trial) => (
          <tr key={trial.trial}>
            <td class="num">
              {trial.run_id === null || trial.state === "deleted"
                ? trial.trial
                : <a href={`/runs/${trial.run_id}`}>{trial.trial}</a>}
            </td>
            <td>
              <span class="chip" data-state={trial.state.toUpperCase()}>
                {trialWord(trial.state)}
              </span>
            </td>
            {names.map((name) => <td key={name}>{valueText(trial.parameters[name])}</td>)}
            <td class="num">{figure(trial.value)}</td>
            <td class="num">{whole(trial.steps)}</td>
            <td class="num">{duration(trial.seconds * 1000)}</td>
            <td>{trial.reason ?? ""}</td>
          </tr>
        ))}
      </ScrollTable>
      <More of={trials.length} all={all} show={() => setAll(true)} />
      <Files name={sweep.name} of="trials" />
    </>
  );
}

function More({ of, all, show }: { of: number; all: boolean; show: () => void }) {
  if (all || of <= FIRST_ROWS) return null;
  return (
    <button type="button" class="link" onClick={show}>
      {`The first ${FIRST_ROWS} of ${of} rows: show all`}
    </button>
  );
}
