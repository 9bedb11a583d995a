/** Which process the kernel lets go first where all want the processor. */
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/sleep.ts";
import { askShellLater } from "./shell.ts";

/** A step of one is a tenth of the processor. With 15, proxies beside busy workers fell behind without end. */
const LOWER_BY = 5;
/** The kernel lets one process a tenth of a second, of the whole host, change its autogroup. */
const AUTOGROUP_TRIES = 30;
const AUTOGROUP_AGAIN_MS = 1000;

/**
 * Of the stat of this shell: $4 the process that asks, $6 the session, ${19} the nice value, which the shell has from it.
 * All threads have a nice value each. One that has ended meanwhile is no failure; one that a thread has started before it was
 * lowered is found when the threads are read again. `renice` takes the value itself, not a difference: both of util-linux
 * and of busybox.
 */
const NICE = `read -r stat </proc/$$/stat && command -pv renice >/dev/null || exit; set -- $stat
level=$((\${19} + $0)); [ $level -le 19 ] || level=19
before=; for tries in 1 2 3 4 5 6 7 8; do
  ids=; for task in /proc/$4/task/[0-9]*; do ids="$ids \${task##*/}"; done
  [ "$ids" != "$before" ] || break
  before=$ids; command -p renice $level -p $ids >/dev/null || :
done`;

/** Only of a session that the process that asks has for itself, and where /proc can be written at all. */
const AUTOGROUP = `read -r stat </proc/$$/stat || exit 0; set -- $stat
[ "$6" != "$4" ] || [ ! -w /proc/self/autogroup ] || echo $0 >/proc/self/autogroup`;

/**
 * Lowers this process below those that are as it is, for good: only root could raise it again. What it has started before
 * is as it was, what it starts from now on is lowered as well.
 *
 * Between sessions a nice value means nothing where the kernel has autogroups (on most desktops, and in containers without a
 * control group for the processor): there the session's value counts.
 */
export async function giveWay(log: Logger): Promise<void> {
  if (await askShellLater(NICE, String(LOWER_BY)) === undefined) {
    log.warn("cannot set the nice value; is renice installed?");
  }
  for (let tries = 0; tries < AUTOGROUP_TRIES; tries++) {
    if (await askShellLater(AUTOGROUP, String(LOWER_BY)) !== undefined) return;
    await sleep(AUTOGROUP_AGAIN_MS);
  }
  log.warn("cannot set the nice value of the session's autogroup");
}
