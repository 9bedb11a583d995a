/** What `mosaic --help` prints. */
import { VERSION } from "../base/version.ts";
import { GROUPS, VERBS } from "./verbs.ts";

export function overview(): string {
  const width = Math.max(...VERBS.map((v) => v.name.length)) + 2;
  const groups = GROUPS.map((group) => {
    const verbs = VERBS.filter((v) => v.group === group);
    return verbs.length === 0
      ? ""
      : `${group}\n${verbs.map((v) => `  ${v.name.padEnd(width)}${v.summary}\n`).join("")}\n`;
  });
  return `mosaic ${VERSION}: training runs on this host, every record kept

Usage: mosaic COMMAND [ARGUMENTS]

${groups.join("")}"mosaic COMMAND --help" tells more about each. RUN is a run's id, the beginning
of one, a name that only one run has, or @last.

The daemon is found by --target, $MOSAIC_TARGET, or the state directory
(--state-dir, $MOSAIC_STATE_DIR, $XDG_STATE_HOME/mosaic, ~/.local/state/mosaic).

Exit codes: 0 done, 1 failed, 2 wrong arguments or config, 3 daemon unreachable,
4 not found, 5 cancelled, 6 refused in this state, 7 a limit was reached,
8 not allowed, 9 timed out, 70 a defect, 130 interrupted.
`;
}
