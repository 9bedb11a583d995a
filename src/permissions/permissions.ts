/** Sets of Deno permissions, and their flags. */
import { MosaicError } from "../base/errors.ts";

export const KINDS = ["read", "write", "net", "run", "env", "sys"] as const;
export type Kind = typeof KINDS[number];

/** Granted entries per kind, or "all". FFI is missing because mosaic never needs it. */
export type Permissions = Record<Kind, readonly string[] | "all">;

export function permissions(some: Partial<Permissions> = {}): Permissions {
  return { read: [], write: [], net: [], run: [], env: [], sys: [], ...some };
}

/** The union, without duplicates and entries covered by others. */
export function together(a: Permissions, b: Permissions): Permissions {
  const sum = permissions();
  for (const kind of KINDS) {
    const [one, other] = [a[kind], b[kind]];
    sum[kind] = one === "all" || other === "all" ? "all" : tidy(kind, [...one, ...other]);
  }
  return sum;
}

/** The entries of `of` that `by` does not grant. */
export function without(of: Permissions, by: Permissions): Permissions {
  const rest = permissions();
  for (const kind of KINDS) {
    const [all, taken] = [of[kind], by[kind]];
    if (taken === "all") rest[kind] = [];
    else if (all === "all") rest[kind] = "all";
    else rest[kind] = all.filter((entry) => !taken.some((other) => covers(kind, other, entry)));
  }
  return rest;
}

function tidy(kind: Kind, entries: readonly string[]): string[] {
  const once = [...new Set(entries)];
  return once.filter((entry) =>
    !once.some((other) => other !== entry && covers(kind, other, entry))
  ).sort();
}

/** Whether granting `granted` grants `entry`. */
function covers(kind: Kind, granted: string, entry: string): boolean {
  if (granted === entry) return true;
  if (kind === "read" || kind === "write") {
    return entry.startsWith(granted === "/" ? "/" : `${granted}/`);
  }
  // A host without a port includes all of its ports.
  if (kind === "net") return entry.startsWith(`${granted}:`) && !/^\[?[0-9a-f:]*$/i.test(granted);
  if (kind === "env") return granted.endsWith("*") && entry.startsWith(granted.slice(0, -1));
  return false;
}

/**
 * The flags of `deno run`. A list of variables comes with `--ignore-env`: others then look unset
 * instead of throwing, because libraries read many.
 * @throws MosaicError `invalid_argument` for a path that cannot be written in a flag.
 */
export function flagsOf(granted: Permissions): string[] {
  const flags: string[] = [];
  for (const kind of KINDS) {
    const entries = granted[kind];
    if (entries === "all") flags.push(`--allow-${kind}`);
    else if (entries.length > 0) flags.push(`--allow-${kind}=${entries.map(escaped).join(",")}`);
  }
  if (granted.env !== "all") flags.push("--ignore-env");
  return flags;
}

/** A comma inside an entry is doubled. */
function escaped(entry: string): string {
  if (/[\n\0]/.test(entry)) {
    throw new MosaicError(
      "invalid_argument",
      `${JSON.stringify(entry)} has a line break, which no permission can name`,
    );
  }
  return entry.replaceAll(",", ",,");
}

const FLAG = /^--allow-(read|write|net|run|env|sys)(?:=(.+))?$/;
const SHORT_FLAG = /^-([RWNES])(?:=(.+))?$/;
const OF_LETTER: Record<string, Kind> = { R: "read", W: "write", N: "net", E: "env", S: "sys" };

/** Parses permission flags; undefined for `-A`. Ignores other flags. */
export function permissionsOfFlags(flags: readonly string[]): Permissions | undefined {
  let granted = permissions();
  for (const flag of flags) {
    if (flag === "-A" || flag === "--allow-all") return undefined;
    const match = FLAG.exec(flag) ?? SHORT_FLAG.exec(flag);
    if (match === null) continue;
    const kind = OF_LETTER[match[1]!] ?? match[1] as Kind;
    granted = together(
      granted,
      permissions({ [kind]: match[2] === undefined ? "all" : entriesOf(match[2]) }),
    );
  }
  return granted;
}

function entriesOf(text: string): string[] {
  return text.replaceAll(",,", "\0").split(",").filter((e) => e !== "").map((e) =>
    e.replaceAll("\0", ",")
  );
}

export const EXTRA_VARIABLE = "MOSAIC_ALLOW";

/**
 * Additional permissions from `$MOSAIC_ALLOW`: flags separated by spaces.
 * @throws MosaicError `invalid_argument` for anything else, `-A` and `--allow-ffi` too.
 */
export function extraPermissions(text: string | undefined): Permissions {
  const flags = (text ?? "").split(/\s+/).filter((flag) => flag !== "");
  for (const flag of flags) {
    if (FLAG.test(flag)) continue;
    throw new MosaicError(
      "invalid_argument",
      `${EXTRA_VARIABLE} has "${flag}", which grants nothing that can be added`,
      {
        hint:
          "Give flags such as --allow-net=hooks.example.com:443 or --allow-read=/data, with blanks between.",
      },
    );
  }
  return permissionsOfFlags(flags)!;
}
