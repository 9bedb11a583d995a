/** The true form, by `deno compile`. */
import config from "../../deno.json" with { type: "json" };
import { bundle, commit, fail, ROOT, run, withCommit } from "./build.ts";

/** Permission sets of deno.json; one executable has one set for all of its verbs. */
export const PROFILES = ["workstation", "daemon", "proxy", "client", "all"] as const;
export type Profile = typeof PROFILES[number];

/** mosaic needs Linux: locks, process groups, /proc. */
export const TARGETS: readonly string[] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

export interface CompiledOptions {
  output: string;
  target: string | undefined;
  profile: Profile;
}

/** @param app the directory of the bundled program, with a deno.json of its own */
export function compileArguments({ output, target, profile }: CompiledOptions, app: string): string[] {
  return [
    ...["compile", "--quiet", "--no-prompt", "--unstable-net", "--no-remote", "--no-lock"],
    ...["--config", `${app}/deno.json`],
    profile === "all" ? "-A" : `-P=${profile}`,
    ...["--app-name", "mosaic"],
    ...(target === undefined ? [] : ["--target", target]),
    ...["-o", output, `${app}/main.js`],
  ];
}

export function compiled(options: CompiledOptions): void {
  const { target = Deno.build.target } = options;
  if (!TARGETS.includes(target)) fail(`--target ${target}: mosaic is built for ${TARGETS.join(" and ")}`);
  requireBase(target);
  const parent = Deno.makeTempDirSync();
  try {
    const app = `${parent}/app`;
    writeApp(app);
    const made = run(Deno.execPath(), compileArguments(options, app));
    if (!made.ok) fail(`deno compile failed:\n${made.err}`);
  } finally {
    Deno.removeSync(parent, { recursive: true });
  }
}

/** All files as of one moment: the executable records their times, and the same sources are to give the same bytes. */
const EPOCH = new Date(0);

function writeApp(app: string): void {
  Deno.mkdirSync(app);
  const at = commit();
  const files = bundle("src/main.ts");
  files.set("deno.json", JSON.stringify({ unstable: config.unstable, permissions: config.permissions }));
  for (const [name, text] of files) {
    Deno.writeTextFileSync(`${app}/${name}`, withCommit(text, at));
    Deno.utimeSync(`${app}/${name}`, EPOCH, EPOCH);
  }
}

export interface BaseWorld {
  env(name: string): string | undefined;
  isFile(path: string): boolean;
  /** Where Deno keeps what it has fetched. */
  cache: string;
  /** Deno's version. */
  version: string;
}

/**
 * Deno looks for its runtime base at DENORT_BIN, then in its cache, and would then download it.
 * @returns what to say where it is not at hand
 */
export function missingBase(target: string, world: BaseWorld): string | undefined {
  const base = world.env("DENORT_BIN");
  if (base !== undefined) return world.isFile(base) ? undefined : `DENORT_BIN names ${base}, which is not a file`;
  const { cache, version } = world;
  const archive = `${cache}/dl/release/v${version}/denort-${target}.zip`;
  if (world.isFile(archive)) return undefined;
  return `Deno's runtime base is not at hand. Either\n` +
    `  - fetch https://dl.deno.land/release/v${version}/denort-${target}.zip and put it at\n    ${archive}\n` +
    `  - or unpack it and set DENORT_BIN to the file denort,\n` +
    `  - or make the portable form, which needs nothing else: deno task compile --offline`;
}

function requireBase(target: string): void {
  const said = missingBase(target, {
    env: (name) => Deno.env.get(name),
    isFile,
    cache: JSON.parse(run(Deno.execPath(), ["info", "--json"]).out).denoDir,
    version: Deno.version.deno,
  });
  if (said !== undefined) fail(said);
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path.startsWith("/") ? path : `${ROOT}${path}`).isFile;
  } catch {
    return false;
  }
}
