import assert from "node:assert/strict";
import { effective, MAX_PARAMETERS } from "../../src/records/parameters.ts";
import { batch, withStore } from "./harness.ts";

const told = (data: unknown) => [{ kind: "parameters", tsNs: "", dataJson: JSON.stringify(data) }];

Deno.test("parameters: events of a source add and remove, a newer attempt's first replaces, changed ones stay beside; through a reopening", async () => {
  await withStore((bench) => {
    const put = (attempt: number, from: number, data: unknown) =>
      bench.store.ingest("r", attempt, batch(from, from + 10, { events: told(data) }));
    const now = () =>
      Object.fromEntries(
        bench.store.parameters("r").map((p) => [`${p.source}:${p.name}`, p.value]),
      );
    put(1, 0, { source: "init", values: { lr: 0.1, net: { a: 1, b: 2 } } });
    put(1, 0, { source: "init", values: { lr: 9 } });
    put(1, 10, { source: "wandb", values: { "x/y": "t" } });
    put(1, 20, { source: "init", values: { seed: 1 }, removed: ["net"] });
    bench.reopen();
    assert.deepEqual(now(), { "init:lr": "0.1", "init:seed": "1", "wandb:x/y": `"t"` });
    put(2, 0, { source: "init", values: { lr: 0.2 } });
    assert.deepEqual(now(), { "init:lr": "0.2", "init #1:lr": "0.1", "wandb:x/y": `"t"` });
    put(3, 0, { source: "init", values: { lr: 0.2 } });
    assert.deepEqual(now(), { "init:lr": "0.2", "init #1:lr": "0.1", "wandb:x/y": `"t"` });
    assert.equal(effective(bench.store.parametersNamed("lr")).get("lr")!.value, "0.2");
    assert.deepEqual(bench.store.listSeries("r"), []);
  });
});

Deno.test("parameters: beyond the bound they are counted; a deleted run has none", async () => {
  await withStore(async ({ store }) => {
    const many = Object.fromEntries(
      Array.from({ length: MAX_PARAMETERS + 3 }, (_, i) => [`p${i}`, i]),
    );
    store.ingest("r", 1, batch(0, 10, { events: told({ source: "init", values: many }) }));
    assert.equal(store.parameters("r").length, MAX_PARAMETERS);
    assert.deepEqual(Object.values(store.summary("r").violations), [3]);
    await store.delete("r");
    assert.deepEqual(store.parametersNamed("p1"), []);
  });
});
