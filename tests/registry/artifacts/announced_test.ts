import assert from "node:assert/strict";
import { stepInName } from "../../../src/registry/artifacts/announced.ts";
import { relativeWithin } from "../../../src/registry/artifacts/run_directory.ts";

Deno.test("announced: the step in a file's name", () => {
  const cases: [string, number | null][] = [
    ["checkpoints/step_1000.pt", 1000],
    ["model-step=20.ckpt", 20],
    ["rl_model_10000_steps.zip", 10000],
    ["Steps30", 30],
    ["checkpoint_000010", null],
    ["step_5/model.pt", null],
    ["latest", null],
    ["iter_1000.pth", 1000],
    ["update=7.npz", 7],
    ["ckpt-500.keras", 500],
    ["out/checkpoint-500/model.safetensors", 500],
    ["model-2.0.pt", null],
    ["resnet-50.pt", null],
  ];
  for (const [path, step] of cases) assert.equal(stepInName(path), step, path);
});

Deno.test("announced: paths are taken relative to the run's directory, and only from inside it", () => {
  const cases: [string, string | undefined][] = [
    ["a/b", "a/b"],
    ["./a//b/", "a/b"],
    ["/home/run/a", "a"],
    ["/home/run", undefined],
    ["/home/runner/a", undefined],
    ["/etc/passwd", undefined],
    ["../a", undefined],
    ["a/../../b", undefined],
    ["/home/run/../x", undefined],
    ["a\0b", undefined],
    ["", undefined],
  ];
  for (const [path, expected] of cases) {
    assert.equal(relativeWithin("/home/run", path), expected, path);
  }
});
