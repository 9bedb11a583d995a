/** What is granted against what is needed. Decides only. */
import { type Kind, KINDS, type Permissions, permissions, without } from "./permissions.ts";

/**
 * - `granted`: needed, and there
 * - `given up`: was needed to start, and is gone by now
 * - `missing`: needed, and not there
 * - `surplus`: there, and not needed
 */
export type Standing = "granted" | "given up" | "missing" | "surplus";

export interface AuditLine {
  standing: Standing;
  kind: Kind;
  entries: readonly string[] | "all";
}

export interface Grants {
  /** Of what is needed, what is there. */
  has: Permissions;
  /** All that is there, as far as it can be listed. */
  listed: Permissions;
}

/** @param givenUp of what is needed, what is only needed to start, for a process that has started */
export function audit(needed: Permissions, grants: Grants, givenUp = permissions()): AuditLine[] {
  const missing = without(needed, grants.has);
  const there = without(needed, missing);
  const parts: [Standing, Permissions][] = [
    ["granted", without(there, givenUp)],
    ["given up", without(there, without(there, givenUp))],
    ["missing", missing],
    ["surplus", without(grants.listed, needed)],
  ];
  return parts.flatMap(([standing, some]) =>
    KINDS.filter((kind) => some[kind].length > 0).map((kind) => ({ standing, kind, entries: some[kind] }))
  );
}

/** As `-A` grants it. */
export function everything(): Permissions {
  return permissions(Object.fromEntries(KINDS.map((kind) => [kind, "all"])));
}

/** A command line of mosaic, as the system has it. */
export interface MosaicProcess {
  /** What the runtime was told; undefined for a compiled executable, which has its permissions in itself. */
  flags: readonly string[] | undefined;
  /** The verb and its arguments. */
  words: readonly string[];
}

/** @param argv `deno run FLAGS… SCRIPT WORDS…`, or `mosaic WORDS…` */
export function mosaicProcess(argv: readonly string[]): MosaicProcess {
  if (argv[1] !== "run") return { flags: undefined, words: argv.slice(1) };
  const script = argv.findIndex((word, at) => at > 1 && /^[^-].*\.(ts|js)$/.test(word));
  return { flags: argv.slice(2, script), words: argv.slice(script + 1) };
}

/** A permission set of deno.json. Paths in it are relative to that file; mosaic's are absolute. */
export type PermissionSet = Partial<Record<Kind, unknown>>;

/** What one kind of a set grants: `true`, a list, or `{ allow: …, … }`. */
function allowed(entry: unknown): readonly string[] | "all" {
  if (entry === true) return "all";
  if (Array.isArray(entry)) return entry.map(String);
  return typeof entry === "object" && entry !== null && "allow" in entry ? allowed(entry.allow) : [];
}

export function permissionsOfSet(set: PermissionSet): Permissions {
  return permissions(Object.fromEntries(KINDS.map((kind) => [kind, allowed(set[kind])])));
}
