/** One run: its current state, its history, and everything it recorded. */
import "../parts/common.ts";
import { msOf } from "../../../runs/fields/run_texts.ts";
import type { RunPage } from "../../api/page_json.ts";
import type { RunJson } from "../../../runs/fields/run_types.ts";
import { colored } from "../parts/ansi.ts";
import {
  answer,
  heardTime,
  live,
  param,
  readOnly,
  Refused,
  runApi,
  runPath,
  untilRead,
} from "../parts/api.ts";
import { Charts } from "../charts/charts.tsx";
import { Lineage } from "./lineage.tsx";
import { attempt, notice, noticeOf } from "../parts/dialog.tsx";
import { colorsOfRuns } from "../parts/colors.ts";
import { go } from "../parts/dom.ts";
import { Alerts, Events, LeftOut } from "../parts/events.tsx";
import type { ExplorerProps } from "../charts/explorer.tsx";
import type { DifferencesProps } from "./config_diff.tsx";
import { figure, moment, whole, words } from "../parts/format.ts";
import { bytes } from "../../../base/text/format.ts";
import type { FramesProps, Sought } from "../media/frames.tsx";
import { LiveTiles } from "../media/live_tiles.tsx";
import type { LogPaneProps } from "./log_pane.tsx";
import { artifactPath, SaveLink } from "../media/save_link.tsx";
import { type MediaProps, pick } from "../media/media.tsx";
import type { Moment } from "../media/media_entries.ts";
import { Rail } from "./rail.tsx";
import { RunPicker } from "../runs/run_picker.tsx";
import { Icon, Later, ScrollTable, Terms } from "../parts/parts.tsx";
import { type ComponentChildren, useEffect, useMemo, useRef, useState } from "../parts/preact.ts";
import { isEnded } from "../parts/states.tsx";
import { Tabs } from "../parts/tabs.tsx";

/** The contents of a tick besides the run's numbers. */
interface Tick {
  at: number;
  logs: Record<string, number>;
}

/** The end of stderr explains a failure, so it is in view; earlier lines can be scrolled to. */
function LastLines({ text }: { text: string }) {
  const pre = useRef<HTMLPreElement>(null);
  useEffect(() => {
    pre.current!.replaceChildren(...colored(text));
    pre.current!.scrollTo({ top: pre.current!.scrollHeight });
  }, [text]);
  return <pre ref={pre} tabIndex={0} aria-label="Last lines of stderr" />;
}

/** The run, or why it cannot be shown; retries until it can be read. */
export function Run({ id }: { id: string }) {
  const [first, setFirst] = useState<RunPage & { head: number }>();
  const [trouble, setTrouble] = useState<ComponentChildren>("Loading …");
  useEffect(() => {
    document.title = "Run · mosaic";
    let mounted = true;
    const again = () => setTimeout(() => mounted && begin(), 2000);
    const begin = async () => {
      try {
        const run = await answer(runApi.$get(param(id)));
        if (mounted) setFirst(run);
      } catch (error) {
        if (!mounted) return;
        if (!(error instanceof Refused && error.status === 404)) {
          setTrouble(
            `The run cannot be read, trying again: ${
              error instanceof Error ? error.message : error
            }`,
          );
          return again();
        }
        setTrouble(
          <Later
            view="Nowhere"
            props={{ what: `There is no run ${id}.` } satisfies { what: string }}
          />,
        );
      }
    };
    begin();
    return () => {
      mounted = false;
    };
  }, []);
  return first ? <Shown first={first} /> : <div class="empty" role="status">{trouble}</div>;
}

