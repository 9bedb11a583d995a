/**
 * A second Unix socket for page and API, for the members of a group (`--group-socket`). Its mode
 * decides who may connect, but does not identify callers: each needs a token. So only the daemon
 * may be able to create a socket in its place.
 */
import { messageOf } from "../../base/errors.ts";
import { parentOf } from "../../os/files/files.ts";
import { shellOutput, SOON } from "../../os/processes/shell.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

export interface GroupSocket {
  /** A name, or a number (which may have no name). */
  group: string;
  /** Absolute. */
  path: string;
}

/**
 * Owner, mode and path of each parent directory. A shell reads them, because the daemon's
 * permissions name none of them: each would include everything below.
 */
const ABOVE =
  `d=$(cd -- "$0" && pwd -P) && while [ "$d" != / ]; do d=\${d%/*} d=\${d:-/}; stat -c '%u %a %n' -- "$d" || exit; done`;

/** @param text GROUP:PATH @throws Error that describes the valid form */
export function parseGroupSocket(text: string): GroupSocket {
  const [, group, path] = /^([A-Za-z_][\w.-]*|\d{1,10}):(\/.*[^/])$/.exec(text) ?? [];
  if (group === undefined || path === undefined) {
    throw new Error("must be GROUP:/path/of/the/socket, such as lab:/run/mosaic/api.sock");
  }
  return { group, path };
}

/**
 * @returns the group's number
 * @throws StartFailure (usage) if there is no such group, if the group cannot reach the socket's
 * directory, or if users
 *   other than the daemon's and root could replace the socket there
 */
export function groupOfSocket(
  { group, path }: GroupSocket,
  uid: number | null = Deno.uid(),
): number {
  const gid = Number(
    (shellOutput(`${SOON} getent group -- "$0"`, group) ?? "").split(":")[2] ?? group,
  );
  if (!Number.isSafeInteger(gid)) throw refused(`this host knows no group ${group}`);
  const directory = parentOf(path);
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(directory);
  } catch (error) {
    throw refused(
      `cannot read the mode of ${directory}: ${messageOf(error)}`,
      `Run: install -d -m 750 -g ${group} ${directory}`,
    );
  }
  const { uid: owner, gid: ownGroup, mode } = info;
  const bits = mode ?? 0;
  if ((owner !== uid && owner !== 0) || (bits & 0o022) !== 0) {
    throw refused(
      `others may replace a socket in ${directory} (user ${owner}, mode ${
        (bits & 0o777).toString(8)
      })`,
      "Its directory must belong to the daemon's user or root, and nobody else may write to it.",
    );
  }
  for (const line of (shellOutput(ABOVE, directory) ?? "").trimEnd().split("\n")) {
    const [, its, mode, above] = /^(\d+) (\d+) (.*)$/.exec(line) ?? [];
    // In a sticky directory only the owner of an entry may replace it.
    const isOpen = (parseInt(mode ?? "", 8) & 0o022) !== 0 &&
      (parseInt(mode ?? "", 8) & 0o1000) === 0;
    if (its !== undefined && (Number(its) === uid || its === "0") && !isOpen) continue;
    throw refused(
      `others may replace a directory in ${above ?? line} (user ${its}, mode ${mode})`,
      "Each directory above the socket's must belong to the daemon's user or root, and nobody else may write to it.",
    );
  }
  if ((bits & 0o001) === 0 && (ownGroup !== gid || (bits & 0o010) === 0)) {
    throw refused(
      `the group ${group} cannot reach ${directory}`,
      `Run: chgrp ${group} ${directory} && chmod 750 ${directory}`,
    );
  }
  return gid;
}

function refused(why: string, hint?: string): StartFailure {
  return new StartFailure(DAEMON_EXIT.usage, `--group-socket: ${why}`, hint);
}
