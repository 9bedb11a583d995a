/**
 * What stands in the place of a driver's tool prints without end, without sense, or what its
 * readers overflow at.
 */
import assert from "node:assert/strict";
import { GpuTools } from "../../src/os/gpus/gpu_tools.ts";

const DEEP = "[".repeat(200_000) + "]".repeat(200_000);
const OUTPUTS: Record<string, { stdout: string; stderr?: string; code?: number }> = {
  "a million messages": { stdout: "", stderr: "GPU\n".repeat(1_000_000), code: 1 },
  "blank lines and nothing else": { stdout: "  \n".repeat(300_000) },
  "rows without end": { stdout: "0, GPU-1, A, 1, 1, 1, 1, 1, Enabled\n".repeat(100_000) },
  "lists within lists": { stdout: `{"card0":{"Unique ID":${DEEP}},"system":{"PID 1":${DEEP}}}` },
  "one card with a deep list": { stdout: `[{"gpu":0,"uuid":${DEEP},"process_list":${DEEP}}]` },
  "names that begin again and again": { stdout: `GPU 0: ${"(UUID: GPU-".repeat(50_000)}` },
  "keys that begin again and again": {
    stdout: `{"card0":{"${"Average Power".repeat(20_000)}":1}}`,
  },
};

Deno.test("hostile GPU tools: what overflows or takes time without end is a problem of the reading, or has few cards", async () => {
  for (const tool of ["nvidia-smi", "rocm-smi", "amd-smi"]) {
    for (const [what, { stdout, stderr = "", code = 0 }] of Object.entries(OUTPUTS)) {
      const tools = new GpuTools((argv) =>
        Promise.resolve(
          argv[0] === tool ? { code, stdout, stderr } : { code: 127, stdout: "", stderr: "" },
        )
      );
      const { cards, problem } = await tools.read();
      assert.ok(
        cards.length <= 64 && problem.length <= 600,
        `${tool}: ${what}: ${cards.length} ${problem.length}`,
      );
      assert.ok(((await tools.processes()) ?? []).length <= 4096, what);
      assert.ok(cards.every(({ uuid, name }) => uuid.length <= 200 && name.length <= 200), what);
    }
  }
});
