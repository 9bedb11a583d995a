/**
 * This process's environment as it was when first asked for. A daemon under a permission set gives up looking at it once it
 * runs (src/permissions/give_up.ts); what it passes on to proxies and workers it knows from here.
 */

let taken: Readonly<Record<string, string>> | undefined;

/** Variables that the permissions do not name look unset. */
export function ownEnvironment(): Readonly<Record<string, string>> {
  return taken ??= Object.freeze(Deno.env.toObject());
}
