/** GPUs of no host: their slots are there without any tool. */
import { createLogger } from "../../src/base/log.ts";
import { GpuPool } from "../../src/dispatch/gpus/gpu_pool.ts";
import type { Device } from "../../src/dispatch/gpus/devices.ts";

export function gpuPool(count: number, name = ""): GpuPool {
  const devices = Array.from({ length: count }, (_, card): Device => ({
    ...{ uuid: "", vendor: "nvidia", card, instance: null, name, memoryMb: null },
  }));
  const tools = {
    read: () =>
      Promise.resolve({
        cards: [],
        complete: true,
        problem: "",
        tool: false,
        links: [],
        at: performance.now(),
      }),
    processes: () => Promise.resolve([]),
    xids: () => Promise.resolve([]),
  };
  const log = createLogger({ sinks: [] });
  return new GpuPool(
    {
      option: { type: "count", count },
      visible: {},
      tools,
      log,
    },
    devices,
  );
}
