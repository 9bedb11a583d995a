/**
 * The shell scripts that look at a run's code, with the rights of its worker. The repository is
 * untrusted: its config (hooks, fsmonitor, filters, external diffs, pagers) must run nothing. So
 * git compares the working tree in a temporary repository, which has a config of its own, a copy of
 * the index, and the real repository's objects. The real repository is only asked for HEAD and its
 * remote, which runs no program.
 *
 * Both print pairs of texts, each ended by NUL.
 */
import { MOST_DIFF_BYTES } from "./bounds.ts";

/** Bytes of the list of untracked files. */
const LIST_BYTES = 1 << 20;
const MOST_PACKAGES = 5000;
/** Of one command of git. */
const GIT_SECONDS = 60;

/**
 * Sets `top` (empty outside of a repository), `real` and `common` (the git directories of the
 * working tree and of the whole repository). Links of the worker to a FIFO or device are not
 * opened.
 */
const FIND_REPOSITORY = `
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0
# Versions before 2.39.4 fetch missing objects whatever GIT_NO_LAZY_FETCH says, by any program that the config names.
export GIT_ALLOW_PROTOCOL=none
export GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 GIT_LITERAL_PATHSPECS=1 GIT_PAGER=cat
# Whoever waits for this script may be gone before it.
limit=$(command -v timeout)
git() { if [ -n "$limit" ]; then "$limit" ${GIT_SECONDS} git "$@"; else command git "$@"; fi; }
say() { printf '%s\\0%s\\0' "$1" "$2"; }
line_of() { _line=; [ -f "$1" ] && IFS= read -r _line < "$1"; printf '%s' "$_line"; }
dir=$(pwd -P); top=; real=; d=$dir; n=0
while [ "$n" -lt 64 ]; do
  [ -e "$d/.git" ] && { top=\${d:-/}; real=$d/.git; break; }
  [ -n "$d" ] || break
  d=\${d%/*}; n=$((n + 1))
done
if [ -n "$real" ] && [ ! -d "$real" ]; then
  real=$(line_of "$real"); real=\${real#gitdir: }
  case $real in /*) ;; *) real=$top/$real ;; esac
fi
common=$real
if [ -n "$real" ] && [ -f "$real/commondir" ]; then
  common=$(line_of "$real/commondir")
  case $common in /*) ;; *) common=$real/$common ;; esac
fi
`;

/** Makes the temporary repository, and goes to the top of the working tree. */
const OWN_REPOSITORY = `
commit=$(git --git-dir="$real" rev-parse -q --verify 'HEAD^{commit}' 2>/dev/null)
tmp=$(mktemp -d) || exit 9
trap 'rm -rf "$tmp"' EXIT
trap 'exit 9' TERM INT HUP
mkdir "$tmp/refs" "$tmp/objects" "$tmp/objects/info" || exit 9
option() { git config --file "$common/config" --get "$1" 2>/dev/null; }
format=$(option extensions.objectformat); mode=$(option core.filemode)
printf '[core]\\nrepositoryformatversion = 1\\nbare = false\\nfilemode = %s\\n[extensions]\\nobjectformat = %s\\n' \\
  "$([ "$mode" = false ] && echo false || echo true)" "$([ "$format" = sha256 ] && echo sha256 || echo sha1)" > "$tmp/config"
printf '%s/objects\\n' "$common" > "$tmp/objects/info/alternates"
# With its time: git reads files that were changed in the same moment as the index.
for f in "$real/index" "$real"/sharedindex.* "$common"/sharedindex.*; do
  [ -f "$f" ] && cp -p "$f" "$tmp/" 2>/dev/null
done
export GIT_DIR="$tmp" GIT_WORK_TREE="$top"
cd -P -- "$top" || exit 9
base=$commit
printf '%s\\n' "\${commit:-ref: refs/heads/none}" > "$tmp/HEAD"
[ -n "$base" ] || base=$(git hash-object -t tree --stdin < /dev/null)
# git itself makes no such index, but reads and writes what one names: files outside of the repository, or a config in a copy.
if git ls-files -z --cached | grep -z -q -i -E '^/|(^|/)([.][.]?|[.]git)(/|$)'; then
  say root "$top"
  say problem "the repository's index names files outside of the working tree: they are not read"
  say complete ""
  exit 0
fi
# Nothing in the bytes of a diff may be changed on the way.
diff() {
  git -c core.quotepath=false diff --no-ext-diff --no-textconv --no-color --no-renames --ignore-submodules=dirty --full-index \\
    --src-prefix=a/ --dst-prefix=b/ "$@" 2>/dev/null | head -c ${MOST_DIFF_BYTES + 1} | base64 -w0
}
`;

