import assert from "node:assert/strict";
import { queryRuns, type RunQuery } from "../../../src/dispatch/core/run_query.ts";
import { Objectives } from "../../../src/records/objective.ts";
import { newRun, runId, withRegistry } from "../../registry/fixture.ts";
import { batch, withStore } from "../../telemetry/harness.ts";

const query = (parts: Partial<RunQuery>): RunQuery => ({
  where: "",
  sort: "",
  columns: [],
  limit: 1000,
  ...parts,
});

Deno.test("query: filter, order and values are over all runs, in pages that stay right when runs come and go", async () => {
  await withRegistry(async ({ registry, clock }) => {
    await withStore(async ({ store }) => {
      for (let n = 0; n < 300; n++) {
        clock.now += 1000;
        const api = { name: "api_key", source: "command", value: `"hunter${n}"` };
        const lr = n % 3 === 2 ? [] : [{ name: "lr", source: "command", value: String(n % 10) }];
        registry.insert(newRun(n), null, [...lr, api]);
        const told = [{
          kind: "parameters",
          tsNs: "",
          dataJson: `{"source":"init","values":{"env":"E${n % 2}"}}`,
        }];
        const points = [n, n - 5].map((r) => ({
          kind: "metrics",
          tsNs: "",
          dataJson: `{"eval/r":${r % 100}}`,
        }));
        store.ingest(runId(n), 1, batch(0, 1, { events: n < 200 ? [...told, ...points] : told }));
      }
      const readers = {
        runs: registry,
        records: store,
        detail: () => assert.fail("an outline suffices"),
        objectives: new Objectives(),
      };
      const q = query({
        where: "env=E1 and lr<5",
        sort: "-metric.eval/r:max",
        columns: ["param.lr", "metric.eval/r:max", "param.api_key", "param.env"],
        limit: 7,
      });
      const expected = Array.from({ length: 300 }, (_, n) => n)
        .filter((n) => n % 2 === 1 && n % 3 !== 2 && n % 10 < 5);
      const max = (n: number) => n < 200 ? Math.max(n % 100, (n - 5) % 100) : -Infinity;
      expected.sort((a, b) => max(b) - max(a) || b - a);
      const ids: string[] = [];
      const rows: unknown[][] = [];
      for (let token: string | undefined, pages = 0;; pages++) {
        const page = await queryRuns(readers, {}, { ...q, token });
        for (const { runId, values } of page.found) {
          ids.push(runId);
          rows.push(values);
        }
        // A run that would come first in the order.
        if (pages === 1) {
          registry.insert(newRun(900), null, [{ name: "lr", source: "command", value: "1" }]);
          const dataJson = `{"source":"init","values":{"env":"E1"}}`;
          const events = [{ kind: "parameters", tsNs: "", dataJson }, {
            kind: "m",
            tsNs: "",
            dataJson: `{"eval/r":999}`,
          }];
          store.ingest(runId(900), 1, batch(0, 1, { events }));
        }
        if (page.nextToken === undefined) break;
        token = page.nextToken;
      }
      assert.deepEqual(ids, expected.map(runId));
      const [first] = expected as [number];
      assert.deepEqual(rows[0], [first % 10, max(first), "••••••••", "E1"]);
      assert.equal(rows.at(-1)![1], null);

      const all = await queryRuns(readers, {}, query({ where: "api_key~hunter" }));
      assert.equal(all.total, 0, "secrets cannot be asked for by filters");
      const error = { code: "invalid_argument" };
      await assert.rejects(queryRuns(readers, {}, { ...q, where: "", token: "q.AAAA" }), error);
      await assert.rejects(queryRuns(readers, {}, query({ sort: "lr" })), error);
    });
  });
});
