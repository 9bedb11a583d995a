/**
 * Looks at files with the rights of a worker's user, in a process of root: whoever submits a run
 * names files that its proxy reads, and with root's rights these could be files of others. The
 * kernel decides, by the process's effective user.
 */
import { MosaicError } from "../../base/errors.ts";
import type { WorkerUser } from "./worker_user.ts";

interface Identity {
  getgroups(): number[];
  setegid(id: number): void;
  seteuid(id: number): void;
}

/** As in userCommand: a process that takes the user's rights has no other groups. */
export const EFFECTIVE_USER_SYS = ["gid", "setegid", "seteuid"];

/**
 * Calls `look`, which must only open, list or look up files, and is synchronous: the whole process
 * has the user's rights meanwhile. Costs a millisecond. @param user undefined: this process's
 * @throws MosaicError `permission_denied` if this process has groups that the user is not in
 */
export function asEffectiveUser<T>(user: WorkerUser | undefined, look: () => T): T {
  if (user === undefined) return look();
  const self = process as unknown as Identity;
  const ofUser = [user.gid, ...user.groups ?? []];
  const foreign = self.getgroups().filter((group) => !ofUser.includes(group));
  if (foreign.length > 0) {
    const message = `this process is in groups that user ${user.name || user.uid} is not in: ${
      foreign.join(", ")
    }`;
    throw new MosaicError("permission_denied", message, {
      hint: "Start it with setpriv --clear-groups.",
    });
  }
  try {
    self.setegid(user.gid);
    self.seteuid(user.uid);
    return look();
  } finally {
    self.seteuid(0);
    self.setegid(0);
  }
}
