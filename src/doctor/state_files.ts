/** The files of a state directory: to whom they belong, what is left over, what others may read or change. */
import { messageOf } from "../base/errors.ts";
import { BASE_DIRS, type Layout } from "../base/layout.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import type { Repairable } from "./finding.ts";
import { isLocked } from "./lock.ts";
import type { KnownRun } from "./registry_state.ts";

const RUN_ID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
/** A daemon that runs may be about to write the row of what it has just put on disk. */
const SETTLE_MS = 60_000;

export function lostAndFound(layout: Layout): string {
  return `${layout.trainer}/lost+found`;
}

interface Entry {
  name: string;
  path: string;
  info: Deno.FileInfo;
}

function entriesOf(directory: string): Entry[] {
  let names: string[];
  try {
    names = [...Deno.readDirSync(directory)].map((entry) => entry.name).sort();
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    try {
      const path = `${directory}/${name}`;
      return [{ name, path, info: Deno.lstatSync(path) }];
    } catch {
      return [];
    }
  });
}

/** Nothing of a run is ever deleted by a repair: it is put where a person finds it. */
function moveAway(layout: Layout, path: string): string {
  const place = lostAndFound(layout);
  Deno.mkdirSync(place, { recursive: true, mode: 0o700 });
  const name = path.slice(layout.trainer.length + 1).replaceAll("/", "-");
  let target = `${place}/${name}`;
  for (let n = 2; existsAt(target); n++) target = `${place}/${name}.${n}`;
  Deno.renameSync(path, target);
  return `moved to ${target}`;
}

