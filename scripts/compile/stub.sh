#!/bin/sh
# mosaic @VERSION@ (@COMMIT@), the portable form: this script, then Deno's runtime and the program, both compressed.
# It unpacks them once into a directory named by their checksum; later starts only exec the unpacked runtime.
fail() { printf 'mosaic: %s\n' "$1" >&2; exit 4; }
# The kernel drops signals that a container's first process does not handle.
[ $$ != 1 ] || trap 'exit 143' TERM INT QUIT

case $0 in
*/*) self=$0 ;;
*) self=$(command -v -- "$0") || self=./$0 ;;
esac
case $self in
/*) ;;
*) self=$PWD/$self ;;
esac
[ -r "$self" ] || fail "cannot read its own file $self; start it by its path"

newline='
'
# The state of a copy: sizes and change times. A change of a file always changes its change time. So while these are as they
# were when the contents were compared with their checksums, the contents are unchanged. One program for all files, because
# starting a program costs most.
contents() ( # DIRECTORY
  cd "$1" && { LC_ALL=C stat -c '%s %Z' deno app/*.js 2>/dev/null || LC_ALL=C wc -c deno app/*.js; }
)

# Is the copy present, complete and ours? A read-only copy (in an image) has other times than where it was made.
whole() {
  [ -O "$1" ] && [ -x "$1/deno" ] && [ -r "$1/app/main.js" ] && [ -r "$1/contents" ] || return 1
  [ -w "$1" ] || return 0
  was=
  while read -r line; do was="${was:+$was$newline}$line"; done <"$1/contents"
  [ "$was" = "$(contents "$1")" ]
}

checked() { # FILE SHA256
  if command -v sha256sum >/dev/null 2>&1; then
    sum=$(sha256sum <"$1") && [ "${sum%% *}" = "$2" ]
  else
    return 0 # gzip's own CRC has been checked
  fi
}

refuse() { printf '%s' "$1"; exit 1; }

unpack() ( # CACHE: prints why it cannot be done, nothing when it is done
  umask 077
  mkdir -p "$1" || refuse "cannot create $1"
  [ -O "$1" ] || refuse "$1 belongs to somebody else"
  case $(LC_ALL=C ls -ld "$1") in
  ?????-??-* | '') ;; # Without ls only the owner is known.
  *) refuse "other users may write to $1; chmod go-w it" ;;
  esac
  # A damaged copy is removed now: at the end, another first start may have put its own copy there.
  whole "$1/@KEY@" || rm -rf "$1/@KEY@"
  part=$(mktemp -d "$1/.unpack.XXXXXX") || refuse "cannot write to $1"
  trap 'rm -rf "$part"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  tail -c +@DENO_OFFSET@ "$self" | head -c @DENO_PACKED@ | gzip -dc >"$part/deno" &&
    tail -c +@PROGRAM_OFFSET@ "$self" | head -c @PROGRAM_PACKED@ | gzip -dc >"$part/app.tar" ||
    refuse "cannot unpack into $1: the disk is full, or this file is damaged (then copy it again)"
  checked "$part/deno" @DENO_SHA256@ && checked "$part/app.tar" @PROGRAM_SHA256@ ||
    refuse "what was unpacked does not match its checksum: this file is damaged, copy it again"
  chmod 700 "$part/deno" && mkdir "$part/cache" "$part/app" || refuse "cannot write to $1"
  tar -xf "$part/app.tar" -C "$part/app" && rm "$part/app.tar" || refuse "cannot unpack into $1: tar failed"
  [ -x "$part/deno" ] || refuse "programs cannot be executed in $1 (mounted noexec)"
  contents "$part" >"$part/contents" || refuse "cannot write to $1"
  sync "$part/deno" "$part/contents" "$part"/app/*.js
  # Of several first starts at once one rename wins, and all use its result.
  mv "$part" "$1/@KEY@"
  rm -rf "$1/@KEY@/${part##*/}"
  whole "$1/@KEY@" || refuse "cannot complete $1/@KEY@"
  tidy "$1"
) 2>/dev/null

# Removes copies of other versions, unpacked over a month ago, from which no process runs here; and leftovers of interrupted starts.
tidy() { # CACHE
  for old in $(find "$1" -mindepth 1 -maxdepth 1 -type d -mtime +30); do
    name=${old##*/}
    case $name in
    .unpack.*) ;;
    @KEY@ | *[!0-9a-f]*) continue ;;
    *) [ ${#name} = 16 ] || continue ;;
    esac
    case $(ls -l /proc/[0-9]*/exe) in *" $old/deno$newline"* | *" $old/deno") continue ;; esac
    rm -rf "$old"
  done
  :
}

