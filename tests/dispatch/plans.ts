/** Plans and hosts for the tests of what is started, and how. */
import { readConfig } from "../../src/config/config.ts";
import { planOf, type RunPlan } from "../../src/config/plan.ts";
import { prepareRun } from "../../src/config/prepare.ts";
import type { CommandContext } from "../../src/dispatch/launch/local/command.ts";
import type { CommandHost } from "../../src/dispatch/launch/local/command_host.ts";
import { Layout } from "../../src/base/layout.ts";

export const RUN_ID = "01BX5ZZKBKACTAV9WEVGEMMVRZ";

/** A minimal config with these parts; the plan is the one that the registry's text gives. */
export function planWith(parts: {
  metadata?: Record<string, unknown>;
  entry_point?: string;
  arguments?: string[];
  environment?: Record<string, string>;
  gpus?: number;
}): RunPlan {
  const { gpus = 0, ...rest } = parts;
  const config = {
    run_name: "demo",
    entry_point: "train",
    environment: {},
    resources: { cpus: 1, memory_mb: 256, gpus: { requested: gpus } },
    artifacts: {},
    ...rest,
  };
  const read = readConfig(JSON.stringify(config));
  return planOf(prepareRun(read, { runId: RUN_ID, layout: new Layout("/srv/mosaic") }).configJson);
}

/** A host with these files, programs (all below /usr/bin) and variables. */
export function hostWith(
  has: { files?: string[]; programs?: string[]; env?: Record<string, string>; cwd?: string } = {},
): CommandHost {
  return {
    env: { PATH: "/usr/bin", ...has.env },
    cwd: has.cwd ?? "/project",
    isFile: (path) => (has.files ?? []).includes(path),
    isDirectory: () => false,
    findProgram: (name) => (has.programs ?? []).includes(name) ? `/usr/bin/${name}` : undefined,
    gpuDevices: () => ["/dev/nvidia0"],
    self: () => ["/opt/mosaic"],
  };
}

export function contextWith(parts: Partial<CommandContext> = {}): CommandContext {
  return {
    runId: RUN_ID,
    attempt: 1,
    stateDir: "/srv/mosaic",
    directory: `/srv/mosaic/trainer/runs/${RUN_ID}`,
    listenTarget: "127.0.0.1:41000",
    trackingAddress: "",
    gpuSlots: [],
    gpuVariables: { CUDA_VISIBLE_DEVICES: (parts.gpuSlots ?? []).join(",") },
    resumeFrom: null,
    host: hostWith(),
    ...parts,
  };
}
