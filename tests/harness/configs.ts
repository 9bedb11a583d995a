/** Configs of small workers. */

export interface TestConfig {
  name?: string;
  /** argv of the worker. */
  command: string[];
  environment?: Record<string, string>;
  gpus?: { requested: number; mandatory?: boolean; share?: number; memory_mb?: number };
  schedule?: Record<string, unknown>;
  /** Further keys of `metadata`. */
  metadata?: Record<string, unknown>;
}

let counter = 0;

/** A config as JSON text; each call gives another digest. */
export function configOf(config: TestConfig): string {
  const [script, ...args] = config.command;
  counter++;
  return JSON.stringify({
    run_name: config.name ?? `test-${counter}`,
    entry_point: "sh",
    arguments: [],
    environment: config.environment ?? {},
    resources: { cpus: 1, memory_mb: 256, gpus: config.gpus ?? { requested: 0 } },
    artifacts: {},
    ...(config.schedule === undefined ? {} : { schedule: config.schedule }),
    metadata: {
      test: `${Deno.pid}-${counter}`,
      worker: { script, arguments: args, use_grpc: false },
      ...config.metadata,
    },
  });
}

/**
 * argv of tests/harness/worker.sh: prints steps 1…count, `everySeconds` apart, then an episode, and
 * exits with `exit`.
 */
export function countingWorker(
  options: { steps: number; everySeconds?: number; exit?: number },
): string[] {
  const script = new URL("worker.sh", import.meta.url).pathname;
  return [
    "/bin/sh",
    script,
    String(options.steps),
    String(options.everySeconds ?? 0),
    String(options.exit ?? 0),
  ];
}
