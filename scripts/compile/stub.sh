#!/bin/sh
# mosaic @VERSION@ (@COMMIT@), the portable form: this script, then Deno's runtime and the program, both compressed.
# It unpacks them once into a directory named by their checksum, and from then on is only an exec away from them.
fail() { printf 'mosaic: %s\n' "$1" >&2; exit 4; }
# The kernel drops what a container's first process does not handle.
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

# Present, whole and ours? Sizes are compared at every start, by one program for all because starting it is what costs;
# checksums once, when it is unpacked.
whole() {
  [ -O "$1" ] && [ -x "$1/deno" ] && [ -r "$1/app/main.js" ] || return 1
  sizes=$(LC_ALL=C wc -c "$1/deno" "$1"/app/*.js 2>/dev/null) || return 1
  sizes=${sizes##*"$newline"}
  [ "$((${sizes%total}))" = @UNPACKED_BYTES@ ]
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
  sync "$part/deno" "$part"/app/*.js
  if ! whole "$1/@KEY@"; then
    # A damaged copy goes. Of several first starts at once one rename wins, and all use its result.
    rm -rf "$1/@KEY@"
    mv "$part" "$1/@KEY@"
    rm -rf "$1/@KEY@/${part##*/}"
  fi
  whole "$1/@KEY@" || refuse "cannot complete $1/@KEY@"
) 2>/dev/null

newline='
'
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

# For the runtime, and for it alone: workers get back what was there before (src/os/environment.ts).
MOSAIC_OUTER_DENO_DIR=${DENO_DIR-} DENO_DIR=$home/cache DENO_NO_UPDATE_CHECK=${DENO_NO_UPDATE_CHECK:-mosaic}
MOSAIC_EXECUTABLE=$self
export MOSAIC_EXECUTABLE MOSAIC_OUTER_DENO_DIR DENO_DIR DENO_NO_UPDATE_CHECK

# Lists have one entry a line from here on, and nothing in them is a pattern.
set -f
runtime="run
--no-config
--no-lock
--no-remote
--no-npm
--cached-only
--no-prompt
--quiet
--unstable-net
@V8_FLAGS@"

# Help of a part needs no plan.
asked=
for word; do
  case $word in
  --) break ;;
  -h | --help) asked=help ;;
  esac
done

@CLIENT_PERMISSIONS@

# The permissions: all of them, those that whoever starts this has planned, what a daemon or proxy needs with these
# arguments, or the client's. A command line that cannot be planned gets the client's, too: the program says what is wrong.
case ${MOSAIC_PERMISSIONS:-@PROFILE@} in
all) flags=-A ;;
*)
  flags=${MOSAIC_PLANNED:-}
  unset MOSAIC_PLANNED
  case $flags$asked${1-} in
  daemon | proxy)
    flags=$("$home/deno" $runtime --allow-env --allow-read --allow-net "$home/app/first_stage.js" "$@") || exit
    ;;
  esac
  # In a shell of its own: its variables may be somebody's in the environment.
  [ -n "$flags" ] || flags=$(client_flags "$@") || exit
  ;;
esac
set -- "$home/deno" $runtime $flags "$home/app/main.js" "$@"
[ $$ = 1 ] || exec "$@"

# A container's first process inherits whatever loses its parent and has to wait for it; the program does not, this shell does.
# In the background it would have no input, and ignore SIGINT and SIGQUIT: both reach it as SIGTERM.
exec 3<&0
"$@" <&3 3<&- &
program=$! asked=
exec 3<&-
trap 'asked=yes; kill -s TERM $program 2>/dev/null' TERM INT QUIT
trap 'asked=yes; kill -s HUP $program 2>/dev/null' HUP
wait $program
status=$?
# A signal interrupts the waiting. What has been waited for to its end is unknown (127) the next time.
while [ -n "$asked" ]; do
  asked=
  wait $program
  again=$?
  [ $again = 127 ] || status=$again
done
exit $status