/**
 * `$0` is the program, `$1` … its arguments; "1" in MOSAIC_PYTHON: it is a program of Python, or
 * may be.
 */
export const LOOK = `${FIND_REPOSITORY}
say host "$(line_of /proc/sys/kernel/hostname)"
say kernel "$(line_of /proc/sys/kernel/osrelease)"
say cwd "$dir"
[ -r /proc/driver/nvidia/version ] && say driver "$(line_of /proc/driver/nvidia/version)"
[ -f /usr/local/cuda/version.json ] && say cuda "$(head -c 2000 /usr/local/cuda/version.json)"

# Files of the command. "set" keeps what is left of the arguments.
program=$(PATH=$MOSAIC_PATH; command -v "$0" 2>/dev/null) || program=$0
n=$#; i=0
while [ "$i" -lt "$n" ]; do
  word=$1; shift; i=$((i + 1))
  [ "$i" -le 100 ] || continue
  word=\${word#--*=}
  case $word in
    *.py|*.sh|*.yaml|*.yml|*.json|*.toml|*.cfg|*.ini|*.jl|*.R|*.r|*.lua|*.js|*.ts|*.ipynb|*.rb|*.pl)
      [ -f "$word" ] && set -- "$@" "$word" ;;
  esac
done
case $program in */*.sh|*/*.py) [ -f "$program" ] && set -- "$program" "$@" ;; esac
for f in "$@"; do
  say file "$(head -c 4194304 -- "$f" | sha256sum | head -c 64) $f"
done

bin=\${program%/*}
if [ "$MOSAIC_PYTHON" = 1 ] || { [ -x "$bin/python" ] && [ "$bin" != /usr/bin ] && [ "$bin" != /bin ]; }; then
  case \${program##*/} in python*) python=$program ;; *) python=; [ -x "$bin/python" ] && python=$bin/python ;; esac
  if [ -z "$python" ]; then
    for p in "$VIRTUAL_ENV" "$CONDA_PREFIX" "$dir/.venv" "$top/.venv"; do
      [ -n "$p" ] && [ -x "$p/bin/python" ] && { python=$p/bin/python; break; }
    done
  fi
  [ -n "$python" ] || python=$(PATH=$MOSAIC_PATH; command -v python3)
  case $python in */shims/python*)
    root=\${python%/shims/*}; v=$PYENV_VERSION
    [ -n "$v" ] || v=$(line_of "$dir/.python-version"); [ -n "$v" ] || v=$(line_of "$root/version")
    [ -x "$root/versions/$v/bin/python" ] && python=$root/versions/$v/bin/python ;;
  esac
  if [ -n "$python" ]; then
    say python "$python"
    say real_python "$(readlink -f -- "$python")"
    prefix=\${python%/*}; prefix=\${prefix%/*}
    venv=
    [ -f "$prefix/pyvenv.cfg" ] && { venv=$(head -c 2000 "$prefix/pyvenv.cfg"); say venv "$venv"; }
    more=
    case $venv in
      "") more=$HOME/.local ;;
      *include-system-site-packages\\ =\\ true*) more=$(readlink -f -- "$python"); more=\${more%/*/*} ;;
    esac
    n=0
    for site in "$prefix"/lib/python3*/site-packages "$prefix"/lib/python3*/dist-packages "$prefix"/local/lib/python3*/dist-packages \\
      \${more:+"$more"/lib/python3*/site-packages} \${more:+"$more"/lib/python3*/dist-packages}; do
      [ -d "$site" ] || continue
      say site "$site"
      for f in "$site"/*.dist-info "$site"/*.egg-info; do
        [ -e "$f" ] && [ "$n" -lt ${MOST_PACKAGES} ] || continue
        n=$((n + 1)); say package "\${f##*/}"
        [ -f "$f/direct_url.json" ] && say url "\${f##*/} $(head -c 2000 "$f/direct_url.json")"
      done
    done
    for f in "$prefix"/conda-meta/*.json; do
      [ -e "$f" ] && [ "$n" -lt ${MOST_PACKAGES} ] || continue
      n=$((n + 1)); say conda "\${f##*/}"
    done
  fi
fi

[ -n "$top" ] || exit 0
command -v git > /dev/null || { say problem "git is not installed"; exit 0; }
${OWN_REPOSITORY}
say root "$top"
say commit "$commit"
say branch "$(git --git-dir="$real" symbolic-ref -q --short HEAD 2>/dev/null)"
remote=$(option remote.origin.url) || remote=$(git config --file "$common/config" --get-regexp '^remote\\..*\\.url$' 2>/dev/null | head -n 1)
say remote "\${remote##* }"
say diff "$(diff "$base" --)"
within=.
# A home directory that is a repository contains everything.
[ "$top" = "$HOME" ] && within=\${dir#"$top"/}
if [ "$(option status.showuntrackedfiles)" = no ] || [ "$within" = "$top" ]; then
  say problem "untracked files are not recorded: the repository hides them, or is the home directory"
  exit 0
fi
if [ -f "$common/info/exclude" ]; then set -- --exclude-from="$common/info/exclude"; else set --; fi
for f in "$HOME/.config/git/ignore"; do [ -f "$f" ] && set -- "$@" --exclude-from="$f"; done
git ls-files -z --others --exclude-standard "$@" -- "$within" 2>/dev/null | head -c ${LIST_BYTES} |
  xargs -0 -r stat --printf 'untracked\\0%s %F %n\\0' -- 2>/dev/null
say complete ""
`;

