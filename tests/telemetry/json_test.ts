import assert from "node:assert/strict";
import { EMPTY_EPISODE } from "../../src/gen/records/record_types.ts";
import { isoTime } from "../../src/base/text/iso_time.ts";
import { rawJson } from "../../src/base/text/json_text.ts";
import { jsonLines } from "../../src/records/public_json.ts";
import { batch, steps, withStore } from "./harness.ts";

Deno.test("json: the worker's JSON is passed through, what is none becomes a string", () => {
  const cases: [text: string, json: string][] = [
    ["1", "1"],
    ["[1, 2.5e-3]", "[1, 2.5e-3]"],
    ['{"a":1.0}', '{"a":1.0}'],
    ["[12345678901234567890]", "[12345678901234567890]"],
    ["[1,\n 2]", "[1,  2]"],
    ["[1,]", '"[1,]"'],
    ["01", '"01"'],
    ["go forward", '"go forward"'],
    ['{"a":NaN,"b":"NaN","c":-Infinity}', '{"a":null,"b":"NaN","c":null}'],
  ];
  for (const [text, json] of cases) assert.equal(rawJson(text), json);
});

Deno.test("json: a step, an episode, an event and a metric are one line each", () =>
  withStore(({ store }) => {
    store.ingest(
      "R",
      2,
      batch(0, 1, {
        steps: steps(0, 2, {
          reward: [1.5, "NaN"],
          infoJson: ["", '{"loss":0.5}'],
          renderPayloadJson: ['{"mode":"grid"}', ""],
        }),
        episodes: [{
          ...EMPTY_EPISODE,
          ...{ episode: 7, totalReward: "-Infinity", steps: 2, terminated: true, truncated: false },
          ...{
            metadataJson: '{"k":[1]}',
            tsNs: "1700000000123456789",
            agentId: 'a"b',
            workerId: "w",
          },
        }],
        events: [{
          kind: "checkpoint_saved",
          dataJson: '{"path":"c.pt"}',
          tsNs: "1700000000123456789",
        }],
      }),
    );
    const parsed = (kind: "steps" | "episodes" | "events" | "metrics") =>
      jsonLines("R", kind, store.read("R", kind, 0, 10)).trimEnd().split("\n").map((line) =>
        JSON.parse(line)
      );
    const times = { timestamp: "2023-11-14T22:13:20.123Z", ts_ns: "1700000000123456789" };
    assert.deepEqual(parsed("steps"), [
      {
        ...{
          seq: 1,
          run_id: "R",
          attempt: 2,
          episode_index: 0,
          step_index: 0,
          action: 0,
          observation: [0, 0.5],
        },
        ...{
          reward: 1.5,
          terminated: false,
          truncated: false,
          timestamp: "2023-11-14T22:13:20.000Z",
        },
        ...{ ts_ns: "1700000000000000000", agent_id: "agent_1", render_payload: { mode: "grid" } },
      },
      {
        ...{
          seq: 2,
          run_id: "R",
          attempt: 2,
          episode_index: 0,
          step_index: 1,
          action: 1,
          observation: [1, 0.5],
        },
        ...{ reward: null, reward_text: "NaN", terminated: false, truncated: false },
        ...{
          timestamp: "2023-11-14T22:13:20.001Z",
          ts_ns: "1700000000001000003",
          agent_id: "agent_1",
        },
        info: { loss: 0.5 },
      },
    ]);
    assert.deepEqual(parsed("episodes"), [{
      ...{
        seq: 1,
        run_id: "R",
        attempt: 2,
        episode_index: 7,
        total_reward: null,
        total_reward_text: "-Infinity",
      },
      ...{
        steps: 2,
        terminated: true,
        truncated: false,
        ...times,
        agent_id: 'a"b',
        worker_id: "w",
      },
      metadata: { k: [1] },
    }]);
    assert.deepEqual(parsed("events"), [
      {
        seq: 1,
        run_id: "R",
        attempt: 2,
        event: "checkpoint_saved",
        ...times,
        payload: { path: "c.pt" },
      },
    ]);
    assert.deepEqual(parsed("metrics"), [
      {
        seq: 1,
        run_id: "R",
        name: "loss",
        value: 0.5,
        step: 2,
        timestamp: "2023-11-14T22:13:20.001Z",
      },
    ]);
  }));

Deno.test("json: times are RFC 3339 in milliseconds, in any order", () => {
  for (const ms of [1_700_000_000_123, 0, 999, 1000, 1_700_000_000_001]) {
    assert.equal(isoTime(ms), new Date(ms).toISOString());
  }
});
