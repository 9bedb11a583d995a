/**
 * Every file operation of src/: a path that a worker can change goes through
 * src/os/files/untrusted.ts and untrusted_changes.ts.
 */
import { strict as assert } from "node:assert";
import { filesOf } from "./rooms.ts";

const SRC = new URL("../../src/", import.meta.url);

/**
 * Files, and rooms with a trailing slash, that use the runtime's functions: the paths that they
 * name, none of which a worker can change. A number: how often a file does so that also handles
 * files of runs; another use must be looked at.
 */
const ALLOWED: Record<string, string | [uses: number, paths: string]> = {
  "os/files/untrusted.ts": "opens, lists and watches paths that a worker can change",
  "os/files/untrusted_way.ts": "looks at each component of such a path",
  "os/files/untrusted_changes.ts": "changes such paths",
  "os/":
    "/proc, /dev, databases and files of the state directory; the functions of os/files/files.ts",
  "base/layout.ts": "telemetry's database",
  "daemon.ts": "daemon.json",
  "daemon/": "the state directory, its logs and sockets",
  "wire/": "sockets, tokens, certificates, daemon.json",
  "rpc/grpc/listen.ts": "the listener's socket",
  "permissions/": "start files, read by the text of their path",
  "telemetry/": "telemetry's database",
  "registry/registry.ts": [0, "the registry's database"],
  "registry/sqlite.ts": "databases",
  "observability/": "databases' sizes, the cursors and the secret of webhooks",
  "state/doctor/databases.ts": "databases",
  "state/doctor/first_page.ts": "databases",
  "state/doctor/free_list.ts": "databases",
  "state/doctor/doctor.ts": [2, "the state directory, daemon.json, its lock"],
  "state/doctor/state_files.ts": [
    5,
    "entries of the state directory, of configs/ and of the directories of all runs",
  ],
  "manual/pages.ts": "docs/, beside the source files",
  "readers/import/": "the user's own files",
  "cli/": "the user's own files and directories; a demo's worker is a worker itself",
  "dispatch/queue/submission.ts": [0, "configs/"],
  "dispatch/core/imports.ts": [5, "imports/, configs/ and the directories of all runs"],
  "dispatch/launch/local/local_host.ts": [
    0,
    "a worker's config, mosaic.py, a certificate, for a node",
  ],
  "dispatch/launch/local/worker_users.ts": [2, "the directories of runs themselves"],
  "proxy/delivery/daemon_address.ts": [1, "daemon.json"],
  "proxy/delivery/dial_daemon.ts": [1, "--token-file"],
  "proxy/start/preflight.ts": [0, "the free space of a disk"],
  "journal/journal_file.ts": [2, "the worker's open standard output in /proc"],
  "proxy/start/start_plan.ts": [
    2,
    "the directory of a run that no daemon of this host knows, or a new temporary one",
  ],
  "state/archive/run_file.ts": [
    19,
    "the run file, and what is unpacked from one into a new directory",
  ],
  "state/archive/copied_files.ts": [6, "the copy, in the backup's directory"],
  "state/archive/backup.ts": [14, "the backup's directory; the text of links"],
};

const OPERATIONS =
  "open|readFile|readTextFile|writeFile|writeTextFile|rename|remove|mkdir|symlink|link|chmod|chown|watchFs|truncate|" +
  "copyFile|create|utime|readDir|readLink|makeTempDir|makeTempFile|stat|realPath";
/** lstat is allowed: it opens nothing and does not follow the last component. */
const RAW = [
  new RegExp(`\\bDeno\\.(?:${OPERATIONS})(?:Sync)?\\b`),
  /\bfrom "node:fs(?:\/promises)?"|getBuiltinModule\("(?:node:)?fs(?:\/promises)?"\)|\brequire\("(?:node:)?fs/,
  /=\s*Deno\s*[;,]|\bDeno\[/,
];
/** Of os/files/files.ts: what opens or changes a path. */
const HELPERS =
  /\b(?:writeFileAtomic|removeIfThere|readTextIfThere|fileBytes|tryLock|tryLockPlace|isLocked|isPlaceLocked)\b/;
const IMPORT =
  /import \{([^}]*)\} from "[^"]*\/os\/files\/files\.ts"|import \{([^}]*)\} from "\.\/files\.ts"/;

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}

/** The first raw operation of a file. */
function rawOperation(text: string): string | undefined {
  const code = withoutComments(text);
  const helpers = IMPORT.exec(code);
  return RAW.map((one) => one.exec(code)?.[0]).find((found) => found !== undefined) ??
    HELPERS.exec(helpers?.[1] ?? helpers?.[2] ?? "")?.[0];
}

function usesOf(text: string): number {
  return [...withoutComments(text).matchAll(new RegExp(RAW[0]!, "g"))].length;
}

function allowanceOf(file: string): string | undefined {
  return Object.keys(ALLOWED).find((name) =>
    name === file || (!name.endsWith(".ts") && file.startsWith(name))
  );
}

Deno.test("untrusted paths: files of src/ open, list and change paths only as the list allows", () => {
  const used = new Set<string>();
  const refused: string[] = [];
  for (const file of filesOf(SRC)) {
    const text = Deno.readTextFileSync(new URL(file, SRC));
    const found = rawOperation(text);
    if (found === undefined) continue;
    const name = allowanceOf(file);
    if (name === undefined) refused.push(`${file}: ${found}`);
    else {
      used.add(name);
      const allowed = ALLOWED[name]!;
      if (typeof allowed !== "string" && allowed[0] !== usesOf(text)) {
        refused.push(`${file}: ${usesOf(text)} uses`);
      }
    }
  }
  assert.deepEqual(
    refused,
    [],
    "use src/os/files/untrusted.ts, or say in ALLOWED which paths these are",
  );
  assert.deepEqual(
    Object.keys(ALLOWED).filter((name) => !used.has(name)),
    [],
    "not needed any more",
  );
});

Deno.test("untrusted paths: what opens or changes a path is recognized", () => {
  for (
    const text of [
      "Deno.openSync(path)",
      "await Deno.rename(from, to)",
      'const fs = process.getBuiltinModule("node:fs");',
      'import { existsSync } from "node:fs";',
      'import { parentOf, writeFileAtomic } from "../os/files/files.ts";',
      "const { openSync } = Deno;",
    ]
  ) assert.ok(rawOperation(text), text);
  for (
    const text of [
      "Deno.lstatSync(path)",
      "// Deno.openSync(path)",
      'import { parentOf } from "../os/files/files.ts";',
      "Deno.removeSignalListener(signal, stop)",
    ]
  ) assert.equal(rawOperation(text), undefined, text);
});
