/** Series and their text, and the latencies that come from transitions. */
import assert from "node:assert/strict";
import { createLogger } from "../../src/base/log.ts";
import { Activity } from "../../src/observability/activity.ts";
import { failureClass } from "../../src/observability/failure_class.ts";
import { Histogram } from "../../src/observability/histogram.ts";
import { LifecycleMetrics } from "../../src/observability/lifecycle_metrics.ts";
import { prometheusText } from "../../src/observability/prometheus_text.ts";
import { Registry } from "../../src/registry/registry.ts";
import { until } from "../harness/wait.ts";
import { newRun } from "../registry/fixture.ts";

Deno.test("histogram: bounds are inclusive, what is beyond all of them counts, nothing is negative", () => {
  const histogram = new Histogram([1, 5]);
  for (const value of [1, 1.5, 5, 6, -3]) histogram.observe(value);
  assert.deepEqual(histogram.snapshot(), {
    bounds: [1, 5],
    counts: [2, 2, 1],
    sum: 13.5,
    count: 5,
  });
});

Deno.test("Prometheus text: buckets are cumulative, labels are escaped", () => {
  const histogram = { bounds: [0.5, 1], counts: [2, 1, 1], sum: 4.25, count: 4 };
  const text = prometheusText([
    { name: "a_seconds", help: "One\nline.", unit: "s", type: "histogram", histogram },
    {
      name: "b_total",
      help: "B.",
      unit: "1",
      type: "counter",
      samples: [{ labels: { v: 'q"\\\n' }, value: 3 }],
    },
    { name: "c", help: "None yet.", unit: "1", type: "gauge", samples: [] },
  ]);
  assert.deepEqual(text.split("\n"), [
    "# HELP a_seconds One\\nline.",
    "# TYPE a_seconds histogram",
    'a_seconds_bucket{le="0.5"} 2',
    'a_seconds_bucket{le="1"} 3',
    'a_seconds_bucket{le="+Inf"} 4',
    "a_seconds_sum 4.25",
    "a_seconds_count 4",
    "# HELP b_total B.",
    "# TYPE b_total counter",
    'b_total{v="q\\"\\\\\\n"} 3',
    "# HELP c None yet.",
    "# TYPE c gauge",
    "",
  ]);
});

Deno.test("failure class: codes, signals and texts stay out of it", () => {
  const classes = [
    "exit_code_137",
    "signal_SIGKILL",
    "preflight: /data is missing",
    "telemetry_schema: step: x",
    "oom_killed",
    "exit_codes",
    null,
  ].map(failureClass);
  assert.deepEqual(classes, [
    ...["exit_code", "signal", "preflight", "telemetry_schema", "oom_killed", "other", "other"],
  ]);
});

Deno.test("lifecycle figures: how long a run waits and starts, per attempt, and why attempts fail", async () => {
  let now = 1_700_000_000_000;
  const registry = Registry.open(":memory:", { now: () => now });
  const activity = new Activity();
  const figures = new LifecycleMetrics(registry, activity, createLogger({ sinks: [] }));
  const later = (seconds: number) => void (now += seconds * 1000);
  try {
    const { runId } = registry.insert(newRun(1));
    later(20);
    registry.apply(runId, { type: "spawned" });
    later(0.3);
    registry.apply(runId, { type: "registered" });
    later(3);
    registry.apply(runId, { type: "active" });
    registry.apply(runId, { type: "failed", reason: "exit_code_3" });
    registry.apply(runId, { type: "retry", reason: "by hand" });
    later(4);
    registry.apply(runId, { type: "spawned" });
    registry.apply(runId, { type: "cancelled", reason: "user_cancel" });
    const count = (entries: [string, number][], key: string) => new Map(entries).get(key);
    await until(() => count(activity.transitions.entries(), "CANCELLED") === 1, {
      what: "all transitions",
    });
    const sums = [activity.queueSeconds, activity.startSeconds, activity.firstRecordSeconds].map(
      (histogram) => {
        const { sum, count } = histogram.snapshot();
        return [sum, count];
      },
    );
    assert.deepEqual(sums, [[24, 2], [0.3, 1], [3, 1]]);
    assert.equal(count(activity.transitions.entries(), "HANDSHAKE"), 2);
    assert.equal(count(activity.failures.entries(), "exit_code"), 1);
    assert.equal(count(activity.failures.entries(), "signal"), 0);
  } finally {
    await figures.close();
    registry.close();
  }
});
