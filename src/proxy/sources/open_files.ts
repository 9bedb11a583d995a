/** Which files a worker's processes have open for writing, by /proc, which only a shell may read under a permission set. */
import { askShell } from "../../os/shell.ts";

/** Processes of the group or the session `$0`, and children that have left both. */
const SCRIPT = `known=" $0 "; fds=
for stat in /proc/[0-9]*/stat; do
  { read -r line <"$stat"; } 2>/dev/null || continue
  set -- \${line##*) }
  case $known in *" $2 "* | *" $3 "* | *" $4 "*) ;; *) continue ;; esac
  pid=\${stat#/proc/}; pid=\${pid%/stat}
  known="$known$pid "; fds="$fds /proc/$pid/fd"
done
[ -z "$fds" ] || ls -l $fds 2>/dev/null
:`;

/** Absolute paths; undefined where nobody can tell: without /proc, or when the worker's processes are gone. */
export function openForWriting(leader: number): Set<string> | undefined {
  const listing = askShell(SCRIPT, String(leader));
  if (listing === undefined || listing.trim() === "") return undefined;
  const paths = new Set<string>();
  for (const line of listing.split("\n")) {
    const path = /^l.w\S* .*? -> (\/.*)$/.exec(line)?.[1];
    if (path !== undefined) paths.add(path);
  }
  return paths;
}
