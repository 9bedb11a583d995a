/**
 * The environment of a worker whose proxy runs stand-alone: the proxy's own environment (of an
 * image, a script) without mosaic's variables, plus the variables that every worker gets. Pure.
 */
import { RunFiles } from "../../base/layout.ts";

/** The proxy's variables: addresses, credentials and their paths, how it was started. */
const OWN = [
  ...["MOSAIC_TARGET", "MOSAIC_TOKEN", "MOSAIC_TOKEN_FILE", "MOSAIC_STATE_DIR", "MOSAIC_TRACE"],
  ...["MOSAIC_TLS_CA", "MOSAIC_TLS_CERT", "MOSAIC_TLS_KEY", "MOSAIC_TLS_SERVER_NAME"],
  ...["MOSAIC_PERMISSIONS", "MOSAIC_ALLOW"],
];

/** Variables that describe the run to a worker; no config changes them. */
const OF_RUN = ["RUN_ID", "MOSAIC_RUN_ID", "MOSAIC_RUN_DIR", "MOSAIC_ATTEMPT"];

/**
 * @param env as below
 * @param resumeFrom a path on this host
 * @returns what the run's config and its attempt add to it
 */
export function addedEnvironment(
  env: Record<string, string>,
  { environment, resumeFrom }: { environment: Record<string, string>; resumeFrom: string },
): Record<string, string> {
  const added = Object.entries(environment).filter(([name]) =>
    !OWN.includes(name) && !OF_RUN.includes(name)
  );
  const checkpoints = environment.MOSAIC_CHECKPOINT_DIR ?? env.MOSAIC_CHECKPOINT_DIR!;
  return {
    ...Object.fromEntries(added),
    MOSAIC_CHECKPOINT_DIR: checkpoints,
    MOSAIC_RESUME_FROM: resumeFrom,
  };
}

/**
 * @param surroundings the environment in which the proxy was started
 * (src/os/processes/environment.ts, hostEnvironment)
 */
export function standAloneEnvironment(
  surroundings: Record<string, string>,
  run: { runId: string; attempt: number; directory: string },
): Record<string, string> {
  const env = Object.fromEntries(
    Object.entries(surroundings).filter(([name]) => !OWN.includes(name)),
  );
  env.RUN_ID = env.MOSAIC_RUN_ID = run.runId;
  env.MOSAIC_RUN_DIR = run.directory;
  env.MOSAIC_ATTEMPT = String(run.attempt);
  env.MOSAIC_CHECKPOINT_DIR ??= new RunFiles(run.directory, "").checkpoints(run.attempt, true);
  return env;
}
