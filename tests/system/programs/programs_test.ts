/**
 * Programs as people write them, unchanged, against their own trackers
 * (docs/reference/programs.md).
 */
import assert from "node:assert/strict";
import { PROGRAM } from "../../harness/daemon.ts";
import { pythonTest } from "../../python/python.ts";

const RUN = new URL("run.py", import.meta.url).pathname;
const MODULES = ["gymnasium", "numpy", "tensorboard", "tensorboardX"];

pythonTest(
  "programs, unchanged: each point of their own trackers, bit for bit, with proxies and daemon killed",
  MODULES,
  async (python) => {
    const { success, stdout, stderr } = await new Deno.Command(python, {
      args: [RUN, "--mosaic", PROGRAM.map((word) => `'${word}'`).join(" "), "fast"],
      env: { PYTHONDONTWRITEBYTECODE: "1" },
      signal: AbortSignal.timeout(600_000),
    }).output();
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.ok(success, `${out}\n${err}`);
  },
);
