/** The true form, by `deno compile`. */
import { fail, ROOT, run } from "./build.ts";

/** Permission sets of deno.json; one executable has one set for all of its verbs. */
export const PROFILES = ["workstation", "daemon", "proxy", "client", "all"] as const;
export type Profile = typeof PROFILES[number];

export interface CompiledOptions {
  output: string;
  target: string | undefined;
  profile: Profile;
}

export function compileArguments({ output, target, profile }: CompiledOptions): string[] {
  return [
    ...["compile", "--quiet", "--bundle", "--minify", "--no-prompt", "--unstable-net"],
    profile === "all" ? "-A" : `-P=${profile}`,
    ...["--app-name", "mosaic"],
    ...(target === undefined ? [] : ["--target", target]),
    ...["-o", output, "src/main.ts"],
  ];
}

export function compiled(options: CompiledOptions): void {
  requireBase(options.target ?? Deno.build.target);
  const made = run(Deno.execPath(), compileArguments(options));
  if (!made.ok) fail(`deno compile failed:\n${made.err}`);
}

/** Deno looks for its runtime base at DENORT_BIN, then in its cache, and would then download it. */
function requireBase(triple: string): void {
  const version = Deno.version.deno;
  const cache = JSON.parse(run(Deno.execPath(), ["info", "--json"]).out).denoDir as string;
  const archive = `${cache}/dl/release/v${version}/denort-${triple}.zip`;
  const base = Deno.env.get("DENORT_BIN");
  if (base !== undefined && !isFile(base)) fail(`DENORT_BIN names ${base}, which is not a file`);
  if (base !== undefined || isFile(archive)) return;
  fail(
    `Deno's runtime base is not at hand. Either\n` +
      `  - fetch denort-${triple}.zip of the Deno release v${version} and put it at\n    ${archive}\n` +
      `  - or unpack it and set DENORT_BIN to the file denort,\n` +
      `  - or make the portable form, which needs nothing else: deno task compile --offline`,
  );
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path.startsWith("/") ? path : `${ROOT}${path}`).isFile;
  } catch {
    return false;
  }
}
