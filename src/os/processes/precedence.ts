/** Precedence of processes when all of them want the processor. */
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/time/sleep.ts";
import { shellOutputLater } from "./external_program.ts";

/**
 * A nice value of one more gives a tenth less processor time. With 15, the backlog of proxies
 * beside busy workers grew without end.
 */
const LOWER_BY = 5;
/** The kernel allows one change of an autogroup per tenth of a second, on the whole host. */
const AUTOGROUP_TRIES = 30;
const AUTOGROUP_AGAIN_MS = 1000;

/**
 * Fields of this shell's stat: $4 the calling process, $6 the session, ${19} the nice value,
 * inherited from the caller. Each thread has its own nice value. A thread that has ended meanwhile
 * is no failure; threads are read again to find those that were started by a not yet lowered
 * thread. `renice`, of both util-linux and busybox, takes the value itself, not a difference.
 */
const NICE = `read -r stat </proc/$$/stat && command -pv renice >/dev/null || exit; set -- $stat
level=$((\${19} + $0)); [ $level -le 19 ] || level=19
before=; for tries in 1 2 3 4 5 6 7 8; do
  ids=; for task in /proc/$4/task/[0-9]*; do ids="$ids \${task##*/}"; done
  [ "$ids" != "$before" ] || break
  before=$ids; command -p renice $level -p $ids >/dev/null || :
done`;

/** Only if the calling process has the session for itself, and /proc can be written. */
const AUTOGROUP = `read -r stat </proc/$$/stat || exit 0; set -- $stat
[ "$6" != "$4" ] || [ ! -w /proc/self/autogroup ] || echo $0 >/proc/self/autogroup`;

/**
 * Lowers this process's precedence below equal ones, permanently: only root could raise it again.
 * Processes that it has started before are not changed; later ones inherit it. If the kernel has
 * autogroups (on most desktops, and in containers without a cpu controller), nice values do not
 * count between sessions; then the session's value is lowered.
 */
export async function lowerPrecedence(log: Logger): Promise<void> {
  if (await shellOutputLater(NICE, String(LOWER_BY)) === undefined) {
    log.warn("cannot set the nice value; is renice installed?");
  }
  for (let tries = 0; tries < AUTOGROUP_TRIES; tries++) {
    if (await shellOutputLater(AUTOGROUP, String(LOWER_BY)) !== undefined) return;
    await sleep(AUTOGROUP_AGAIN_MS);
  }
  log.warn("cannot set the nice value of the session's autogroup");
}
