// @ts-check
/** One run: what it is doing, how it came there, and everything it said. */
import { drawActions } from "./actions.js";
import { get, heardTime, live, now, readOnly, Refused, runPath } from "./api.js";
import { Charts } from "./charts.js";
import { configDifferences } from "./config_diff.js";
import { attempt, notice } from "./dialog.js";
import { fill, h, icon, iconButton, scrollTable, setText } from "./dom.js";
import { Events } from "./events.js";
import { Explorer } from "./explorer.js";
import { age, bytes, duration, elapsed, figure, moment, rate, score, whole, words } from "./format.js";
import { Frames } from "./frames.js";
import { drawLifecycle } from "./lifecycle.js";
import { Logs } from "./logs.js";
import { chip, explanation, isEnded, setChip } from "./states.js";
import { tabs } from "./tabs.js";
/** @typedef {import("../page_json.ts").RunPage} RunPage */

/** @type {[string, (r: RunPage, at: number) => string][]} */
const FACTS = [
  ["Steps", (r) => whole(r.steps) + (r.max_steps > 0 ? ` of ${whole(r.max_steps)}` : "")],
  [
    "Steps/s",
    (r) => {
      if (isEnded(r)) return "";
      return r.steps_per_second > 0
        ? rate(r.steps_per_second) + (r.max_rate_hz > 0 ? ` (limit ${r.max_rate_hz})` : "")
        : "0";
    },
  ],
  ["Episodes", (r) => whole(r.episodes)],
  ["Mean reward", (r) => score(r.mean_reward_100)],
  ["Elapsed", (r, at) => duration(elapsed(r, at))],
  [
    "Left",
    (r) =>
      r.max_steps > r.steps && r.steps_per_second > 0
        ? `about ${duration((r.max_steps - r.steps) / r.steps_per_second * 1000)}`
        : "",
  ],
  ["Last record", (r, at) => age(r.last_record_at, at)],
  ["Last output", (r, at) => r.last_output_at === null ? "" : age(r.last_output_at, at)],
  ["Backlog", (r) => r.backlog_bytes > 0 ? bytes(r.backlog_bytes) : "none"],
  [
    "GPUs",
    (r) =>
      r.gpus.length > 0
        ? r.gpus.join(", ")
        : r.gpus_requested > 0
        ? `${isEnded(r) ? "asked for" : "wants"} ${r.gpus_requested}`
        : r.host_gpus > 0
        ? "none asked for"
        : "none",
  ],
  ["Attempt", (r) => `${r.attempt} of ${Math.max(r.attempt, r.max_attempts)}`],
  ["Queue", (r) => r.queue_position > 0 ? `#${r.queue_position}` : ""],
];

/** @type {[string, (r: RunPage) => string | null | undefined][]} */
const DETAILS = [
  ["Run id", (r) => r.run_id],
  ["Submitted", (r) => moment(r.created_at)],
  ["Started", (r) => moment(r.started_at)],
  ["Finished", (r) => moment(r.finished_at)],
  ["Directory", (r) => r.directory],
  ["Config digest", (r) => r.digest],
  ["Tags", (r) => r.tags.join(", ")],
  ["Priority", (r) => String(r.priority)],
  ["Worker", (r) => [r.worker_id, r.worker_kind, r.worker_pid && `pid ${r.worker_pid}`].filter(Boolean).join(", ")],
  ["Proxy", (r) => r.proxy_pid ? `pid ${r.proxy_pid}` : ""],
  ["Protocol", (r) => r.proto_version],
  ["Schema", (r) => r.schema_id && `${r.schema_id} v${r.schema_version}`],
  [
    "Capabilities",
    (r) =>
      [r.supports_pause && "pause", r.supports_checkpoint && "checkpoint"].filter(Boolean).join(", ") ||
      "none declared",
  ],
  ["Exit", (r) => r.exit_signal || (r.exit_code === null ? "" : `code ${r.exit_code}`)],
  ["Resumed from", (r) => r.resume_from],
  ["Lines not telemetry", (r) => r.other_lines > 0 ? whole(r.other_lines) : ""],
  ["Malformed lines", (r) => r.malformed_lines > 0 ? whole(r.malformed_lines) : ""],
  ["Schema violations", (r) => Object.entries(r.violations).map(([k, n]) => `${k}: ${n}`).join(", ")],
];

/** @param {HTMLElement} root @param {string} runId */
export function mountRun(root, runId) {
  document.title = "Run · mosaic";
  let mounted = true;
  /** @type {(() => void)[]} */
  const closers = [];
  fill(root, h("p", { class: "empty" }, "Loading …"));
  const begin = async () => {
    try {
      const run = await get(runPath(runId));
      if (mounted) closers.push(show(root, run));
    } catch (error) {
      if (!mounted) return;
      if (error instanceof Refused && error.status === 404) {
        fill(root, h("p", { class: "empty" }, `There is no run ${runId}. `, h("a", { href: "/" }, "All runs")));
        try {
          const close = await watchDaemon();
          if (mounted) closers.push(close);
          else close();
        } catch {
          setTimeout(begin, 2000);
        }
      } else {
        const why = error instanceof Error ? error.message : String(error);
        fill(root, h("p", { class: "empty", role: "status" }, `The run cannot be read, trying again: ${why}`));
        setTimeout(begin, 2000);
      }
    }
  };
  begin();
  return () => {
    mounted = false;
    for (const close of closers) close();
  };
}