/** The differences of untracked files, whose paths below the top are the arguments. */
export const UNTRACKED = `${FIND_REPOSITORY}
[ -n "$top" ] || exit 0
${OWN_REPOSITORY}
git read-tree --empty && printf '%s\\0' "$@" | git add -N --pathspec-from-file=- --pathspec-file-nul -f 2>/dev/null
say diff "$(diff --)"
`;

/**
 * Copies the working tree's tracked files, as they are now, below the directory `$1`, and the
 * untracked files that follow. On a file system that can, the copies share their blocks.
 */
export const COPY_FILES = `${FIND_REPOSITORY}
[ -n "$top" ] || { say problem "there is no git repository at $dir"; exit 0; }
command -v git > /dev/null || { say problem "git is not installed"; exit 0; }
to=$1; shift
${OWN_REPOSITORY}
git ls-files -z --cached > "$tmp/tracked"
[ $# -eq 0 ] || printf '%s\\0' "$@" >> "$tmp/tracked"
# A directory that is a link now leads to files that the repository does not have: to git, they are deleted.
xargs -0 -r sh -c 'known=; for f; do
  [ -h "$f" ] || [ -f "$f" ] || continue
  case $f in */*) in=$0/\${f%/*} ;; *) in=$0 ;; esac
  if [ "$in" != "$known" ]; then
    here=$(cd -P -- "$in" && pwd -P && printf .) || continue
    [ "\${here%??}" = "$in" ] || continue
    known=$in
  fi
  printf "%s\\0" "$f"
done' "\${top%/}" < "$tmp/tracked" > "$tmp/present"
xargs -0 -r cp -dp --parents --reflink=auto -t "$to" -- < "$tmp/present" 2> "$tmp/errors" || {
  say problem "$(head -c 500 "$tmp/errors")"; exit 0
}
git ls-files -z --stage | sed -z -n 's/^160000 [^\\t]*\\t/submodule\\x00/p'
say root "$top"
say complete ""
`;

/**
 * Writes the files of the commit `$1` below the directory `$2`, and applies the patch `$3` to them;
 * "": none.
 */
export const CHECK_OUT = `${FIND_REPOSITORY}
[ -n "$top" ] || { say problem "there is no git repository at $dir"; exit 0; }
command -v git > /dev/null || { say problem "git is not installed"; exit 0; }
wanted=$1; to=$2; patch=$3
${OWN_REPOSITORY}
say root "$top"
git cat-file -e "$wanted^{commit}" 2>/dev/null || { say missing "$wanted"; exit 0; }
export GIT_WORK_TREE="$to"
cd -P -- "$to" || exit 9
why=$({ git read-tree "$wanted" && git checkout-index -a -q -f; } 2>&1) || { say problem "the files of commit $wanted cannot be written: $why"; exit 0; }
if [ -n "$patch" ]; then
  why=$(git apply --whitespace=nowarn -p1 "$patch" 2>&1) || { say problem "the recorded changes cannot be applied: $why"; exit 0; }
fi
git grep -l -z --cached '^version https://git-lfs' -- 2>/dev/null | head -c 2000 | sed -z 's/^/lfs\\x00/'
git ls-files -z --stage | sed -z -n 's/^160000 [^\\t]*\\t/submodule\\x00/p'
# Files of trackers in the repository are not the run's: its own are newer than its start.
find . -type f -exec touch -d 2000-01-01 {} +
say complete ""
`;
