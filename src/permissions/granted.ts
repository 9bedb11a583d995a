/** Queries Deno for this process's permissions. */
import type { Kind } from "./permissions.ts";

/** Undefined: the whole kind. */
export function descriptor(kind: Kind, entry: string | undefined): Deno.PermissionDescriptor {
  if (entry === undefined) return { name: kind };
  switch (kind) {
    case "read":
    case "write":
      return { name: kind, path: entry };
    case "net":
      return { name: kind, host: entry };
    case "run":
      return { name: kind, command: entry };
    case "env":
      return { name: kind, variable: entry };
    case "sys":
      return { name: kind, kind: entry as "hostname" };
  }
}

export function isGranted(kind: Kind, entry: string | undefined): boolean {
  return Deno.permissions.querySync(descriptor(kind, entry)).state === "granted";
}
