/** The config of another run, and parameters as lines. */
import assert from "node:assert/strict";
import { changedLines, parameterLines, repeatedConfig } from "../../src/runs/repeated_config.ts";

Deno.test("another run: changed parameters, name and tags; what belonged to the first run alone is left out", () => {
  const config = JSON.stringify({
    run_name: "a",
    arguments: ["/copy/t.py", "--lr", "0.1", "--big", "9007199254740993"],
    metadata: {
      tags: ["x"],
      worker: { arguments: [], config: { run_id: "1", lr: 12345678901234567890 } },
      queue: { after: ["1"], priority: 2 },
      submission: { nonce: "n", copied: { from: "/code", to: "/copy" } },
    },
  }).replace("12345678901234567000", "12345678901234567890");
  const text = repeatedConfig(config, "R", { name: "b", tags: ["y"], set: [["lr", "2"]] }, ["lr"]);
  assert.match(text, /12345678901234567890/, "numbers stay as they were written");
  const { metadata, ...top } = JSON.parse(text);
  assert.deepEqual(top, {
    run_name: "b",
    arguments: ["/code/t.py", "--lr", "2", "--big", "9007199254740993"],
  });
  assert.deepEqual(metadata.tags, ["y"]);
  assert.deepEqual(metadata.queue, { priority: 2 });
  assert.deepEqual(Object.keys(metadata.worker.config), ["lr"]);
  assert.equal(metadata.submission.rerun_of, "R");
  assert.notEqual(metadata.submission.nonce, "n");
  assert.equal(metadata.submission.copied, undefined);
  assert.throws(
    () => repeatedConfig(config, "R", { set: [["rl", "2"]] }, ["lr"]),
    /no parameter "rl".*lr/s,
  );
});

Deno.test("another run of a sweep's trial is no trial: tag and parameter go, its own tags, and its program's environment, stay", () => {
  const config = JSON.stringify({
    run_name: "s-3",
    environment: { MOSAIC_SWEEP: "s", MOSAIC_ARRAY_INDEX: "3" },
    metadata: {
      tags: ["x", "sweep:s", "sweep:t"],
      parameters: { lr: 0.1, sweep: "s" },
      submission: { by: "mosaic sweep", sweep: "s", trial: 3, nonce: "n" },
    },
  });
  const { environment, metadata } = JSON.parse(repeatedConfig(config, "R", {}, []));
  assert.deepEqual(metadata.tags, ["x", "sweep:t"]);
  assert.deepEqual(metadata.parameters, { lr: 0.1 });
  const { nonce: _, ...submission } = metadata.submission;
  assert.deepEqual(submission, { by: "mosaic rerun", rerun_of: "R" });
  assert.deepEqual(environment, { MOSAIC_SWEEP: "s", MOSAIC_ARRAY_INDEX: "3" });
});

Deno.test("parameters as lines: what was changed, and which line is wrong", () => {
  const lines = parameterLines([{ name: "lr", value: 0.1 }, { name: "env", value: "a=b" }, {
    name: "t",
    value: "1\n2",
  }]);
  assert.equal(lines, 'lr=0.1\nenv=a=b\nt="1\\n2"');
  assert.deepEqual(changedLines(lines, lines), {});
  assert.deepEqual(changedLines(lines, `${lines.replace("0.1", " 3e-4 ")}\n\nnew=1\n`), {
    lr: "3e-4",
    new: "1",
  });
  assert.throws(() => changedLines(lines, "lr"), /"lr" is not NAME=VALUE/);
  assert.throws(() => changedLines(lines, "lr=1"), /line of env is missing/);
});
