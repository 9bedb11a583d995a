/** What a node's engine has told a placed proxy in its environment: which job it is, and what the worker needs of it. Pure. */
import { PLACED_VARIABLES } from "../permissions/variables.ts";

/** The worker's environment on the node. @param given as the daemon has written it: what the config says wins */
export function nodeEnvironment(given: Record<string, string>, node: Record<string, string>): Record<string, string> {
  const env = { ...given };
  for (const [name, value] of Object.entries(node)) {
    const own = name.startsWith("SLURM_") || name === "TMPDIR" || env[name] === undefined;
    if (own && [...PLACED_VARIABLES, "TMPDIR"].some((pattern) => matches(pattern, name))) env[name] = value;
  }
  return env;
}

function matches(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}

/** Where the proxy runs, for its hello. */
export function placeOf(env: (name: string) => string | undefined): { host: string; job: string; gpus: string[] } {
  const gpus = env("CUDA_VISIBLE_DEVICES") || env("SLURM_JOB_GPUS") || "";
  return {
    host: env("SLURMD_NODENAME") || Deno.hostname(),
    job: env("SLURM_JOB_ID") ?? "",
    gpus: gpus.split(",").filter((gpu) => gpu !== "" && gpu !== "NoDevFiles"),
  };
}
