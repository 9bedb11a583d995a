/**
 * `/metrics` of a real daemon: linted by promtool, scraped by Debian's Prometheus, documented, and
 * on the dashboard.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { isInstalled, lint, Prometheus } from "./prometheus.ts";

const installed = isInstalled();
if (!installed) {
  assert.notEqual(
    Deno.env.get("MOSAIC_TEST_REQUIRE"),
    "all",
    "prometheus and promtool are not installed",
  );
  console.warn(
    "SKIPPED: /metrics is not looked at by prometheus and promtool, which are not installed",
  );
}

const read = (path: string) => Deno.readTextFileSync(new URL(`../../${path}`, import.meta.url));

interface Panel {
  title: string;
  targets?: { expr: string }[];
}
const dashboard = JSON.parse(read("docs/grafana-dashboard.json")) as { panels: Panel[] };
const expressions = dashboard.panels.flatMap((panel) =>
  (panel.targets ?? []).map((target) => target.expr)
);

const documentation = read("docs/reference/observability.md");
const alerts = Array.from(
  documentation.slice(documentation.indexOf("Useful alerts:")).matchAll(
    /^\| `([^`]+ (?:==|<|>) [^`]+)` \|/gm,
  ),
  ([, expression]) => expression!,
);

/** Names of series in a text. */
function namesIn(text: string): string[] {
  return [...text.matchAll(/\b(?:mosaic|process)_[a-z0-9_]+/g)].map(([name]) => name);
}

