import assert from "node:assert/strict";
import { HIDDEN } from "../../../src/base/text/secrets.ts";
import { membersOf } from "../../../src/readers/files/open_files.ts";
import { recordsOf } from "../../../src/readers/files/source_records.ts";

Deno.test("source records: the config that a tracker's file holds is stored without its secrets", () => {
  const values = {
    lr: 0.5,
    api_key: "0123",
    hub: { token: "abc" },
    url: "https://me:pass@example.org/",
  };
  const read = [{
    kind: "params" as const,
    origin: "config" as const,
    values,
    wallTime: undefined,
    removed: [],
  }];
  const { events } = recordsOf(
    read,
    "/run/offline.wandb",
    { agentId: "a", workerId: "" },
    { keep: () => undefined, look: () => undefined },
  );
  assert.deepEqual(events.map(({ kind, dataJson }) => [kind, JSON.parse(dataJson)]), [[
    "parameters",
    {
      source: "wandb",
      values: {
        lr: 0.5,
        api_key: HIDDEN,
        hub: { token: HIDDEN },
        url: `https://me:${HIDDEN}@example.org/`,
      },
    },
  ]]);
});

Deno.test("open files: the worker's processes, whatever their names and the order of their numbers", () => {
  const stats = [
    "9999 (python) S 900 900 900 0",
    // In a session of its own, as wandb-core and its child are; numbers have begun again since.
    "120 (core (x) S 1 2) S 9999 120 120 0",
    "119 (sh) S 120 119 119 0",
    "900 (sh) S 1 900 900 0",
    "77 (left) S 1 77 900 0",
    "78 (other) S 1 78 78 0",
    "torn (",
  ].join("\n");
  assert.deepEqual(membersOf(stats, 900).sort((a, b) => a - b), [77, 119, 120, 900, 9999]);
  assert.deepEqual(membersOf(stats, 5), []);
});