function Shown({ first }: { first: RunPage & { head: number } }) {
  const [run, setRun] = useState<RunPage>(first);
  const [events, setEvents] = useState(0);
  const [tab, setTab] = useState("");
  const tick = useRef<Tick>(undefined);
  const runId = first.run_id;
  const { heads } = run;
  const charted = useMemo(() => [{ ...run, color: colorsOfRuns([run]).get(runId)! }], [run]);
  useEffect(() =>
    live(runPath(runId, "/live"), first.head, {
      run: (data: RunPage) => setRun(data),
      event: () => setEvents((n) => n + 1),
      gone: () => {
        notice("This run was deleted.");
        go("/");
      },
      tick: (data: Partial<RunPage> & Tick) => {
        heardTime(data.at);
        tick.current = data;
        setRun((before) => ({ ...before, ...data }));
      },
    }), []);
  useEffect(() => void (document.title = `${run.name} · mosaic`), [run.name]);
  const [sought, setSought] = useState<Moment>();
  const [frame, setFrame] = useState<Sought>();
  const curves = useRef<HTMLDivElement>(null);
  const shown = useRef(run);
  shown.current = run;
  useEffect(() => {
    // The panel of the overview may be created later.
    const picked = (event: Event) =>
      curves.current?.contains(event.target as Node) &&
      attempt(() =>
        pick(shown.current, (event as CustomEvent).detail, { clip: setSought, frame: setFrame })
      );
    addEventListener("mosaic-pick", picked);
    return () => removeEventListener("mosaic-pick", picked);
  }, []);
  // Charts in a hidden tab are read when it is selected again.
  const points = useRef(0);
  if (tab === "overview") points.current = heads.steps + heads.episodes + heads.metrics;

  return (
    <div class="run-view">
      <Rail run={run} />
      <div class="run-main">
        {run.state === "FAULTED" && (
          <section class="failure" aria-label="Failure">
            <h2>{words(run.reason ?? "failed")}</h2>
            {run.hint && <p>{run.hint}</p>}
            {run.stderr_tail.length > 0 && <LastLines text={run.stderr_tail.join("\n")} />}
          </section>
        )}
        <Alerts runId={runId} changes={events} />
        <Tabs
          inSight={setTab}
          list={[
            {
              id: "overview",
              label: "Overview",
              content: () => (
                <div>
                  <LeftOut runId={runId} changes={events} />
                  {run.base_dir === "evals" && <Evaluation runId={runId} state={run.state} />}
                  <div ref={curves} class="curves">
                    {!isEnded(run) && tab !== "" && (
                      <LiveTiles runs={tab === "overview" ? [run] : []} titled={false} />
                    )}
                    <Charts runs={charted} changes={points.current} />
                  </div>
                </div>
              ),
            },
            {
              id: "steps",
              label: "Steps",
              content: () => (
                <Later
                  view="Explorer"
                  props={{
                    runId,
                    kind: "steps",
                    head: heads.steps,
                    inSight: tab === "steps",
                  } satisfies ExplorerProps}
                />
              ),
            },
            {
              id: "episodes",
              label: "Episodes",
              content: () => (
                <Later
                  view="Explorer"
                  props={{
                    runId,
                    kind: "episodes",
                    head: heads.episodes,
                    inSight: tab === "episodes",
                  } satisfies ExplorerProps}
                />
              ),
            },
            {
              id: "frames",
              label: "Frames",
              content: () => (
                <Later
                  view="Frames"
                  props={{
                    runId,
                    heads,
                    inSight: tab === "frames",
                    sought: frame,
                  } satisfies FramesProps}
                />
              ),
            },
            {
              id: "media",
              label: "Media",
              content: () => (
                <Later
                  view="Media"
                  props={{ run, sought, inSight: tab === "media" } satisfies MediaProps}
                />
              ),
            },
            {
              id: "logs",
              label: "Logs",
              content: () => (
                <Later
                  view="LogPane"
                  props={{
                    runId,
                    sizes: tick.current?.logs,
                    attempt: run.attempt,
                    inSight: tab === "logs",
                  } satisfies LogPaneProps}
                />
              ),
            },
            { id: "config", label: "Config", content: () => <Config run={run} /> },
            {
              id: "code",
              label: "Code",
              content: () => <Later view="Code" props={{ run } satisfies { run: RunPage }} />,
            },
            {
              id: "events",
              label: "Events",
              content: () => <Events runId={runId} changes={events} />,
            },
            {
              id: "artifacts",
              label: "Artifacts",
              content: () => (
                <>
                  <Artifacts run={run} />
                  <Lineage run={run} />
                </>
              ),
            },
          ]}
        />
      </div>
    </div>
  );
}

