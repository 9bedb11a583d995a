import config from "../deno.json" with { type: "json" };

/** mosaic's version, as in deno.json. */
export const VERSION: string = config.version;
