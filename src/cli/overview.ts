/** The text of `mosaic --help`. */
import { VERSION } from "../base/version.ts";
import { FURTHER_GROUPS, GROUPS, VERBS } from "./verbs.ts";

/** @param all also the parts that mosaic starts itself, and older words */
export function overview(all = false): string {
  const width = Math.max(...VERBS.map((v) => v.name.length)) + 2;
  const groups = [...GROUPS, ...all ? FURTHER_GROUPS : []].map((group) => {
    const verbs = VERBS.filter((v) => v.group === group);
    return verbs.length === 0
      ? ""
      : `${group}\n${
        verbs.map((v) =>
          `  ${v.name.padEnd(width)}${v.now === undefined ? v.summary : `now: mosaic ${v.now}`}\n`
        ).join(
          "",
        )
      }\n`;
  });
  return `mosaic ${VERSION}: training runs on this host, every record kept

Usage: mosaic COMMAND [ARGUMENTS]

${groups.join("")}See "mosaic COMMAND --help" for each command${
    all ? "" : `, "mosaic help all" for the rest`
  }.
RUN is a run id, a unique prefix of one, a unique name, or @last.

The daemon is found by --target, $MOSAIC_TARGET, or the state directory
(--state-dir, $MOSAIC_STATE_DIR, $XDG_STATE_HOME/mosaic, ~/.local/state/mosaic).

Exit codes: 0 done, 1 failed, 2 wrong arguments or config, 3 daemon unreachable,
4 not found, 5 cancelled, 6 not possible in this state, 7 limit reached,
8 not allowed, 9 timed out, 70 internal error, 130 interrupted.
`;
}