Deno.test("metrics of a daemon: right by promtool, scraped by Prometheus, every one documented and known to the dashboard", async (t) => {
  await using daemon = await TestDaemon.start({ gpus: "2" });
  const run = await submit(daemon, configOf({ command: countingWorker({ steps: 500 }) }));
  await untilState(daemon, run, "TERMINATED");
  const failed = await submit(daemon, configOf({ command: countingWorker({ steps: 1, exit: 3 }) }));
  await untilState(daemon, failed, "FAULTED");
  const silent = [
    "/bin/sh",
    "-c",
    `echo '{"event_type":"step","episode":0,"step_index":0,"reward":1}'; exec sleep 600`,
  ];
  const live = await submit(daemon, configOf({ command: silent, gpus: { requested: 1 } }));
  await untilState(daemon, live, "EXECUTING");

  // Somebody who follows, by each transport.
  const gone = new AbortController();
  const following = daemon.client.stream(
    Mosaic.method.streamTelemetry,
    { run: live, kind: "steps", follow: true },
    gone.signal,
  );
  await following.next();
  const page = await fetch(`http://${daemon.http}/api/runs/${live}/episodes/live`, {
    signal: gone.signal,
  });
  const body = page.body!.getReader();
  await body.read();

  const scrape = async () => await (await fetch(`http://${daemon.http}/metrics`)).text();
  let text = "";
  await t.step("it says what happened", async () => {
    const expected = [
      'mosaic_runs{state="TERMINATED"} 1',
      'mosaic_runs{state="FAULTED"} 1',
      'mosaic_runs{state="EXECUTING"} 1',
      'mosaic_run_failures_total{reason="exit_code"} 1',
      'mosaic_submissions_total{result="accepted"} 3',
      "mosaic_submit_duration_seconds_count 3",
      "mosaic_queue_duration_seconds_count 3",
      "mosaic_start_duration_seconds_count 3",
      'mosaic_gpu_slots{use="used"} 1',
      'mosaic_gpu_slots{use="free"} 1',
      'mosaic_ingest_records_total{kind="steps"} 502',
      "mosaic_proxies_connected 1",
      "mosaic_backlog_bytes 0",
      'mosaic_subscribers{via="grpc",stream="steps"} 1',
      'mosaic_subscriber_lag_records{via="grpc",stream="steps"} 0',
      'mosaic_subscribers{via="page",stream="episodes"} 1',
      "mosaic_telemetry_writable 1",
    ];
    // Proxies of ended runs leave a little later, and transitions are counted beside everything
    // else.
    const missing = () => expected.filter((line) => !text.includes(`\n${line}\n`));
    await until(async () => {
      text = await scrape();
      return missing().length === 0;
    }, { what: "these lines", state: () => [missing(), text] });
    for (
      const name of [
        "mosaic_ingest_ack_duration_seconds_count",
        "mosaic_ring_bytes",
        "process_cpu_seconds_total",
      ]
    ) {
      assert.match(text, new RegExp(`^${name} [0-9.]*[1-9]`, "m"));
    }
    assert.match(text, /^mosaic_database_bytes\{database="telemetry",file="wal"\} \d+$/m);
    assert.match(
      text,
      /^mosaic_rpc_calls_total\{method="gymgui.trainer.TrainerService\/SubmitRun",code="ok"\} 3$/m,
    );
    assert.ok(!text.includes(run) && !text.includes(live), "no series is named after a run");
  });

  const families = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => ({
    name: name!,
    type: type!,
  }));
  const names = families.map((family) => family.name);

  await t.step("the documentation lists exactly these", () => {
    const rows = documentation.matchAll(/^\| `([a-z0-9_]+)` \| (gauge|counter|histogram) \|/gm);
    const listed = Array.from(rows, ([, name, type]) => `${name} ${type}`);
    assert.deepEqual(
      listed.toSorted(),
      families.map(({ name, type }) => `${name} ${type}`).toSorted(),
    );
  });

  await t.step(
    "the dashboard and the alerts know no other, and the dashboard leaves none out",
    () => {
      assert.ok(alerts.length >= 5, alerts.join("\n"));
      const known = new Set(
        families.flatMap(({ name, type }) =>
          type === "histogram"
            ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix)
            : [name]
        ),
      );
      for (const expression of [...expressions, ...alerts]) {
        for (const name of namesIn(expression)) {
          assert.ok(
            known.has(name),
            `${name}, in ${expression}`,
          );
        }
      }
      const shown = expressions.flatMap(namesIn).map((name) =>
        name.replace(/_(bucket|sum|count)$/, "")
      );
      assert.deepEqual(names.filter((name) => !shown.includes(name)), []);
    },
  );

  await t.step({
    name: "promtool has nothing to say against it",
    ignore: !installed,
    fn: async () => assert.equal(await lint(text), ""),
  });

  await t.step({
    name:
      "Prometheus scrapes it, and evaluates the alerts, and has data for every expression of the dashboard",
    ignore: !installed,
    fn: async () => {
      await using prometheus = await Prometheus.start(daemon.http);
      await until(async () => (await prometheus.query("up == 1")).length === 1, {
        what: "the first scrape",
        state: () => prometheus.output(),
      });
      await until(
        async () => (await prometheus.query('mosaic_runs{state="EXECUTING"}'))[0]?.value[1] === "1",
        {
          what: "the scraped runs",
        },
      );
      const rates = await until(async () => {
        const result = await prometheus.query("rate(mosaic_events_total[1m])");
        return result.length > 0 ? result : undefined;
      }, { what: "two scrapes" });
      assert.equal(rates.length, 1);
      for (const alert of alerts) await prometheus.query(alert);
      // Each panel has something to show while runs come, fail and are asked for in vain.
      let lacking = expressions;
      await until(async () => {
        const fails = await submit(
          daemon,
          configOf({ command: countingWorker({ steps: 1, exit: 3 }) }),
        );
        await untilState(daemon, fails, "FAULTED");
        await assert.rejects(daemon.client.unary(Mosaic.method.getRun, { run: "no-such-run" }));
        const still: string[] = [];
        for (const expression of lacking) {
          const asked = expression.replaceAll("$__rate_interval", "1m").replaceAll(
            "$instance",
            ".*",
          );
          const result = await prometheus.query(asked);
          if (!result.some(({ value }) => value[1] !== "NaN")) still.push(expression);
        }
        lacking = still;
        return lacking.length === 0;
      }, { what: "every expression of the dashboard to give data", state: () => lacking });
    },
  });

  gone.abort();
  await body.cancel().catch(() => {});
  await following.return();
  await until(async () => !(await scrape()).includes("\nmosaic_subscribers{"), {
    what: "the subscribers to be gone",
  });
});
