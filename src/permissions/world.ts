import { ownEnvironment } from "../os/processes/environment.ts";

/** The inputs of a plan besides the command line. */
export interface World {
  /** Absolute. */
  cwd: string;
  env(name: string): string | undefined;
  /** Names of all variables that are set. */
  envNames(): string[];
  /** A file's text; undefined if it cannot be read. */
  readText(path: string): string | undefined;
  /** Addresses of a host name; none if it is unknown. */
  resolve(name: string): Promise<string[]>;
}

export function realWorld(): World {
  return {
    cwd: Deno.cwd(),
    env: (name) => ownEnvironment()[name],
    envNames: () => Object.keys(ownEnvironment()),
    readText(path) {
      try {
        return Deno.readTextFileSync(path);
      } catch {
        return undefined;
      }
    },
    async resolve(name) {
      try {
        // Names are rare, and loading the library takes longer than the rest of a plan.
        const { lookup } = await import("node:dns/promises");
        return (await lookup(name, { all: true })).map(({ address }) => address);
      } catch {
        return [];
      }
    },
  };
}
