/** The permissions that `mosaic proxy ARGS` needs. */
import { DEFAULT_HTTP } from "../base/agreed.ts";
import { Layout, resolveStateDir, RunFiles } from "../base/layout.ts";
import { EFFECTIVE_USER_SYS } from "../os/rights/effective_user.ts";
import { addressGrant, hostOf } from "./addresses.ts";
import { absolutePath, optionValue, ownWords } from "./find_option.ts";
import { PLACED_VARIABLES, PROXY_VARIABLES, tlsFiles } from "./variables.ts";
import { type Permissions, permissions } from "./permissions.ts";
import type { World } from "./world.ts";

/** Options that name a file to be read. */
const FILES = ["--token-file", "--tls-ca"];

export function proxyPlan(args: readonly string[], world: World): Permissions {
  const words = ownWords(args);
  const target = addressGrant(
    optionValue(words, "--target") || DEFAULT_HTTP,
    "--target",
    world.cwd,
  );
  const given = optionValue(words, "--run-dir");
  const runDir = given === undefined ? undefined : absolutePath(given, world.cwd);
  const { daemonJson, ca, placed, observed, sys } = runDir === undefined
    ? { ...NO_START_FILE, observed: [world.cwd] }
    : startFileOf(runDir, words, world);
  const net = [...target.net];
  const read = ["/dev/null", ...observed];
  const write: string[] = [];
  if (target.socket !== undefined) {
    read.push(target.socket);
    write.push(target.socket);
  } else if (daemonJson !== undefined) {
    // A restarted daemon may listen on another port of its host.
    net.push(...target.net.filter((entry) => entry.includes(":")).map(hostOf));
  }
  for (const option of FILES) {
    const file = optionValue(words, option);
    if (file !== undefined) read.push(absolutePath(file, world.cwd));
  }
  if (ca !== undefined) read.push(ca);
  if (daemonJson !== undefined) read.push(daemonJson);
  else read.push(...tlsFiles(world));
  const directories = runDir === undefined ? standAlone(words, world, read) : [runDir];
  return permissions({
    read: [...read, ...directories],
    write: [...write, ...directories],
    net,
    run: ["/bin/sh"],
    // A stand-alone proxy passes its whole environment to the worker; otherwise the start file has
    // the worker's.
    env: daemonJson === undefined ? "all" : [...PROXY_VARIABLES, ...placed ? PLACED_VARIABLES : []],
    sys: ["hostname", "statfs", ...sys],
  });
}

interface FromStartFile {
  /** Path of the daemon's daemon.json; undefined for a stand-alone proxy. */
  daemonJson: string | undefined;
  ca: string | undefined;
  /** An engine has placed the proxy on this host. */
  placed: boolean;
  /** Directories whose files are read besides the run's own. */
  observed: string[];
  /** To read them as the worker's user. */
  sys: readonly string[];
}

const NO_START_FILE = { daemonJson: undefined, ca: undefined, placed: false, sys: [] };

/** What the start file says. */
function startFileOf(runDir: string, words: readonly string[], world: World): FromStartFile {
  const attempt = Number(optionValue(words, "--attempt") ?? 1);
  const files = new RunFiles(runDir, optionValue(words, "--worker-id") ?? "");
  const path = (value: unknown) =>
    typeof value === "string" && value.startsWith("/") ? value : undefined;
  try {
    const start = JSON.parse(world.readText(files.proxyFile(attempt)) ?? "");
    const list = (value: unknown): unknown[] => Array.isArray(value) ? value : [];
    const { roots = [], places = [], globs, user } = start.observe ?? {};
    const named = words.includes("--read-files")
      ? JSON.parse(world.readText(files.namedFiles) ?? "{}").globs
      : [];
    const patterns = [...list(globs), ...list(named)].map((one) =>
      (one as { root?: unknown })?.root
    );
    const observed = [...list(roots), ...list(places), ...patterns].map(path);
    return {
      daemonJson: path(start.daemonJson),
      ca: path(start.tls?.ca),
      placed: start.placed !== undefined,
      sys: user === undefined ? [] : EFFECTIVE_USER_SYS,
      observed: observed.filter((root) => root !== undefined && !/[\n\0]/.test(root)) as string[],
    };
  } catch {
    // Without a start file the proxy is stand-alone.
    return { ...NO_START_FILE, observed: [world.cwd] };
  }
}

/**
 * The run's directory below the state directory, and the temporary directory used if it cannot be
 * created.
 */
function standAlone(words: readonly string[], world: World, read: string[]): string[] {
  const runId = optionValue(words, "--run-id") ?? "";
  const temporary = absolutePath(world.env("TMPDIR") || "/tmp", world.cwd);
  try {
    const layout = new Layout(resolveStateDir(undefined, (name) => world.env(name)));
    read.push(layout.daemonJson);
    return [layout.runDir("runs", runId), temporary];
  } catch {
    return [temporary];
  }
}
