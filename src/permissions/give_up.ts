/** Gives permissions back to the runtime: what a daemon needed only to start, and what no part of mosaic ever needs. */
import { descriptor, isGranted } from "./granted.ts";
import { type Kind, type Permissions, permissions, without } from "./permissions.ts";

/**
 * The runtime lets every program import code from half a dozen hosts (jsr.io, esm.sh, …) unless told otherwise, and asks them
 * for any path that is named: a way out. Everything of mosaic is in its own files.
 *
 * Only `-A` grants FFI. It is left whole: with one permission less the runtime refuses /proc and /dev as well.
 */
export function giveUpImports(): void {
  if (Deno.permissions.querySync({ name: "ffi" }).state === "granted") return;
  Deno.permissions.revokeSync({ name: "import" });
}

/**
 * Gives `some` up, except what `kept` covers.
 *
 * The runtime takes every entry away that covers the one revoked: a directory with the file in it, a host with its port. So
 * an entry is left alone where a wider one grants it: the wider one may be what something else rests on.
 *
 * @returns what is gone
 */
export function giveUp(some: Permissions, kept: Permissions): Permissions {
  const gone = permissions();
  const wanted = without(some, kept);
  for (const kind of ["read", "write", "net", "sys"] as const) {
    const entries = wanted[kind] === "all" ? [] : wanted[kind];
    gone[kind] = entries.filter((entry) =>
      isGranted(kind, entry) && !grantedByWider(kind, entry) && revoke(kind, entry)
    );
  }
  // Of variables all or none: one that is revoked must look unset, not throw at whatever library asks for it next. They
  // do where the runtime ignores what is not listed.
  if (wanted.env.length > 0 && Deno.permissions.querySync({ name: "env" }).state === "denied") {
    Deno.permissions.revokeSync({ name: "env" });
    gone.env = wanted.env;
  }
  return gone;
}

function revoke(kind: Kind, entry: string): boolean {
  Deno.permissions.revokeSync(descriptor(kind, entry));
  return !isGranted(kind, entry);
}

function grantedByWider(kind: Kind, entry: string): boolean {
  if (kind === "sys") return isGranted(kind, undefined);
  if (kind === "net") return isGranted(kind, entry.startsWith("unix:") ? undefined : entry.replace(/:\d+$/, ""));
  return isGranted(kind, entry.slice(0, entry.lastIndexOf("/")) || "/");
}