function existsAt(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** @param daemonRuns then what is younger than a minute is left alone */
export function examineRunFiles(
  layout: Layout,
  runs: readonly KnownRun[],
  daemonRuns: boolean,
  now: number,
): Repairable[] {
  const findings: Repairable[] = [];
  const byId = new Map(runs.map((run) => [run.runId, run]));
  const settled = (entry: Entry) => !daemonRuns || now - (entry.info.mtime?.getTime() ?? 0) > SETTLE_MS;
  const remedy = `move it to ${lostAndFound(layout)}`;
  for (const base of BASE_DIRS) {
    for (const entry of entriesOf(layout.baseDir(base))) {
      if (RUN_ID.test(entry.name) && byId.get(entry.name)?.baseDir === base) continue;
      if (!settled(entry)) continue;
      if (!RUN_ID.test(entry.name)) {
        findings.push(unknown(entry.path));
        continue;
      }
      if (proxyLives(entry.path)) {
        const message = "belongs to no run on record, and a proxy is at work in it";
        findings.push({ check: "orphan_directory", severity: "warning", path: entry.path, message, remedy: "" });
        continue;
      }
      findings.push({
        check: "orphan_directory",
        severity: "warning",
        path: entry.path,
        message: byId.has(entry.name)
          ? `run ${entry.name} is on record with its files under ${byId.get(entry.name)!.baseDir}/`
          : "belongs to no run on record",
        remedy,
        repair: () => moveAway(layout, entry.path),
      });
    }
  }
  for (const entry of entriesOf(layout.configs)) {
    const runId = /^(?:config|worker)-([^-.]+)(?:-.*)?\.json$/.exec(entry.name)?.[1];
    if (runId !== undefined && byId.has(runId)) continue;
    if (entry.name.endsWith(".tmp") || !settled(entry)) continue;
    if (runId === undefined || !RUN_ID.test(runId)) {
      findings.push(unknown(entry.path));
      continue;
    }
    findings.push({
      check: "orphan_config",
      severity: "warning",
      path: entry.path,
      message: "belongs to no run on record",
      remedy,
      repair: () => moveAway(layout, entry.path),
    });
  }
  for (const run of runs) {
    const directory = layout.runDir(run.baseDir, run.runId);
    // A run that has never begun has made none.
    if (!isEnded(run.state) || run.startedAt === null || existsAt(directory)) continue;
    const message = `the files of run ${run.runId} (${run.name}) are gone; its rows are there`;
    findings.push({ check: "missing_directory", severity: "note", path: directory, message, remedy: "" });
  }
  return findings;
}

/** Whether the lock of any attempt's proxy is held. */
function proxyLives(runDirectory: string): boolean {
  return entriesOf(`${runDirectory}/.mosaic`).some((entry) =>
    /^proxy-\d+\.lock$/.test(entry.name) && entry.info.isFile && isLocked(entry.path)
  );
}

function unknown(path: string): Repairable {
  return { check: "unknown_file", severity: "note", path, message: "is nothing that mosaic put there", remedy: "" };
}

const KNOWN_AT_TOP = /^(trainer|telemetry|logs|notify\.sock|daemon-output\.txt)$/;
const KNOWN_IN_TRAINER =
  /^(configs|runs|evals|custom_scripts|lost\+found|tls|tokens\.json|webhooks\.json|webhook\.secret|reserve|[\w.-]+\.sock|daemon\.(json|lock|pid)|registry\.db(-wal|-shm|\.damaged-.*)?)$/;
const KNOWN_IN_TELEMETRY = /^(reserve|telemetry\.sqlite(-wal|-shm|-journal|\.damaged-.*)?)$/;

/** Unknown files, leftovers of interrupted writes, and what earlier repairs have put away. */
export function examineLeftovers(layout: Layout, daemonRuns: boolean, now: number): Repairable[] {
  const findings: Repairable[] = [];
  const places: [string, RegExp][] = [
    [layout.stateDir, KNOWN_AT_TOP],
    [layout.trainer, KNOWN_IN_TRAINER],
    [`${layout.stateDir}/telemetry`, KNOWN_IN_TELEMETRY],
    [layout.configs, /\.json$/],
  ];
  for (const [directory, known] of places) {
    for (const entry of entriesOf(directory)) {
      if (known.test(entry.name)) continue;
      if (!entry.name.endsWith(".tmp") || !entry.info.isFile) {
        if (directory !== layout.configs) findings.push(unknown(entry.path));
        continue;
      }
      if (daemonRuns && now - (entry.info.mtime?.getTime() ?? 0) <= SETTLE_MS) continue;
      findings.push({
        check: "temporary",
        severity: "warning",
        path: entry.path,
        message: "is left of a write that was interrupted",
        remedy: "remove it",
        repair: () => {
          Deno.removeSync(entry.path);
          return "removed";
        },
      });
    }
  }
  const kept = entriesOf(lostAndFound(layout)).length;
  if (kept > 0) {
    const message = `holds ${kept} file(s) and director(ies) that repairs put there; delete what you do not need`;
    findings.push({ check: "lost_and_found", severity: "note", path: lostAndFound(layout), message, remedy: "" });
  }
  return findings;
}

/** Databases and configs hold session tokens and environments; nobody else may change anything. */
export function examineModes(layout: Layout): Repairable[] {
  const findings: Repairable[] = [];
  const look = (path: string, forbidden: number, meaning: string) => {
    let mode: number;
    let useless = 0;
    try {
      const info = Deno.lstatSync(path);
      // The mode of a link says nothing.
      if (info.isSymlink || info.mode === null) return;
      mode = info.mode & 0o7777;
      // Nothing that is looked at here is a program.
      if (info.isFile) useless = 0o111;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      findings.push({
        check: "modes",
        severity: "error",
        path,
        message: `cannot be looked at: ${messageOf(error)}`,
        remedy: "",
      });
      return;
    }
    if ((mode & forbidden) === 0) return;
    const better = mode & ~forbidden & ~useless;
    findings.push({
      check: "modes",
      severity: "warning",
      path,
      message: `has mode ${mode.toString(8)}: ${meaning}`,
      remedy: `set mode ${better.toString(8)}`,
      repair: () => {
        try {
          Deno.chmodSync(path, better);
        } catch (error) {
          // The files beside a database go when its last user does.
          if (error instanceof Deno.errors.NotFound) return "it has gone by itself";
          throw error;
        }
        return `mode ${better.toString(8)}`;
      },
    });
  };
  for (const directory of layout.directories()) look(directory, 0o002, "any user may change it");
  for (const db of [layout.registryDb, layout.telemetryDb]) {
    for (const suffix of ["", "-wal", "-shm"]) {
      look(`${db}${suffix}`, 0o077, "others may use it, and it holds session tokens");
    }
  }
  for (const secret of [layout.tokensFile, layout.webhookSecret]) {
    look(secret, 0o077, "others may use it, and it is a secret");
  }
  for (const entry of entriesOf(layout.configs)) {
    look(entry.path, 0o077, "others may use it, and environments may hold secrets");
  }
  return findings;
}
