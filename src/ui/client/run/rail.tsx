/**
 * Beside a run's charts: how it stands in large, the rest small and only where it says something.
 */
import { eta, fraction } from "../../../runs/fields/progress.ts";
import { RUN_FACTS, TELEMETRY_FACTS } from "../../../runs/fields/run_facts.ts";
import {
  elapsedText,
  isStale,
  note,
  progressOf,
  rewardOf,
  stepsOf,
} from "../../../runs/fields/run_texts.ts";
import { compact, duration } from "../../../base/text/format.ts";
import type { RunPage } from "../../api/page_json.ts";
import { Actions } from "../parts/actions.tsx";
import { now, readOnly } from "../parts/api.ts";
import { go } from "../parts/dom.ts";
import { figure } from "../parts/format.ts";
import { Copied, Later, Terms, useNow } from "../parts/parts.tsx";
import { type ComponentChildren, useState } from "../parts/preact.ts";
import { Chip, isEnded, sentence } from "../parts/states.tsx";
import { shownState } from "../../../runs/fields/lifecycle_states.ts";
import { Lifecycle } from "./lifecycle.tsx";
import { Name, Notes, Tags } from "./written.tsx";

const OF_ALL = new Map([...RUN_FACTS, ...TELEMETRY_FACTS].map((fact) => [fact.name, fact]));
/** Below the large figures: those that change, or that are not as usual. */
const FACTS = [
  ...[
    "steps",
    "episodes",
    "elapsed",
    "waits",
    "last record",
    "last output",
    "backlog",
    "gpus",
    "attempt",
  ],
  ...["rate limit", "code"],
];
/** They stand elsewhere on the page. */
const ELSEWHERE = ["outcome", "reason", "hint", "notes", "tags", "progress", "reward"];
const DETAILS = [...OF_ALL.keys()].filter((name) => ![...FACTS, ...ELSEWHERE].includes(name));

const heading = (name: string) =>
  name === "gpus" ? "GPUs" : name.charAt(0).toUpperCase() + name.slice(1);

/** A parameter's value for display. */
const parameterText = (value: unknown) => typeof value === "string" ? value : JSON.stringify(value);

/** What an ended run no longer has anything to say about. */
const OF_LIVE = ["last record", "last output", "waits"];

export function Rail({ run }: { run: RunPage }) {
  const at = useNow();
  const ended = isEnded(run);
  const isFar = !ended && fraction(progressOf(run, at)) !== undefined;
  const facts = FACTS.filter((name) => !ended || !OF_LIVE.includes(name))
    .map((name) => [name, OF_ALL.get(name)!.text(run, { now: at })] as const)
    // The large figures tell the time of a run whose end is not known.
    .filter(([name, value]) =>
      value !== "" && !(name === "elapsed" && !isFar && value === elapsedText(run, at))
    )
    .filter(([name, value]) => !(name === "episodes" && value === "0"));
  const said = note(run, at);
  const why = said === run.reason ? sentence(said) : said;
  return (
    <aside class="rail" aria-label="The run">
      <div class="rail-top">
        <header class="run-title">
          <Name run={run} />
          <div class="standing">
            <Chip state={shownState(run)} />
            {/* Its bar says how far it is. */}
            {!isFar && <span class="why">{why}</span>}
          </div>
        </header>
        <Figures run={run} at={at} />
        <Actions run={run} done={(action) => action === "delete" && go("/")} />
        <dl class="facts">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{heading(name)}</dt>
              <dd class={name === "last record" && isStale(run, at) ? "stale" : undefined}>
                {value}
              </dd>
            </div>
          ))}
        </dl>
      </div>
      <div class="rail-rest">
        {!(readOnly && run.tags.length === 0) && <Tags run={run} />}
        <Notes run={run} />
        {run.parameters.length > 0 && (
          <section>
            <h2>Parameters</h2>
            <Terms
              kind="details"
              of={run.parameters.map(({ name, value }) => [name, parameterText(value)])}
            />
          </section>
        )}
        <section>
          <h2>Lifecycle</h2>
          <Lifecycle run={run} />
        </section>
        <section>
          <h2>Details</h2>
          <Terms
            kind="details"
            of={DETAILS.map((name) => [heading(name), detailOf(name, run)] as const).filter((
              [, value],
            ) => value)}
          />
        </section>
        <CommandAndCode id={run.run_id} />
      </div>
    </aside>
  );
}

/** Reward and progress, with the estimated time to the end. */
function Figures({ run, at }: { run: RunPage; at: number }) {
  const { objective, mean_reward_100: mean, reported_reward: told } = run.telemetry;
  const reward = rewardOf(run);
  const of = objective?.name ??
    (mean !== null ? "mean of the last 100 episodes" : told?.name ?? "");
  const progress = progressOf(run, at);
  const part = isEnded(run) ? undefined : fraction(progress);
  const left = eta(progress);
  const done = progress.maxSteps > 0
    ? `${compact(stepsOf(run))} of ${compact(progress.maxSteps)} steps`
    : "";
  return (
    <div class="standings">
      {reward !== null && (
        <div>
          <div class="large">{figure(reward)}</div>
          <div class="sub">{of === "" ? "Reward" : `Reward, ${of}`}</div>
        </div>
      )}
      {part === undefined
        ? run.started_at !== null && (
          <div>
            <div class="large">{elapsedText(run, at)}</div>
            <div class="sub">{isEnded(run) ? "Took" : "Running for"}</div>
          </div>
        )
        : (
          <div class="far">
            <div class="large">{`${Math.floor(part * 100)} %`}</div>
            <span class="bar" role="img" aria-label={`${Math.floor(part * 100)} % done`}>
              <span style={{ width: `${(part * 100).toFixed(1)}%` }} />
            </span>
            <div class="sub">
              {[done, left === undefined ? "" : `${duration(left)} left`].filter((t) => t !== "")
                .join(", ")}
            </div>
          </div>
        )}
    </div>
  );
}

function detailOf(name: string, run: RunPage): ComponentChildren {
  const text = OF_ALL.get(name)!.text(run, { now: now() });
  return name === "run" ? <Copied text={text} what="the run id" /> : text;
}

/** Read when it is opened. */
function CommandAndCode({ id }: { id: string }) {
  const [opened, setOpened] = useState(false);
  return (
    <details onToggle={(e) => e.currentTarget.open && setOpened(true)}>
      <summary>Command and code</summary>
      {opened && <Later view="Command" props={{ id } satisfies { id: string }} />}
    </details>
  );
}