IFS=$newline
home=
find_whole() { # CACHES
  for base in $1; do
    case $base in /*) whole "$base/@KEY@" && home=$base/@KEY@ && break ;; esac
  done
}

caches="${MOSAIC_CACHE_DIR:-}
${XDG_CACHE_HOME:+$XDG_CACHE_HOME/mosaic}
${HOME:+$HOME/.cache/mosaic}"
find_whole "$caches"
if [ -z "$home" ]; then
  lacking=
  for program in chmod gzip head id mkdir mktemp mv rm tail tar wc; do
    command -v "$program" >/dev/null 2>&1 || lacking="$lacking $program"
  done
  [ -z "$lacking" ] || fail "unpacking needs programs that are not on the PATH:$lacking (install coreutils or BusyBox, tar and gzip)"
  user=$(id -u)
  others="${TMPDIR:-/tmp}/mosaic-cache-$user
/dev/shm/mosaic-cache-$user"
  find_whole "$others"
fi
if [ -z "$home" ]; then
  reasons=
  for base in $caches $others; do
    case $base in /*) ;; *) continue ;; esac
    why=$(unpack "$base") && home=$base/@KEY@ && break
    reasons="$reasons
  ${why:-cannot use $base}"
  done
  [ -n "$home" ] || fail "there is no directory to unpack into; set MOSAIC_CACHE_DIR to one that is yours, has 150 MB free and allows execution:$reasons"
fi

# Only for the runtime: workers get the earlier values (src/os/environment.ts).
MOSAIC_OUTER_DENO_DIR=${DENO_DIR-} DENO_DIR=$home/cache DENO_NO_UPDATE_CHECK=${DENO_NO_UPDATE_CHECK:-mosaic}
MOSAIC_EXECUTABLE=$self
# The C library gives each of the runtime's threads an arena of its own, up to eight a core, and does not return them: a daemon
# grows by 50 MiB over an hour. "02" is 2; it distinguishes this value from one that the user has set.
MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-02}
export MOSAIC_EXECUTABLE MOSAIC_OUTER_DENO_DIR DENO_DIR DENO_NO_UPDATE_CHECK MALLOC_ARENA_MAX

# From here on lists have one entry per line, and patterns are not expanded.
set -f
runtime="run
--no-config
--no-lock
--no-remote
--no-npm
--cached-only
--no-prompt
--quiet
--unstable-net"
tuned=@V8_FLAGS@

# The help of a part needs no permission plan.
asked=
for word; do
  case $word in
  --) break ;;
  -h | --help) asked=help ;;
  esac
done

@CLIENT_PERMISSIONS@

# The permissions: all of them, those planned by the process that starts this one, those that a daemon or proxy needs with
# these arguments, or the client's. If a command line cannot be planned, it gets the client's: the program reports the error.
case ${MOSAIC_PERMISSIONS:-@PROFILE@} in
all) flags=-A ;;
*)
  flags=${MOSAIC_PLANNED:-}
  unset MOSAIC_PLANNED
  case $flags$asked${1-} in
  daemon | proxy | up)
    flags=$("$home/deno" $runtime $tuned --allow-env --allow-read --allow-net "$home/app/first_stage.js" "$@") || exit
    ;;
  esac
  if [ -z "$flags" ]; then
    # In a subshell, because the environment may have variables of the same names.
    flags=$(client_flags "$@") || exit
    # A command reads only the parts of the program that it runs. A daemon and a proxy read all of it at their start, because
    # they must continue without a file descriptor, and without this directory. Compiled code depends on V8's flags.
    tuned="--unstable-lazy-dynamic-imports$newline@CLIENT_V8_FLAGS@" DENO_DIR=$home/cache/client
  fi
  ;;
esac
set -- "$home/deno" $runtime $tuned $flags "$home/app/main.js" "$@"
[ $$ = 1 ] || exec "$@"

# A container's first process inherits orphans and must wait for them; the program does not, so this shell does.
# A background process has no input and ignores SIGINT and SIGQUIT, so the program gets both as SIGTERM.
exec 3<&0
"$@" <&3 3<&- &
program=$! asked=
exec 3<&-
trap 'asked=yes; kill -s TERM $program 2>/dev/null' TERM INT QUIT
trap 'asked=yes; kill -s HUP $program 2>/dev/null' HUP
wait $program
status=$?
# A signal interrupts `wait`. A process that was waited for to its end is unknown (127) the next time.
while [ -n "$asked" ]; do
  asked=
  wait $program
  again=$?
  [ $again = 127 ] || status=$again
done
exit $status