/** A view without anything live in it still tells how the connection stands. @returns {Promise<() => void>} */
async function watchDaemon() {
  const { head } = await get("/api/runs?limit=1");
  return live("/api/live", head, { tick: (data) => heardTime(data.at) });
}

/** @param {HTMLElement} root @param {RunPage & {head: number}} first @returns {() => void} */
function show(root, first) {
  /** @type {RunPage} */
  let run = first;
  const runId = run.run_id;
  const title = h("h1", {});
  const state = chip(run.state);
  const why = h("span", { class: "why" });
  const buttons = h("div", { class: "actions" });
  const facts = FACTS.map(([label]) => ({ term: h("dt", {}, label), value: h("dd", {}) }));
  const failure = h("section", { class: "failure", hidden: true, "aria-label": "Failure" });
  const evaluation = h("section", { class: "evaluation", hidden: true, "aria-label": "Evaluation" });
  const lifecycle = h("div", {});
  const details = h("dl", { class: "details" });
  const artifacts = h("div", {});
  const charts = new Charts([run]);
  const steps = new Explorer(runId, "steps");
  const episodes = new Explorer(runId, "episodes");
  const frames = new Frames(runId);
  const events = new Events(runId);
  /** @type {Logs | undefined} */
  let logs;
  const logPane = h("div", {});
  const configPane = h("div", {});
  let configShown = false;

  const tabbed = tabs([
    {
      id: "overview",
      label: "Overview",
      content: h(
        "div",
        {},
        evaluation,
        charts.element,
        h(
          "div",
          { class: "two" },
          h("section", {}, h("h2", {}, "Lifecycle"), lifecycle),
          h("section", {}, h("h2", {}, "Details"), details),
        ),
      ),
    },
    { id: "steps", label: "Steps", content: steps.element, shown: () => steps.update(run.heads.steps) },
    { id: "episodes", label: "Episodes", content: episodes.element, shown: () => episodes.update(run.heads.episodes) },
    { id: "frames", label: "Frames", content: frames.element, shown: () => frames.update(run.heads.steps) },
    {
      id: "logs",
      label: "Logs",
      content: logPane,
      shown: () => {
        logs ??= new Logs(runId);
        if (!logs.element.isConnected) logPane.append(logs.element);
      },
    },
    {
      id: "config",
      label: "Config",
      content: configPane,
      shown: () => {
        if (!configShown) attempt(() => Promise.all([drawConfig(false), drawOthers()]));
        configShown = true;
      },
    },
    { id: "events", label: "Events", content: events.element, shown: () => events.load() },
    { id: "artifacts", label: "Artifacts", content: artifacts },
  ]);
  fill(
    root,
    h("header", { class: "run-head" }, h("div", { class: "run-title" }, title, state, why), buttons),
    h("dl", { class: "facts" }, facts.map(({ term, value }) => h("div", {}, term, value))),
    failure,
    tabbed.element,
  );

  /** @param {boolean} reveal */
  async function drawConfig(reveal) {
    const { text, hidden } = await get(runPath(runId, `/config${reveal ? "?reveal=1" : ""}`));
    fill(
      configPane,
      h(
        "div",
        { class: "log-tools" },
        h(
          "button",
          {
            type: "button",
            onclick: () =>
              attempt(async () => {
                await navigator.clipboard.writeText(text);
                notice("Copied.");
              }),
          },
          icon("copy"),
          "Copy",
        ),
        hidden > 0 && !readOnly &&
          h(
            "button",
            { type: "button", onclick: () => attempt(() => drawConfig(true)) },
            `Show ${hidden} hidden ${hidden === 1 ? "value" : "values"}`,
          ),
        reveal && h("button", { type: "button", onclick: () => attempt(() => drawConfig(false)) }, "Hide secrets"),
        other,
      ),
      difference,
      h("pre", { class: "json", tabIndex: 0, "aria-label": "Config as JSON" }, text),
    );
  }

  /** What another run's config has otherwise. */
  const difference = h("div", { class: "difference" });
  const other = h("select", {
    "aria-label": "Difference from another run",
    onchange: () =>
      attempt(async () => {
        const chosen = { run_id: other.value, name: other.selectedOptions[0]?.textContent ?? "" };
        fill(difference, other.value !== "" && await configDifferences([run, chosen]));
      }),
  });
  async function drawOthers() {
    const { runs } = await get("/api/runs?limit=200");
    fill(
      other,
      h("option", { value: "" }, "Difference from …"),
      runs.filter((/** @type {RunPage} */ r) => r.run_id !== runId)
        .map((/** @type {RunPage} */ r) => h("option", { value: r.run_id }, `${r.name} (${r.run_id.slice(-6)})`)),
    );
  }

  function drawFigures() {
    const at = now();
    FACTS.forEach(([, text], i) => {
      const fact = /** @type {typeof facts[number]} */ (facts[i]);
      const value = text(run, at);
      setText(fact.value, value);
      /** @type {HTMLElement} */ (fact.term.parentElement).hidden = value === "";
    });
    const record = /** @type {HTMLElement} */ (facts[6]?.value);
    record.classList.toggle(
      "stale",
      run.state === "EXECUTING" && run.last_record_at !== null && at - run.last_record_at > 60_000,
    );
    setChip(state, run.state);
    setText(why, explanation(run, at));
    drawActions(
      buttons,
      run,
      (action) => action === "delete" && dispatchEvent(new CustomEvent("mosaic-go", { detail: "/" })),
    );
  }

  function drawAll() {
    document.title = `${run.name} · mosaic`;
    setText(title, run.name);
    drawFigures();
    drawLifecycle(lifecycle, run, now());
    fill(
      details,
      DETAILS.map(([label, text]) => [label, text(run)]).filter(([, value]) => value).map(([label, value]) =>
        h(
          "div",
          {},
          h("dt", {}, label),
          h(
            "dd",
            {},
            value,
            label === "Run id" && iconButton("copy", "Copy the run id", () => navigator.clipboard.writeText(runId)),
          ),
        )
      ),
    );
    failure.hidden = run.state !== "FAULTED";
    if (run.state === "FAULTED") {
      fill(
        failure,
        h("h2", {}, words(run.reason ?? "failed")),
        run.hint && h("p", {}, run.hint),
        run.stderr_tail.length > 0 &&
          h("pre", { tabIndex: 0, "aria-label": "Last lines of stderr" }, run.stderr_tail.join("\n")),
      );
    }
    drawArtifacts(artifacts, run);
    if (run.is_eval) attempt(drawEvaluation);
  }

  async function drawEvaluation() {
    const { summary } = await get(runPath(runId, "/eval"));
    evaluation.hidden = summary === null || typeof summary !== "object";
    if (evaluation.hidden) return;
    fill(
      evaluation,
      h("h2", {}, "Evaluation"),
      h(
        "dl",
        { class: "facts" },
        Object.entries(summary).map(([name, value]) =>
          h(
            "div",
            {},
            h("dt", {}, words(name)),
            h("dd", {}, typeof value === "object" && value !== null ? JSON.stringify(value) : figure(value)),
          )
        ),
      ),
    );
  }

  drawAll();
  const close = live(runPath(runId, "/live"), first.head, {
    run: (data) => {
      run = data;
      drawAll();
    },
    event: () => events.changed(),
    gone: () => {
      notice("This run was deleted.");
      dispatchEvent(new CustomEvent("mosaic-go", { detail: "/" }));
    },
    tick: (data) => {
      heardTime(data.at);
      const before = run.heads;
      const moved = data.heads.episodes !== before.episodes || data.heads.steps !== before.steps ||
        data.heads.metrics !== before.metrics;
      run = { ...run, ...data };
      drawFigures();
      const tab = tabbed.current();
      if (tab === "overview" && moved) charts.refresh();
      if (tab === "overview" && !isEnded(run)) drawLifecycle(lifecycle, run, now());
      if (tab === "steps") steps.update(data.heads.steps);
      if (tab === "episodes") episodes.update(data.heads.episodes);
      if (tab === "frames") frames.update(data.heads.steps);
      if (tab === "logs") logs?.update(data.logs, data.attempt);
    },
  });
  charts.refresh();
  addEventListener("mosaic-second", drawFigures);
  return () => {
    close();
    charts.destroy();
    frames.destroy();
    removeEventListener("mosaic-second", drawFigures);
  };
}

/** @param {HTMLElement} root @param {RunPage} run */
function drawArtifacts(root, run) {
  if (run.artifacts.length === 0) {
    return fill(
      root,
      h("p", { class: "empty" }, "No artifacts yet: files under checkpoints, videos and tensorboard appear here."),
    );
  }
  const rows = run.artifacts.map((a) =>
    h(
      "tr",
      {},
      h(
        "td",
        {},
        h("a", {
          href: runPath(run.run_id, `/artifacts/${a.path.split("/").map(encodeURIComponent).join("/")}`),
          download: "",
        }, a.path),
      ),
      h("td", {}, a.kind),
      h("td", {}, bytes(a.bytes)),
      h("td", {}, whole(a.step)),
      h("td", {}, moment(a.at)),
      h("td", { class: "mono" }, h("span", { title: a.sha256 }, a.sha256.slice(0, 12))),
    )
  );
  const headings = ["Path", "Kind", "Size", "Step", "Written", "SHA-256"];
  fill(root, scrollTable("Artifacts", "records", headings, h("tbody", {}, rows)));
}
