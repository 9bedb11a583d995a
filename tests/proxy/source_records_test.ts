import assert from "node:assert/strict";
import { HIDDEN } from "../../src/base/secrets.ts";
import { recordsOf } from "../../src/proxy/sources/source_records.ts";

Deno.test("source records: the config that a tracker's file holds is stored without its secrets", () => {
  const values = { lr: 0.5, api_key: "0123", hub: { token: "abc" }, url: "https://me:pass@example.org/" };
  const read = [{ kind: "params" as const, origin: "config" as const, values, wallTime: undefined, removed: [] }];
  const { events } = recordsOf(read, "/run/offline.wandb", { agentId: "a", workerId: "" }, () => undefined);
  assert.deepEqual(events.map(({ kind, dataJson }) => [kind, JSON.parse(dataJson)]), [["parameters", {
    source: "wandb",
    values: { lr: 0.5, api_key: HIDDEN, hub: { token: HIDDEN }, url: `https://me:${HIDDEN}@example.org/` },
  }]]);
});
