/** The compiled form, made by `deno compile`. */
import config from "../../deno.json" with { type: "json" };
import { V8_FLAGS } from "../../src/os/processes/heap.ts";
import { bundle, commit, fail, ROOT, run, withCommit } from "./build.ts";
import { baseTrouble } from "./runtime_base.ts";

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

/** @param app the directory of the bundled program, with its own deno.json */
export function compileArguments(
  { output, target, profile }: CompiledOptions,
  app: string,
): string[] {
  return [
    ...[
      "compile",
      "--quiet",
      "--no-prompt",
      "--unstable-net",
      "--no-remote",
      "--no-lock",
      V8_FLAGS,
    ],
    ...["--config", `${app}/deno.json`],
    profile === "all" ? "-A" : `-P=${profile}`,
    ...["--app-name", "mosaic"],
    ...(target === undefined ? [] : ["--target", target]),
    ...["-o", output, `${app}/main.js`],
  ];
}

/** @returns the bundled program that is in it */
export function compiled(options: CompiledOptions): Map<string, string> {
  const { target = Deno.build.target } = options;
  if (!TARGETS.includes(target)) {
    fail(`--target ${target}: mosaic is built for ${TARGETS.join(" and ")}`);
  }
  requireBase(target);
  const parent = Deno.makeTempDirSync();
  try {
    const app = `${parent}/app`;
    const program = writeApp(app);
    const made = run(Deno.execPath(), compileArguments(options, app));
    if (!made.ok) fail(`deno compile failed:\n${made.err}`);
    return program;
  } finally {
    Deno.removeSync(parent, { recursive: true });
  }
}

/**
 * All files get the same time: the executable records times, and the same sources must give the
 * same bytes.
 */
const EPOCH = new Date(0);

function writeApp(app: string): Map<string, string> {
  Deno.mkdirSync(app);
  const at = commit();
  const files = bundle("src/main.ts");
  files.set(
    "deno.json",
    JSON.stringify({ unstable: config.unstable, permissions: config.permissions }),
  );
  for (const [name, text] of files) {
    Deno.writeTextFileSync(`${app}/${name}`, withCommit(text, at));
    Deno.utimeSync(`${app}/${name}`, EPOCH, EPOCH);
  }
  return files;
}

function requireBase(target: string): void {
  const { error, warning } = baseTrouble(target, {
    env: (name) => Deno.env.get(name),
    read,
    cache: JSON.parse(run(Deno.execPath(), ["info", "--json"]).out).denoDir,
    version: Deno.version.deno,
  });
  if (error !== undefined) fail(error);
  if (warning !== undefined) console.error(`compile: ${warning}`);
}

function read(path: string): Uint8Array | undefined {
  try {
    return Deno.readFileSync(path.startsWith("/") ? path : `${ROOT}${path}`);
  } catch {
    return undefined;
  }
}
