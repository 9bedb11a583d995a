/** What each part of mosaic may do and what it needs: of the processes that run now, and of those that would be started. */
import { isAlive } from "../os/identity.ts";
import { Layout } from "../base/layout.ts";
import { absolutePath } from "../permissions/arguments.ts";
import {
  audit,
  type AuditLine,
  everything,
  type Grants,
  type MosaicProcess,
  mosaicProcess,
  type PermissionSet,
  permissionsOfSet,
} from "../permissions/audit.ts";
import { daemonNeeds } from "../permissions/daemon_plan.ts";
import { grantedOf } from "../permissions/granted.ts";
import { KINDS, type Permissions, permissions, permissionsOfFlags, together } from "../permissions/permissions.ts";
import { needsOf, planFor } from "../permissions/plan.ts";
import { realWorld, type World } from "../permissions/world.ts";
import { readTextIfThere } from "../os/files.ts";
import { programForm } from "../os/self.ts";
import { askShell } from "../os/shell.ts";
import { isLocked } from "./lock.ts";
import { knownRuns } from "./registry_state.ts";
import config from "../../deno.json" with { type: "json" };

const SETS: Readonly<Record<string, PermissionSet>> = config.permissions;

export interface PartAudit {
  part: "doctor" | "daemon" | "proxy" | "client";
  /** Where the grants are known from. */
  source: string;
  /** Of a process that runs. */
  pid?: number;
  lines: AuditLine[];
}

/** This process, the daemon of the state directory, one of its proxies, and a client of it. */
export async function auditParts(stateDir: string): Promise<PartAudit[]> {
  const world = realWorld();
  const layout = new Layout(stateDir);
  const ownWords = ["doctor", "--permissions", "--state-dir", stateDir];
  const own = await ownGrants(ownWords, world);
  const parts: PartAudit[] = [{
    ...{ part: "doctor", source: "this process", pid: Deno.pid },
    lines: audit(await needsOf(ownWords, world), own),
  }];
  const daemon = runningDaemon(layout);
  const proxy = daemon === undefined ? undefined : runningProxy(layout);
  const runDir = layout.runDir("runs", "RUN");
  const started = [
    { part: "daemon", pid: daemon, words: ["daemon", "--state-dir", stateDir] },
    { part: "proxy", pid: proxy, words: ["proxy", "--run-id", "RUN", "--run-dir", runDir, "--", "worker"] },
    { part: "client", pid: undefined, words: ["status", "--state-dir", stateDir] },
  ] as const;
  for (const { part, pid, words } of started) {
    const found = pid === undefined ? undefined : await ofProcess(part, pid, stateDir);
    parts.push(found ?? await ofProfile(part, words, world, own));
  }
  return parts;
}

/** The lock tells whether a daemon runs; a pid may be anybody's by now. */
function runningDaemon(layout: Layout): number | undefined {
  const text = isLocked(layout.lockFile) ? readTextIfThere(layout.daemonJson) : undefined;
  return text === undefined ? undefined : (JSON.parse(text) as { pid: number }).pid;
}

function runningProxy(layout: Layout): number | undefined {
  return knownRuns(layout.registryDb).find(({ proxy }) => proxy !== null && isAlive(proxy))?.proxy?.pid;
}

/** What the runtime says is granted; its command line, where it can be read, says what else. */
async function ownGrants(words: readonly string[], world: World): Promise<Grants> {
  const has = grantedOf(await needsOf(words, world));
  const process = processOf(Deno.pid);
  const listed = process?.flags === undefined ? undefined : grantsOfFlags(process.flags, world.cwd);
  return { has, listed: listed ?? has };
}

async function ofProcess(
  part: "daemon" | "proxy" | "client",
  pid: number,
  stateDir: string,
): Promise<PartAudit | undefined> {
  const process = processOf(pid);
  // A compiled executable shows no flags: what was baked in is asked of this process, which is the same one.
  if (process?.flags === undefined) return undefined;
  const environment = environmentOf(pid);
  const world: World = {
    ...realWorld(),
    cwd: askShell('readlink "/proc/$0/cwd"', String(pid))?.trim() || stateDir,
    env: (name) => environment[name],
    envNames: () => Object.keys(environment),
  };
  const granted = grantsOfFlags(process.flags, world.cwd);
  const needed = await needsOf(process.words, world);
  const start = part === "daemon" ? givenUp(daemonNeeds(process.words.slice(1), world).start, granted) : undefined;
  return { part, source: "its command line", pid, lines: audit(needed, { has: granted, listed: granted }, start) };
}

/** As it would be started from here. */
async function ofProfile(
  part: "daemon" | "proxy" | "client",
  words: readonly string[],
  world: World,
  own: Grants,
): Promise<PartAudit> {
  const needed = await needsOf(words, world);
  const form = programForm();
  if (form === "compiled") {
    const has = grantedOf(needed);
    return { part, source: "baked into this executable", lines: audit(needed, { has, listed: has }) };
  }
  if (form === "portable") {
    const granted = isEverything(own.listed) ? everything() : await planFor(words, world);
    return { part, source: "planned at each start", lines: audit(needed, { has: granted, listed: granted }) };
  }
  const granted = permissionsOfSet(SETS[part]!);
  return { part, source: `deno run -P=${part}`, lines: audit(needed, { has: granted, listed: granted }) };
}

/** A daemon gives up what was granted by name (src/permissions/give_up.ts). */
function givenUp(start: Permissions, granted: Permissions): Permissions {
  const gone = permissions();
  for (const kind of KINDS) {
    const [wanted, there] = [start[kind], granted[kind]];
    if (wanted !== "all" && there !== "all") gone[kind] = wanted.filter((entry) => there.includes(entry));
  }
  return gone;
}

function isEverything(granted: Permissions): boolean {
  return KINDS.every((kind) => granted[kind] === "all");
}

/** Undefined for one that is gone, or where no shell may be run to look. */
function processOf(pid: number): MosaicProcess | undefined {
  const lines = procLines(pid, "cmdline");
  return lines === undefined ? undefined : mosaicProcess(lines);
}

function environmentOf(pid: number): Record<string, string> {
  const pairs = (procLines(pid, "environ") ?? []).map((line) => [line.split("=", 1)[0]!, line.replace(/^[^=]*=/, "")]);
  return Object.fromEntries(pairs);
}

/** The runtime refuses such files of /proc to everybody without `-A`. */
function procLines(pid: number, name: "cmdline" | "environ"): string[] | undefined {
  try {
    return askShell(`tr '\\0' '\\n' <"/proc/$0/${name}"`, String(pid))?.split("\n").slice(0, -1);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined;
    throw error;
  }
}

/** Flags of a kind stand for what a named set says of it. */
function grantsOfFlags(flags: readonly string[], cwd: string): Permissions {
  const given = permissionsOfFlags(flags);
  if (given === undefined) return everything();
  const name = flags.map((flag) => /^(?:-P|--permission-set)=(.+)$/.exec(flag)?.[1]).find((found) => found);
  const set = name === undefined ? undefined : SETS[name];
  const whole = set === undefined ? given : { ...permissionsOfSet(set) };
  for (const kind of KINDS) if (given[kind].length > 0) whole[kind] = given[kind];
  for (const kind of ["read", "write"] as const) {
    const entries = whole[kind];
    if (entries !== "all") whole[kind] = entries.map((path) => absolutePath(path, cwd));
  }
  return together(whole, whole);
}
