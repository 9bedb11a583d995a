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

# Without these two the runtime says nothing that helps.
[ -d /proc/self ] || fail "/proc is not mounted, and the runtime needs it: mount -t proc proc /proc"
[ -e "@INTERPRETER@" ] || fail "the runtime needs glibc, and @INTERPRETER@ is not here (Alpine and others have musl instead): use a host or an image with glibc, such as debian:stable-slim"

newline='
'
IFS=$newline
# The checksums of what this file unpacks to.
sums="@DENO_SHA256@ @PROGRAM_SHA256@"

# The functions below run in subshells, whose output is the result, or why there is none.
refuse() { printf '%s' "$1"; exit 1; }

# Enters DIRECTORY if nobody but the user and root can change its entries or put something else in its place, which each
# directory from / down to it must show. `stat` follows no link, and a path below a checked directory cannot be exchanged by
# others. Only a directory with the sticky bit may be open to others, because they cannot rename what is not theirs; and any,
# if this is a container's first process: nobody else is in it. Sets `states`, the states of FILES below DIRECTORY. One
# program reads all of them, because starting a program costs most. With `shared`, DIRECTORY itself may have the sticky bit, too.
enter() { # DIRECTORY [FILE...]
  cd -P "$1" || refuse "cannot enter $1"
  [ -z "$physical" ] || [ "$PWD" = "$1" ] || refuse "$1 is a link"
  shift
  files="$*" at=$PWD
  set --
  while [ -n "${at%/}" ]; do set -- "$at" "$@" && at=${at%/*}; done
  set -- / "$@"
  lines=$(LC_ALL=C stat -c '%u %g %f %s %Z' /proc/self/. "$@" $files) || refuse "cannot read the state of $PWD"
  user= states=
  for line in $lines; do
    owner=${line%% *} mode=${line#* }
    group=${mode%% *} mode=${mode#* }
    mode=$((0x${mode%% *}))
    if [ -z "$user" ]; then
      user=$owner
      continue
    elif [ $# = 0 ]; then
      states=$states$line$newline
      continue
    fi
    [ $((mode & 0170000)) = $((0040000)) ] || refuse "$1 is not a directory"
    case $owner in
    0 | "$user") ;;
    *) [ $# != 1 ] && root_outside "$owner" || refuse "$1 belongs to somebody else (user $owner)" ;;
    esac
    [ $((mode & 022)) = 0 ] || [ $$ = 1 ] || { [ $((mode & 01000)) != 0 ] && [ "$#$shared" != 1 ]; } ||
      { [ $((mode & 02)) = 0 ] && private "$group"; } ||
      refuse "other users may write to $1; chmod go-w it"
    shift
  done
}

# Nobody else is in a group that has the user's number, or root's, and no members. Many hosts give each user such a group, and
# let it write to what the user makes.
private() { # GROUP
  case $1 in 0 | "$user") ;; *) return 1 ;; esac
  while IFS=: read -r name password number members; do
    [ "$number" != "$1" ] || case $members in '' | "$name") return 0 ;; esac
  done </etc/group
  return 1
}

# In a user namespace that does not map root, root's files belong to this number.
root_outside() { # OWNER
  IFS=' ' read -r first outer count </proc/self/uid_map && [ "$first $outer $count" != "0 0 4294967295" ] &&
    [ "$1" = "$(head -n 1 /proc/sys/kernel/overflowuid)" ]
}

# Prints the copy's directory, if the copy is what this file unpacks to. The files were compared with the checksums when
# they were unpacked, and `contents` recorded the checksums and the states of the files, beside them, where only the user and
# root can write. Any change of a file changes its change time. So while the record is right, the files are. A copy
# in a read-only place (an image) has other times than where it was made.
whole() { # CACHE
  shared=
  enter "$1/@KEY@" app deno 'app/*.js'
  [ "${PWD##*/}" = @KEY@ ] || refuse "$1/@KEY@ is a link"
  [ -x deno ] && [ -r app/main.js ] && [ -r contents ] || refuse "$PWD is not complete"
  was=
  while read -r line; do was=$was$line$newline; done <contents
  case $was in
  "$sums$newline$states") ;;
  "$sums$newline"*) [ ! -w . ] || refuse "$PWD was changed" ;;
  *) refuse "$PWD is of another file" ;;
  esac
  printf '%s' "$PWD"
}

packed() { # OFFSET SIZE SHA256 OUTPUT
  tail -c "+$1" "$self" | head -c "$2" | gzip -dc >"$4" ||
    refuse "cannot unpack into $base: the disk is full, or this file is damaged (then copy it again)"
  sum=$(sha256sum <"$4") && [ "${sum%% *}" = "$3" ] ||
    refuse "what was unpacked does not match its checksum: this file is damaged, copy it again"
}

