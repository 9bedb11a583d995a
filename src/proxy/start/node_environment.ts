/**
 * Reads the environment that a node's engine gives a placed proxy: the job, and variables that the
 * worker needs. Pure.
 */
import { PLACED_VARIABLES } from "../../permissions/variables.ts";

/**
 * The worker's environment on the node. @param given from the daemon; the config's values override
 */
export function nodeEnvironment(
  given: Record<string, string>,
  node: Record<string, string>,
): Record<string, string> {
  const env = { ...given };
  for (const [name, value] of Object.entries(node)) {
    const own = name.startsWith("SLURM_") || name === "TMPDIR" || env[name] === undefined;
    if (own && [...PLACED_VARIABLES, "TMPDIR"].some((pattern) => matches(pattern, name))) {
      env[name] = value;
    }
  }
  return env;
}

function matches(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}

/** The proxy's host and job, for its hello. */
export function placeOf(
  env: (name: string) => string | undefined,
): { host: string; job: string; gpus: string[] } {
  const gpus = env("CUDA_VISIBLE_DEVICES") || env("SLURM_JOB_GPUS") || "";
  return {
    host: env("SLURMD_NODENAME") || Deno.hostname(),
    job: env("SLURM_JOB_ID") ?? "",
    gpus: gpus.split(",").filter((gpu) => gpu !== "" && gpu !== "NoDevFiles"),
  };
}
