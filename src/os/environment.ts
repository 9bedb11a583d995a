/** This process's environment, and that of whoever started it: workers get the latter. */

let taken: Readonly<Record<string, string>> | undefined;

/**
 * As it was when first asked for. A daemon under a permission set gives up looking at it once it runs
 * (src/permissions/give_up.ts); what it passes on to proxies and workers it knows from here. Variables that the permissions
 * do not name look unset.
 */
export function ownEnvironment(): Readonly<Record<string, string>> {
  return taken ??= Object.freeze(Deno.env.toObject());
}

/** What the portable executable's stub writes where it sets a variable that was not set. */
const STUBS_OWN = "mosaic";

/** Without what the stub of the portable executable and the runtime have put in. */
export function hostEnvironment(own: Readonly<Record<string, string>> = ownEnvironment()): Record<string, string> {
  const { MOSAIC_EXECUTABLE, MOSAIC_PLANNED: _, MOSAIC_OUTER_DENO_DIR, DENO_NODE_SHIM_ACTIVE: __, ...rest } = own;
  const env: Record<string, string> = rest;
  if (env.PATH !== undefined) env.PATH = cleanPath(env.PATH);
  if (!MOSAIC_EXECUTABLE) return env;
  if (MOSAIC_OUTER_DENO_DIR) env.DENO_DIR = MOSAIC_OUTER_DENO_DIR;
  else delete env.DENO_DIR;
  if (env.DENO_NO_UPDATE_CHECK === STUBS_OWN) delete env.DENO_NO_UPDATE_CHECK;
  return env;
}

/** PATH without the directory that the runtime puts in front of it, in which `node` is the runtime itself. */
export function cleanPath(path: string): string {
  return path.split(":").filter((directory) => !/(^|\/)node_compat_bin\/?$/.test(directory)).join(":");
}
