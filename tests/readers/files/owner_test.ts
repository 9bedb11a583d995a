import assert from "node:assert/strict";
import { pidInContent } from "../../../src/readers/files/open_files.ts";
import { OwnDirectories } from "../../../src/readers/files/own_directories.ts";
import { type FileFacts, ownerOf } from "../../../src/readers/files/owner.ts";

const FACTS: FileFacts = {
  place: "cwd",
  isBelow: false,
  isOpen: false,
  isNew: true,
  pid: undefined,
};
const ALONE = { shared: false };
const SHARED = { shared: true, others: true, pids: [70], inner: [7] };

Deno.test("owner: a file is the worker's, another's, or may be either's", () => {
  const cases: [
    what: string,
    facts: Partial<FileFacts>,
    company: Parameters<typeof ownerOf>[1],
    owner: string,
  ][] = [
    [
      "in the run's directory, whenever it was begun",
      { place: "run", isNew: false },
      SHARED,
      "worker",
    ],
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
    [
      "in the working directory of another run, below this run's",
      { isBelow: true },
      ALONE,
      "other",
    ],
    ["the same, open in a process of the worker", { isBelow: true, isOpen: true }, ALONE, "worker"],
    [
      "the same, and its name tells a process of the worker",
      { isBelow: true, pid: 70 },
      SHARED,
      "worker",
    ],
    ["its name tells nothing, in a shared directory", {}, SHARED, "unknown"],
    ["its name tells a process of the worker", { pid: 70 }, SHARED, "worker"],
    [
      "beside a file of the worker, in a directory of its own",
      { isBeside: true },
      SHARED,
      "worker",
    ],
    ["the same in a common place", { isBeside: true, place: "common" }, SHARED, "worker"],
    [
      "beside one, but its name tells another process",
      { isBeside: true, pid: 71 },
      SHARED,
      "other",
    ],
    ["beside one, and there before the worker", { isBeside: true, isNew: false }, SHARED, "other"],
    ["its name tells a process of nobody known", { pid: 71 }, SHARED, "other"],
    [
      "its name tells a number that the worker's process has in its sandbox",
      { pid: 7 },
      SHARED,
      "unknown",
    ],
  ];
  for (const [what, facts, company, owner] of cases) {
    assert.equal(ownerOf({ ...FACTS, ...facts }, company), owner, what);
  }
});

Deno.test("owner: a worker's directories are known by its files, and end at the place's root", () => {
  const own = new OwnDirectories();
  own.add("/w/metrics.csv", "/w", "cwd");
  own.add("/w/runs/a/events", "/w", "cwd");
  own.add("/home/ray_results/exp/trial_1/result.json", "/home/ray_results", "common");
  own.addMixed("/w/runs/a/mixed/events");
  own.addOthers("/home/ray_results/theirs/trial_1/result.json", "/home/ray_results", "common");
  const has = (path: string) => own.has(path, () => true);
  assert.deepEqual(
    [
      "/w/model.pt",
      "/w/runs/a/video.mp4",
      "/w/runs/a/sub/x.png",
      "/w/runs/b/x.png",
      "/w/runs/a/mixed/x.png",
    ].map(has),
    [false, true, true, false, false],
  );
  assert.equal(has("/home/ray_results/exp/trial_2/progress.csv"), true);
  assert.equal(has("/home/ray_results/other/progress.csv"), false);
  assert.deepEqual(
    ["theirs/trial_2/model.pt", "exp/x"].map((path) => own.isOthers(`/home/ray_results/${path}`)),
    [
      true,
      false,
    ],
  );
  assert.equal(
    own.has("/w/runs/a/video.mp4", () => false),
    false,
    "the directory was there before",
  );
});

Deno.test("owner: the process in the first line of Ray's results", () => {
  const line = '{"training_iteration": 1, "pid": 42, "hostname": "h"}\n';
  assert.equal(pidInContent(line, "h"), 42);
  assert.equal(pidInContent(line, "g"), undefined);
  assert.equal(pidInContent(line.trimEnd(), "h"), undefined);
  assert.equal(pidInContent('{"pid": "42"}\n', "h"), undefined);
  assert.equal(pidInContent("pid\n42\n", "h"), undefined);
});
