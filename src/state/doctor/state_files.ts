/** Checks the files of a state directory: orphans, leftovers, file modes. */
import { messageOf } from "../../base/errors.ts";
import { BASE_DIRS, type Layout } from "../../base/layout.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { Repairable } from "./finding.ts";
import type { KnownRun } from "./registry_state.ts";
import { isFileLocked } from "../../os/files/untrusted.ts";

const RUN_ID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
/** A running daemon creates files before their rows: ignore younger files. */
const SETTLE_MS = 60_000;

function lostAndFound(layout: Layout): string {
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

/** A repair never deletes files of runs: it moves them to lost+found. */
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

/** @param daemonRuns ignore files younger than a minute */
export function examineRunFiles(
  layout: Layout,
  runs: readonly KnownRun[],
  daemonRuns: boolean,
  now: number,
): Repairable[] {
  const findings: Repairable[] = [];
  const byId = new Map(runs.map((run) => [run.runId, run]));
  const settled = (entry: Entry) =>
    !daemonRuns || now - (entry.info.mtime?.getTime() ?? 0) > SETTLE_MS;
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
        const message = "belongs to no known run, and a proxy is running in it";
        findings.push({
          check: "orphan_directory",
          severity: "warning",
          path: entry.path,
          message,
          remedy: "",
        });
        continue;
      }
      findings.push({
        check: "orphan_directory",
        severity: "warning",
        path: entry.path,
        message: byId.has(entry.name)
          ? `the files of run ${entry.name} belong under ${byId.get(entry.name)!.baseDir}/`
          : "belongs to no known run",
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
      message: "belongs to no known run",
      remedy,
      repair: () => moveAway(layout, entry.path),
    });
  }
  for (const run of runs) {
    const directory = layout.runDir(run.baseDir, run.runId);
    // A run that never started has no directory.
    if (!isEnded(run.state) || run.startedAt === null || existsAt(directory)) continue;
    const message = `the files of run ${run.runId} (${run.name}) are missing; its rows exist`;
    findings.push({
      check: "missing_directory",
      severity: "note",
      path: directory,
      message,
      remedy: "",
    });
  }
  return findings;
}

/** Whether the proxy of any attempt is running. */
function proxyLives(runDirectory: string): boolean {
  const directory = `${runDirectory}/.mosaic`;
  return entriesOf(directory).some(({ name }) =>
    /^proxy-\d+\.lock$/.test(name) && isFileLocked(`${directory}/${name}`)
  );
}

function unknown(path: string): Repairable {
  return {
    check: "unknown_file",
    severity: "note",
    path,
    message: "was not created by mosaic",
    remedy: "",
  };
}

const KNOWN_AT_TOP = /^(backup\.json|trainer|telemetry|logs|notify\.sock|daemon-output\.txt)$/;
const KNOWN_IN_TRAINER =
  /^(configs|runs|evals|custom_scripts|lost\+found|python-helper|imports|tls|tokens\.json(\.lock)?|audit\.jsonl(\.\d+)?|webhooks\.json(\.damaged-.*)?|webhook\.secret|reserve|[\w.-]+\.sock|daemon\.(json|lock|pid)|registry\.db(-wal|-shm|\.(damaged|saved)-.*)?)$/;
const KNOWN_IN_TELEMETRY =
  /^(reserve|(mosaic|telemetry)\.sqlite(-wal|-shm|-journal|\.damaged-.*)?)$/;

/** Unknown files, temporary files of interrupted writes, and the content of lost+found. */
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
        message: "was left by an interrupted write",
        remedy: "remove it",
        repair: () => {
          Deno.removeSync(entry.path);
          return "removed";
        },
      });
    }
  }
  const entries = entriesOf(lostAndFound(layout)).length;
  if (entries > 0) {
    const message =
      `contains ${entries} file(s) and director(ies) moved by repairs; delete what you do not need`;
    findings.push({
      check: "lost_and_found",
      severity: "note",
      path: lostAndFound(layout),
      message,
      remedy: "",
    });
  }
  return findings;
}

/**
 * Databases and configs contain session tokens and environments, so other users must have no
 * access.
 */
export function examineModes(layout: Layout): Repairable[] {
  const findings: Repairable[] = [];
  const check = (path: string, forbidden: number, meaning: string) => {
    let mode: number;
    let useless = 0;
    try {
      const info = Deno.lstatSync(path);
      // The mode of a link is meaningless.
      if (info.isSymlink || info.mode === null) return;
      mode = info.mode & 0o7777;
      // None of these files is a program.
      if (info.isFile) useless = 0o111;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      findings.push({
        check: "modes",
        severity: "error",
        path,
        message: `cannot read its mode: ${messageOf(error)}`,
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
          // SQLite removes -wal and -shm when the last connection closes.
          if (error instanceof Deno.errors.NotFound) return "the file no longer exists";
          throw error;
        }
        return `mode ${better.toString(8)}`;
      },
    });
  };
  for (const directory of layout.directories()) check(directory, 0o002, "any user can change it");
  for (const db of [layout.registryDb, layout.telemetryDb]) {
    for (const suffix of ["", "-wal", "-shm"]) {
      check(`${db}${suffix}`, 0o077, "other users can access it, and it contains session tokens");
    }
  }
  for (const secret of [layout.tokensFile, layout.webhookSecret]) {
    check(secret, 0o077, "other users can access it, and it is a secret");
  }
  for (const entry of entriesOf(layout.configs)) {
    check(entry.path, 0o077, "other users can access it, and environments may contain secrets");
  }
  return findings;
}