unpack() { # CACHE: prints the copy's directory, or why it cannot be made
  umask 077
  above=$1
  until [ -d "${above:-/}" ]; do above=${above%/*}; done
  if [ "$above" != "$1" ]; then
    # In a directory of somebody else nothing is created.
    shared=yes
    enter "${above:-/}"
    set -- "${PWD%/}${1#"$above"}"
    mkdir -p "$1" || refuse "cannot create $1"
  fi
  shared=
  enter "$1"
  base=$PWD
  # A damaged copy is removed now: at the end, another first start may have put its own copy there.
  (whole "$base") >/dev/null || rm -rf @KEY@
  part=$(mktemp -d "$base/.unpack.XXXXXX") || refuse "cannot write to $base"
  trap 'rm -rf "$part"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  cd "$part" && printf '#!/bin/sh\n' >probe && chmod 700 probe || refuse "cannot write to $base"
  ./probe || refuse "programs cannot be executed in $base (mounted noexec)"
  packed @DENO_OFFSET@ @DENO_PACKED@ @DENO_SHA256@ deno
  packed @PROGRAM_OFFSET@ @PROGRAM_PACKED@ @PROGRAM_SHA256@ app.tar
  chmod 700 deno && mkdir cache app && rm probe || refuse "cannot write to $base"
  tar -xf app.tar -C app && rm app.tar || refuse "cannot unpack into $base: tar failed"
  said=$(DENO_DIR=$part/cache ./deno --version 2>&1) || refuse "the runtime does not start here: $said"
  enter "$part" app deno 'app/*.js'
  printf '%s\n%s' "$sums" "$states" >contents || refuse "cannot write to $base"
  sync deno contents app/*.js
  # Of several first starts at once one rename wins, and all use its result.
  mv "$part" "$base/@KEY@"
  rm -rf "$base/@KEY@/${part##*/}"
  tidy "$base" >/dev/null
  whole "$base"
}

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

home= reasons= physical=
found() { # CACHE
  case $1 in /*) [ -x "$1/@KEY@/deno" ] && said=$(whole "$1" 2>/dev/null) && home=$said ;; *) return 1 ;; esac
}
made() { # CACHE
  case $1 in /*) ;; *) return 1 ;; esac
  said=$(unpack "$1" 2>/dev/null) && home=$said && return
  reasons="$reasons
  ${said:-cannot use $1}"
  return 1
}

# The temporary directories are everybody's: a name there may have been taken by somebody else, by a link or by a mount.
own_entry() { # DIRECTORY: is it there, and made by the user?
  [ ! -L "$1" ] && [ -O "$1" ] && [ "$(LC_ALL=C stat -c %d "$1")" = "$(LC_ALL=C stat -c %d "${1%/*}")" ]
}
each_shared() { # FUNCTION: is called with each temporary directory, until it succeeds
  for shared_directory in "${TMPDIR:-/tmp}" /dev/shm; do
    shared_directory=$(cd -P "$shared_directory" 2>/dev/null && printf '%s' "$PWD") && "$1" "$shared_directory" && return
  done
}
found_shared() { # TEMPORARY
  for base in "$1/mosaic-cache-$user" "$1/mosaic-cache-$user".??????; do
    own_entry "$base" && found "$base" && return
  done
  return 1
}
made_shared() { # TEMPORARY
  base=$1/mosaic-cache-$user
  if [ -e "$base" ] || [ -L "$base" ]; then
    own_entry "$base" || base=$(umask 077 && mktemp -d "$base.XXXXXX" 2>/dev/null) || return
  fi
  made "$base" && return
  rmdir "$base" 2>/dev/null
  return 1
}

caches="${MOSAIC_CACHE_DIR:-}
${XDG_CACHE_HOME:+$XDG_CACHE_HOME/mosaic}
${HOME:+$HOME/.cache/mosaic}"
for base in $caches; do found "$base" && break; done
if [ -z "$home" ]; then
  lacking=
  for program in chmod gzip head mkdir mktemp mv rm rmdir sha256sum stat tail tar; do
    command -v "$program" >/dev/null 2>&1 || lacking="$lacking $program"
  done
  [ -z "$lacking" ] || fail "unpacking needs programs that are not on the PATH:$lacking (install coreutils or BusyBox, tar and gzip)"
  user=$(LC_ALL=C stat -c %u /proc/self/.)
  physical=yes
  each_shared found_shared
fi
if [ -z "$home" ]; then
  physical=
  for base in $caches; do made "$base" && break; done
  physical=yes
  [ -n "$home" ] || each_shared made_shared
  [ -n "$home" ] || fail "there is no directory to unpack into; set MOSAIC_CACHE_DIR to one that is yours, has 150 MB free and allows execution:$reasons"
fi

# Only for the runtime: workers get the earlier values (src/os/processes/environment.ts).
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
