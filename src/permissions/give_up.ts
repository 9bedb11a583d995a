/**
 * Revokes permissions: those that a daemon needs only to start, and those that mosaic never needs.
 */
import { descriptor, isGranted } from "./granted.ts";
import { type Kind, type Permissions, permissions, without } from "./permissions.ts";

/**
 * Deno allows imports from several hosts (jsr.io, esm.sh, …) by default, which can be used to send
 * data out. mosaic needs no remote imports. FFI is granted only by `-A`; then nothing is revoked,
 * because with one permission less Deno also refuses
 * /proc and /dev.
 */
export function giveUpImports(): void {
  if (Deno.permissions.querySync({ name: "ffi" }).state === "granted") return;
  Deno.permissions.revokeSync({ name: "import" });
}

/**
 * Revokes `some`, except what `kept` covers.
 *
 * Revoking an entry also revokes every wider entry that covers it: a directory that contains the
 * file, a host without port. So an entry covered by a wider one is not revoked, because the wider
 * one may still be needed.
 *
 * @returns the revoked permissions
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
  // Variables are revoked all or none: a revoked one must look unset, not throw in a library that
  // reads it. That is so if the runtime ignores unlisted variables.
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
  if (kind === "net") {
    return isGranted(kind, entry.startsWith("unix:") ? undefined : entry.replace(/:\d+$/, ""));
  }
  return isGranted(kind, entry.slice(0, entry.lastIndexOf("/")) || "/");
}
