/**
 * Carries a repository to another host: the commit by `git push` into a repository there, and what
 * differs from the commit as an archive. Each content gets a directory of its own there, which no
 * later command changes, so that the runs of two commands never mix. Ignored files and submodules
 * stay here.
 *
 * `$1` ssh's destination, `$2` most bytes of changed and untracked files, then the words of ssh.
 * Prints what the caller needs, as lines of KEY, tab, value; everything else goes to standard
 * error. `GIT_SSH_COMMAND` has the words of ssh, too.
 */
export const CARRY = String.raw`
set -u
dest=$1 most=$2; shift 2
git() { command git -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"; }
say() { printf '%s\t%s\n' "$1" "$2"; }
stop() { say problem "$1"; exit 0; }

command -v git >/dev/null || stop "this host has no git"
top=$(git rev-parse --show-toplevel 2>/dev/null) || stop "$PWD is in no git repository"
below=$(git rev-parse --show-prefix)
cd "$top" || exit
commit=$(git rev-parse -q --verify HEAD) || stop "the repository $top has no commit yet"
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

{ git diff --name-only -z --no-renames --diff-filter=d HEAD -- && git ls-files -z -o --exclude-standard; } >"$work/there" ||
  stop "git cannot list the changes of $top"
git diff --name-only -z --no-renames --diff-filter=D HEAD -- >"$work/gone" || exit
git ls-files -s | grep -q '^160000' && say note "submodules are not carried"

bytes=$(xargs -0 -r stat -c %s -- <"$work/there" | awk '{ n += $1 } END { print n + 0 }')
if [ "$bytes" -gt "$most" ]; then
  largest=$(xargs -0 -r stat -c '%s %n' -- <"$work/there" | sort -rn | head -n 3 | awk '$1 >= 1e6 { size = $1; $1 = ""; printf "%s%s (%d MB)", sep, $0, size / 1e6; sep = "," }')
  stop "changed and untracked files have $((bytes / 1000000)) MB, more than $((most / 1000000)) MB:$largest. Commit them, or name them in .gitignore"
fi
# The content of a directory there is named by this.
state=$(
  { xargs -0 -r stat -c '%a %n' -- <"$work/there"; xargs -0 -r sha256sum -- <"$work/there"; cat "$work/gone"; } | sha256sum
) || exit
short=$(printf %.12s "$commit")
changes=$(printf %.12s "$state")
[ -s "$work/there" ] || [ -s "$work/gone" ] || changes=clean
place=$(printf '%s %s' "$(hostname)" "$top" | sha256sum)
name=$(printf %s "$(basename "$top")" | tr -cd 'A-Za-z0-9._-')-$(printf %.8s "$place")

UNPACK='
read -r gone && part=$2.$$ && git --git-dir="$1" worktree add -q --detach "$part" "$3" && cd "$part" &&
head -c "$gone" | xargs -0 -r rm -f -- && tar -xf - && cd / &&
{ git --git-dir="$1" worktree move "$part" "$2" 2>/dev/null ||
  { [ -d "$2" ] && git --git-dir="$1" worktree remove --force "$part"; }; }'
there=$("$@" -- "$dest" "exec sh -s $name $short-$changes" <<'REMOTE'
command -v git >/dev/null || { echo "problem: it has no git"; exit; }
umask 077
base=$HOME/.local/share/mosaic/code/$1
mkdir -p "$base" || exit
[ -d "$base/repository" ] || git init -q --bare "$base/repository" || exit
# Runs have copies of their own; these directories are only where they were copied from.
find "$base" -mindepth 1 -maxdepth 1 -type d ! -name repository -mtime +30 -exec rm -rf {} +
git --git-dir="$base/repository" worktree prune
[ ! -d "$base/$2" ] || { touch "$base/$2"; echo "have: $base/$2"; exit; }
echo "need: $base/$2"
REMOTE
) || stop "ssh $dest has failed"
case $there in
problem:*) stop "on $dest: $there" ;;
have:*) say directory "${"$"}{there#have: }/$below"; exit ;;
need:*) directory=${"$"}{there#need: } ;;
*) stop "on $dest: $there" ;;
esac
repository=$(dirname "$directory")/repository
git push -q -f "$dest:$repository" "$commit:refs/mosaic/carried" >&2 ||
  stop "git push to $dest has failed; its message is above"
tar -cf "$work/archive" --null --no-recursion -T "$work/there" || stop "the changed files cannot be packed"
quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
{ wc -c <"$work/gone"; cat "$work/gone" "$work/archive"; } |
  "$@" -- "$dest" "exec sh -c $(quoted "$UNPACK") sh $(quoted "$repository") $(quoted "$directory") $commit" >&2 ||
  stop "the changes could not be unpacked on $dest"
say directory "$directory/$below"
`;
