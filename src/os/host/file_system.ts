/**
 * Kinds of file systems, as far as the daemon's files depend on them. Known by the kernel's magic
 * number (statfs).
 */
import { shellOutput } from "../processes/shell.ts";

/**
 * A write to a mapped page needs new space: when the disk or a quota is full, it ends the process
 * by SIGBUS.
 */
const COPY_ON_WRITE: Record<string, string> = {
  "9123683e": "btrfs",
  "ca451a4e": "bcachefs",
  "2fc12fc1": "zfs",
  "3434": "nilfs2",
};
/**
 * Another host, or a program, answers: late, not at all, or with another file; mapped pages are not
 * always coherent.
 */
const REMOTE: Record<string, string> = {
  "6969": "nfs",
  "517b": "smb",
  "fe534d42": "smb2",
  "ff534d42": "cifs",
  "65735546": "fuse",
  "1021997": "9p",
  "c36400": "ceph",
  "bd00bd0": "lustre",
  "47504653": "gpfs",
  "5346414f": "afs",
  "6b414653": "afs",
  "19830326": "beegfs",
  "73757245": "coda",
};

export interface FileSystem {
  /** "unknown": this process may not ask. */
  kind: "local" | "copy_on_write" | "remote" | "unknown";
  /** Such as "btrfs"; "" if it has no special kind. */
  name: string;
}

const known = new Map<string, FileSystem>();

/** Of an existing directory. */
export function fileSystemOf(directory: string): FileSystem {
  let found = known.get(directory);
  if (found === undefined) {
    let magic: string;
    try {
      magic = (shellOutput('stat -f -c %t -- "$0"', directory) ?? "").trim();
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) return { kind: "unknown", name: "" };
      throw error;
    }
    const [copying, remote] = [COPY_ON_WRITE[magic], REMOTE[magic]];
    found = copying !== undefined
      ? { kind: "copy_on_write", name: copying }
      : remote !== undefined
      ? { kind: "remote", name: remote }
      : { kind: "local", name: "" };
    known.set(directory, found);
  }
  return found;
}

/** What to say of a state directory there. */
export function remoteText(name: string): string {
  return `is on a network or FUSE file system (${name}): when its server is away or answers late, the daemon and its runs ` +
    "wait or fail, and what it reports as written may be lost; a local disk is safe (docs/reference/operations.md, File systems)";
}
