/** This process's environment, and the environment of its parent, which is passed to workers. */

let taken: Readonly<Record<string, string>> | undefined;

/**
 * Snapshot at the first call. A daemon under a permission set drops its access to the environment
 * once it runs (src/permissions/give_up.ts) and passes this snapshot to proxies and workers.
 * Variables that the permissions do not name look unset.
 */
export function ownEnvironment(): Readonly<Record<string, string>> {
  return taken ??= Object.freeze(Deno.env.toObject());
}

/** Values that the portable executable's stub gives to variables that were not set. */
const STUBS_OWN = { DENO_NO_UPDATE_CHECK: "mosaic", MALLOC_ARENA_MAX: "02" };

/**
 * The environment without the variables that the portable executable's stub and Deno have added.
 */
export function hostEnvironment(
  own: Readonly<Record<string, string>> = ownEnvironment(),
): Record<string, string> {
  const {
    MOSAIC_EXECUTABLE,
    MOSAIC_PLANNED: _,
    MOSAIC_OUTER_DENO_DIR,
    DENO_NODE_SHIM_ACTIVE: __,
    ...rest
  } = own;
  const env: Record<string, string> = rest;
  if (env.PATH !== undefined) env.PATH = cleanPath(env.PATH);
  if (!MOSAIC_EXECUTABLE) return env;
  if (MOSAIC_OUTER_DENO_DIR) env.DENO_DIR = MOSAIC_OUTER_DENO_DIR;
  else delete env.DENO_DIR;
  for (const [name, value] of Object.entries(STUBS_OWN)) if (env[name] === value) delete env[name];
  return env;
}

/** PATH without the directory that Deno prepends, in which `node` is Deno itself. */
export function cleanPath(path: string): string {
  return path.split(":").filter((directory) => !/(^|\/)node_compat_bin\/?$/.test(directory)).join(
    ":",
  );
}
