/** Axes of the plots of parameters and results. */
import assert from "node:assert/strict";
import {
  isWithin,
  rangeOf,
  rangesFrom,
  rangesText,
  scaleOf,
} from "../../src/ui/client/insight/scales.ts";

Deno.test("scales: a range chosen on an axis has values as its ends; numbers, also logarithmic, and texts", () => {
  const rates = [0.001, 0.01, 0.1, 1];
  const log = scaleOf(rates);
  assert.ok(Math.abs((log.at(0.001) + log.at(1)) / 2 - log.at(Math.sqrt(0.001))) < 1e-9);
  const range = log.between(log.at(0.005), log.at(0.5))!;
  assert.deepEqual(range, { from: 0.01, to: 0.1 });
  assert.deepEqual(rates.map((one) => isWithin(range, one)), [false, true, true, false]);
  assert.equal(log.between(log.at(0.02), log.at(0.05)), undefined);
  const texts = scaleOf(["tanh", "relu", 3]);
  const chosen = texts.between(texts.at("relu"), 1)!;
  assert.deepEqual(chosen, { texts: ["relu", "tanh"] });
  assert.deepEqual([isWithin(chosen, "tanh"), isWithin(chosen, 3)], [true, false]);
});

Deno.test("scales: ranges go into the address and back; what is none is left out; typed ones are checked", () => {
  const ranges = new Map([["param.lr", { from: 0.01, to: 0.1 }], ["param.act", {
    texts: ["relu"],
  }]]);
  assert.deepEqual(rangesFrom(rangesText(ranges)), ranges);
  assert.equal(rangesText(new Map()), "");
  for (
    const wrong of [
      "",
      "{",
      "3",
      "null",
      '{"a": 1, "b": null, "c": {"from": "x"}, "d": {"texts": [1]}}',
    ]
  ) {
    assert.equal(rangesFrom(wrong).size, 0, wrong);
  }
  assert.deepEqual(rangeOf(" 1e-3  2 ", true), { from: 0.001, to: 2 });
  assert.deepEqual(rangeOf("relu, tanh", false), { texts: ["relu", "tanh"] });
  for (const wrong of ["2 1", "1", "1 2 3", "a b"]) {
    assert.throws(() => rangeOf(wrong, true), /is no range/);
  }
});
