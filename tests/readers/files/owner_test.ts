import assert from "node:assert/strict";
import { type FileFacts, ownerOf } from "../../../src/readers/files/owner.ts";

const FACTS: FileFacts = { place: "cwd", isBelow: false, isOpen: false, isNew: true, pid: undefined };
const ALONE = { shared: false };
const SHARED = { shared: true, others: true, pids: [70], inner: [7] };

Deno.test("owner: a file is the worker's, another's, or may be either's", () => {
  const cases: [what: string, facts: Partial<FileFacts>, company: Parameters<typeof ownerOf>[1], owner: string][] = [
    ["in the run's directory, whenever it was begun", { place: "run", isNew: false }, SHARED, "worker"],
    ["asked for by name", { place: "requested", isNew: false }, SHARED, "worker"],
    ["open in a process of the worker", { isOpen: true, isNew: false }, SHARED, "worker"],
    ["there before the worker", { isNew: false }, ALONE, "other"],
    ["begun since, in a directory of this run alone", {}, ALONE, "worker"],
    ["the same while other runs work elsewhere", {}, { shared: false, others: true }, "worker"],
    ["in a place that all have in common, and others are live", { place: "common" }, {
      shared: false,
      others: true,
    }, "unknown"],
    ["in a common place, and nobody else is there", { place: "common" }, ALONE, "worker"],
    ["in the working directory of another run, below this run's", { isBelow: true }, ALONE, "other"],
    ["the same, open in a process of the worker", { isBelow: true, isOpen: true }, ALONE, "worker"],
    ["the same, and its name tells a process of the worker", { isBelow: true, pid: 70 }, SHARED, "worker"],
    ["its name tells nothing, in a shared directory", {}, SHARED, "unknown"],
    ["its name tells a process of the worker", { pid: 70 }, SHARED, "worker"],
    ["its name tells a process of nobody known", { pid: 71 }, SHARED, "other"],
    ["its name tells a number that the worker's process has in its sandbox", { pid: 7 }, SHARED, "unknown"],
  ];
  for (const [what, facts, company, owner] of cases) {
    assert.equal(ownerOf({ ...FACTS, ...facts }, company), owner, what);
  }
});
