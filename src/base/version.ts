import config from "../../deno.json" with { type: "json" };

/** mosaic's version, as in deno.json. */
export const VERSION: string = config.version;

/**
 * The commit that an executable was built from (scripts/compile.ts puts it in); undefined from
 * source.
 */
export const COMMIT = (globalThis as { MOSAIC_COMMIT?: string }).MOSAIC_COMMIT;

/** What `mosaic --version` prints. */
export const VERSION_TEXT = `mosaic ${VERSION} (${
  COMMIT ?? "from source"
}, deno ${Deno.version.deno})`;
