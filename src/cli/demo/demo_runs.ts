/** The demo's two runs. */
import { selfCommand } from "../../os/processes/self.ts";
import type { DemoWorkerOptions } from "./worker_options.ts";

export interface DemoRunSpec {
  name: string;
  settings: Partial<DemoWorkerOptions>;
}

export const DEMO_RUNS: readonly DemoRunSpec[] = [
  { name: "cartpole-small", settings: { population: 20 } },
  { name: "cartpole-large", settings: { population: 40 } },
];

/** About 20 s including the start. */
export const DEMO_DEFAULTS = { steps: 50_000, stepDelayMs: 0.25 };

/** A run's config. mosaic passes `metadata.worker.config` to the worker as a file. */
export function demoConfig(
  spec: DemoRunSpec,
  length: { steps: number; stepDelayMs: number },
): Record<string, unknown> {
  const [program, ...args] = [...selfCommand().argv, "demo-worker", "--control"];
  return {
    run_name: spec.name,
    entry_point: program,
    arguments: args,
    environment: {},
    resources: { cpus: 1, memory_mb: 256, gpus: { requested: 0 } },
    artifacts: {},
    metadata: {
      tags: ["demo"],
      worker: {
        script: program,
        arguments: args,
        use_grpc: false,
        supports_pause: true,
        config: {
          population: spec.settings.population,
          episodes: 1_000_000,
          max_steps: length.steps,
          total_timesteps: length.steps,
          step_delay_ms: length.stepDelayMs,
          checkpoint_every: 20,
        },
      },
    },
  };
}
