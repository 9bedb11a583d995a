/**
 * The user of workers, if the daemon is root: `worker.user` of a config, `--worker-user` of the
 * daemon. The user is changed before the sandbox starts: in a sandbox created by root, the worker
 * would own root's files.
 */
import { MosaicError } from "../../base/errors.ts";
import { shellOutput, SOON } from "../processes/shell.ts";

/**
 * One user for all runs, a range from which every run gets a number of its own, or "@owner": the
 * user that has the name of the token, or the number, of the run's owner.
 */
export type WorkerUserOption = string | { first: number; last: number };
export const OWNER = "@owner";

export interface WorkerUser {
  uid: number;
  gid: number;
  /** "": the host has no name for the number. */
  name: string;
  /** Its home directory; "": none. */
  home: string;
  /** Further groups. */
  groups?: readonly number[];
}

/** The kernel's -1 means "unchanged". */
const HIGHEST = 0xffff_fffe;

/** @throws Error that describes the valid forms */
export function parseWorkerUser(text: string): WorkerUserOption {
  if (text === OWNER) return text;
  const range = /^(\d{1,10})-(\d{1,10})$/.exec(text);
  if (range === null) {
    if (!/^([A-Za-z_][\w.-]*|\d{1,10})$/.test(text)) {
      throw new Error(`must be a user's name, its number, FIRST-LAST, or ${OWNER}`);
    }
    return text;
  }
  const [first, last] = [Number(range[1]), Number(range[2])];
  if (first < 1 || last > HIGHEST || first > last) {
    throw new Error(`must be a range within 1-${HIGHEST}`);
  }
  return { first, last };
}

/**
 * @param nameOrUid a name, or a number (which may have no name) @throws MosaicError
 * `failed_precondition`
 */
export function findUser(nameOrUid: string): WorkerUser {
  const [name = "", , uid, gid, , home = ""] =
    (shellOutput(`${SOON} getent passwd -- "$0"`, nameOrUid) ?? "").trim()
      .split(
        ":",
      );
  const found = name === ""
    ? { uid: Number(nameOrUid), gid: Number(nameOrUid), name, home: "" }
    : { uid: Number(uid), gid: Number(gid), name, home };
  if (!Number.isSafeInteger(found.uid) || found.uid > HIGHEST) {
    throw new MosaicError(
      "failed_precondition",
      `this host knows no user ${JSON.stringify(nameOrUid)} to run workers as`,
    );
  }
  if (found.uid === 0) {
    throw new MosaicError("failed_precondition", "workers were to run as root; name another user");
  }
  const groups = found.name === "" ? "" : shellOutput(`${SOON} id -G -- "$0"`, found.name) ?? "";
  return { ...found, groups: groups.split(" ").map(Number).filter((group) => group > 0) };
}

/**
 * The group of a run's directory in which the worker's own user writes (giveRunTo); undefined if
 * the worker runs as the daemon's user.
 */
export function groupOfWorker(runDirectory: string): number | undefined {
  const { mode, gid } = Deno.lstatSync(runDirectory);
  return ((mode ?? 0) & 0o1000) !== 0 ? gid ?? undefined : undefined;
}

/**
 * Words before a command that keep the user and give it no groups but the worker's
 * (src/os/rights/effective_user.ts).
 */
export function groupsCommand({ groups = [] }: WorkerUser): string[] {
  return [
    "/usr/bin/setpriv",
    ...groups.length === 0 ? ["--clear-groups"] : ["--groups", groups.join(",")],
    "--",
  ];
}

/**
 * Words before a command that run it as the user, without capabilities and without a way to get
 * any.
 */
export function userCommand({ uid, gid, name }: WorkerUser): string[] {
  return [
    ...["/usr/bin/setpriv", "--reuid", String(uid), "--regid", String(gid)],
    name === "" ? "--clear-groups" : "--init-groups",
    ...["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"],
  ];
}

/** Variables that name places of the daemon's user: not set for a worker with a user of its own. */
export const OWN_VARIABLES = [
  "XDG_CACHE_HOME",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
  "XDG_RUNTIME_DIR",
].concat(
  ["DENO_DIR", "MOSAIC_CACHE_DIR"],
);

/**
 * Of what is in the run's directory, only directories change their owner that mosaic has just made
 * (of mode 0700: nobody else could have moved one there). A worker may have moved a file of root's
 * there from a directory that it can write to, or linked one. Summaries that the daemon wrote at an
 * earlier attempt's end are removed; it writes them again at the next.
 *
 * `$1` uid, `$2` gid, `$3` the run's directory; then directories to pass through up to `--`, files
 * to read, `--`, setpriv's words.
 */
const GIVE = `
uid=$1 gid=$2 run=$3
shift 3
[ "$(cat /proc/sys/fs/protected_hardlinks)" = 1 ] || exit
while [ "$1" != -- ]; do chmod o+x "$1" || exit; shift; done
shift
while [ "$1" != -- ]; do chown "0:$gid" "$1" && chmod 640 "$1" || exit; shift; done
shift
chown "0:$gid" "$run" && chmod 1770 "$run" && chmod 711 "$run/.mosaic" || exit
: >"$run/.mosaic/user" && chmod 0 "$run/.mosaic/user" && chown "$uid:$gid" "$run/.mosaic/user" || exit
for name in checkpoints tensorboard videos; do
  [ ! -d "$run/$name" ] || find "$run/$name" -maxdepth 0 -type d -user 0 -perm 700 -exec chown "$uid:$gid" {} + || exit
done
for name in analytics.json eval_summary.json; do
  [ ! -f "$run/$name" ] || find "$run/$name" -maxdepth 0 -user 0 -exec rm -f {} + || exit
done
exec "$@" /bin/sh -c 'cd "$0" && test -w .' "$run"
`;

/**
 * Lets the worker write to the run's directory, while mosaic's files in it (logs, records) stay
 * root's: the directory belongs to root and is sticky, so that its group, the worker's, can add
 * files but neither remove nor rename those of others.
 * @param way directories that the worker must be able to pass through
 * @param readable files that it must be able to read
 * @throws MosaicError `failed_precondition` if it cannot reach them
 */
export function giveRunTo(
  user: WorkerUser,
  run: string,
  way: readonly string[],
  readable: readonly string[],
): void {
  const words = [
    String(user.uid),
    String(user.gid),
    run,
    ...way,
    "--",
    ...readable,
    "--",
    ...userCommand(user),
  ];
  if (shellOutput(GIVE, "sh", ...words) !== undefined) return;
  throw new MosaicError(
    "failed_precondition",
    `user ${
      user.name || user.uid
    } cannot work in ${run}: every directory above it must let other users pass (chmod o+x), ` +
      "setpriv (util-linux) must be installed, the sysctl fs.protected_hardlinks must be 1, and the daemon needs " +
      "CAP_SETUID, CAP_SETGID, CAP_SETPCAP and CAP_CHOWN",
  );
}