/** The summary that an evaluation wrote, read again when its state changes. */
function Evaluation({ runId, state }: { runId: string; state: RunJson["state"] }) {
  const [summary, setSummary] = useState<unknown>(null);
  useEffect(
    () =>
      untilRead(
        async () => setSummary((await answer(runApi.eval.$get(param(runId)))).summary),
        noticeOf,
      ),
    [state],
  );
  if (summary === null || typeof summary !== "object") return null;
  return (
    <section class="evaluation" aria-label="Evaluation">
      <h2>Evaluation</h2>
      <Terms
        kind="facts"
        of={Object.entries(summary).map(([name, value]) => [
          words(name),
          typeof value === "object" && value !== null ? JSON.stringify(value) : figure(value),
        ])}
      />
    </section>
  );
}

function Config({ run }: { run: RunPage }) {
  const [config, setConfig] = useState<{ text: string; hidden: number }>();
  const [revealed, setRevealed] = useState(false);
  const [other, setOther] = useState<RunJson>();
  const read = async (reveal: boolean) => {
    setConfig(
      await answer(
        runApi.config.$get({ ...param(run.run_id), query: reveal ? { reveal: "1" } : {} }),
      ),
    );
    setRevealed(reveal);
  };
  useEffect(() => untilRead(() => read(false), noticeOf), []);
  if (config === undefined) return null;
  const { text, hidden } = config;
  const copy = () =>
    attempt(async () => {
      await navigator.clipboard.writeText(text);
      notice("Copied.");
    });
  return (
    <div>
      <div class="log-tools">
        <button type="button" onClick={copy}>
          <Icon name="copy" />
          Copy
        </button>
        {hidden > 0 && !readOnly && (
          <button type="button" onClick={() => attempt(() => read(true))}>
            {`Show ${hidden} hidden ${hidden === 1 ? "value" : "values"}`}
          </button>
        )}
        {revealed && (
          <button type="button" onClick={() => attempt(() => read(false))}>Hide secrets</button>
        )}
        <RunPicker label="Difference from another run" without={[run.run_id]} onpick={setOther} />
        {other && <span class="sub">{other.name}</span>}
      </div>
      <div class="difference">
        {other && (
          <Later
            key={other.run_id}
            view="ConfigDifferences"
            props={{ runs: [run, other] } satisfies DifferencesProps}
          />
        )}
      </div>
      <pre class="json" tabIndex={0} aria-label="Config as JSON">{text}</pre>
    </div>
  );
}

function Artifacts({ run }: { run: RunPage }) {
  if (run.artifacts.length === 0) {
    return (
      <p class="empty">
        No artifacts yet: files under checkpoints, videos and tensorboard appear here.
      </p>
    );
  }
  return (
    <ScrollTable
      label="Artifacts"
      kind="records"
      headings={["Path", "Kind", "Size", "Step", "Written", "SHA-256"]}
    >
      {run.artifacts.map((a) => (
        <tr key={a.path}>
          <td>
            {a.deleted_at === null
              ? <SaveLink url={artifactPath(run.run_id, a.path)} path={a.path}>{a.path}</SaveLink>
              : (
                <span title={`deleted, as seen ${moment(msOf(a.deleted_at))}`}>
                  {a.path} (deleted)
                </span>
              )}
          </td>
          <td>{a.kind}</td>
          <td>{bytes(a.bytes)}</td>
          <td>{whole(a.step)}</td>
          <td>{moment(msOf(a.at))}</td>
          <td class="mono">
            <span title={a.sha256}>{a.sha256.slice(0, 12)}</span>
          </td>
        </tr>
      ))}
    </ScrollTable>
  );
}
