/** A large state directory for the page. */
import type { Layout } from "../src/base/layout.ts";
import { Registry } from "../src/registry/registry.ts";
import { TelemetryStore } from "../src/telemetry/store.ts";
import { pause } from "./measure.ts";
import { asReceived, stepBatch, stepColumns } from "./records.ts";

export const LONG_RUN = "01LONGRUN00000000000000000";
const BATCH = 2048;

/** `runs` that have ended, and one run ({@link LONG_RUN}) of `steps`. */
export async function prepareState(
  layout: Layout,
  size: { runs: number; steps: number },
): Promise<void> {
  for (const directory of layout.directories()) Deno.mkdirSync(directory, { recursive: true });
  const registry = Registry.open(layout.registryDb);
  const add = (runId: string, name: string) =>
    registry.insert({
      ...{ runId, name, digest: "0".repeat(64), maxAttempts: 1, priority: 0, baseDir: "runs" },
      ...{ tags: [`sweep-${name.length % 5}`], configJson: JSON.stringify({ run_name: name }) },
      ...{ gpusRequested: 0, gpusMandatory: false, workerId: "", agentId: "agent_1", owner: "" },
    });
  for (let i = 0; i < size.runs; i++) {
    const { runId } = add(
      `01RUN${String(i).padStart(21, "0")}`,
      `sweep-lr-${(i * 7919) % 9973}-seed-${i}`,
    );
    registry.apply(runId, { type: "cancelled", reason: "user_cancel" });
    if (i % 500 === 0) await pause(0);
  }
  add(LONG_RUN, "long-run");
  for (const type of ["spawned", "registered", "active", "exited_ok"] as const) {
    registry.apply(LONG_RUN, { type });
  }
  registry.close();
  const store = TelemetryStore.open(layout.telemetryDb);
  const template = stepColumns(0, BATCH, { observationBytes: 0 });
  for (let done = 0; done < size.steps; done += BATCH) {
    template.reward = Array.from({ length: BATCH }, (_, i) => Math.sin((done + i) / 1e5) + i % 7);
    store.ingest(LONG_RUN, 1, stepBatch(done * 200, (done + BATCH) * 200, asReceived(template)));
    if (done % (BATCH * 8) === 0) await pause(0);
  }
  store.close();
}
