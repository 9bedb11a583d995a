# The permissions of the client's verbs: one set for each state directory, the same for all verbs except those that read or
# write files of the user's choice, or start programs. Part of the portable executable's stub (stub.sh): it starts no process,
# except to resolve a target that is a host name. docs/reference/permissions.md describes the set.
#
# The runtime accepts one flag for each kind of permission: `read`, `write`, `net`, `run` and `env` collect its entries, and
# `all` the kinds that are granted without restriction.

grant() { # KIND ENTRY
  # A flag cannot contain a line break.
  case $2 in '' | *"$newline"*) return ;; esac
  entry= rest=$2
  while :; do
    case $rest in
    *,*) entry=$entry${rest%%,*},, rest=${rest#*,} ;; # a comma is written twice
    *) break ;;
    esac
  done
  eval "have=,\$$1,"
  case $have in *",$entry$rest,"*) return ;; esac
  eval "$1=\${$1:+\$$1,}\$entry\$rest"
}

socket() { # PATH: a Unix socket is asked for as an address and as a file, and HTTP over it names a host as well
  grant read "$1"
  grant write "$1"
  grant net "unix:$1"
  grant net localhost:80
}

address() { # HOST:PORT, unix:PATH or a URL; anything else is left for the program to refuse
  case $1 in
  unix:/*) socket "${1#unix:}" && return ;;
  unix:?*) socket "${PWD%/}/${1#unix:}" && return ;;
  /*) socket "$1" && return ;;
  esac
  host=${1#http://} port=
  host=${host#https://}
  host=${host%%/*}
  case $host in
  '' | *[!][A-Za-z0-9._:-]*) return ;;
  \[*\]) ;;
  *:*) port=${host##*:} host=${host%:*} ;;
  *) [ "$host" != "$1" ] || return 0 ;;
  esac
  # Host and port are written as the runtime reads them, or it would refuse to start.
  [ -n "$host" ] || return 0
  case $port in *[!0-9]* | ??????*) return ;; esac
  [ "${port:-1}" -le 65535 ] || return 0
  case $host in
  0.0.0.0) host=127.0.0.1 ;;
  \[::\]) host='[::1]' ;;
  \[*[!0-9a-fA-F:.]*\]) return ;;
  \[*\]) ;;
  *[]:[]*) return ;;
  esac
  grant net "$host${port:+:$port}"
  case $host in
  \[*) return ;;
  *[!0-9.]*) ;;
  *) return ;; # an address needs no look-up
  esac
  # A name is resolved without a port; its addresses are connected to.
  grant net "$host"
  if [ "$host" = localhost ]; then
    grant net "127.0.0.1${port:+:$port}"
    grant net "[::1]${port:+:$port}"
    return
  fi
  for found in $(getent ahosts "$host" 2>/dev/null); do
    found=${found%%[!0-9a-fA-F:.]*}
    case $found in
    '') ;;
    *:*) grant net "[$found]${port:+:$port}" ;;
    *) grant net "$found${port:+:$port}" ;;
    esac
  done
}

named() { # ADDRESS: that the user has named
  address "$1"
  # Before it sends a token to a port of this machine, the client checks who listens there, which the runtime itself refuses.
  case ${MOSAIC_TOKEN:+$1} in
  https://*) ;;
  *127.*:* | *\[::1\]:* | *localhost:*) grant run /bin/sh ;;
  esac
}

announced() { # DAEMON_JSON: where the daemon says that it listens; the daemon writes it as one line
  line=
  { IFS= read -r line <"$1"; } 2>/dev/null || [ -n "$line" ] || return 0
  for key in socket local listen http; do
    case $line in *"\"$key\":\""*) value=${line#*"\"$key\":\""} value=${value%%\"*} ;; *) continue ;; esac
    # A backslash is JSON's: a path with quotes or line breaks.
    case $value in *\\*) ;; *) address "$value" ;; esac
  done
}

state_directory() { # DIRECTORY
  [ -n "$1" ] || return 0
  grant read "$1/trainer/daemon.json"
  grant read "$1/trainer/tokens.json"
  announced "$1/trainer/daemon.json"
  case $verb in run | rerun) for base in custom_scripts evals runs; do grant write "$1/trainer/$base"; done ;; esac # copies of code
  case $verb in token | doctor | reindex | sql | demo) grant read "$1" && grant write "$1" ;; audit) grant read "$1" ;; esac
}

elsewhere() { # ssh, git and tar, with the user's whole environment
  all="$all env "
  grant run /bin/sh
  hosts=${XDG_CONFIG_HOME:-${HOME:+$HOME/.config}}
  grant read "${hosts:+$hosts/mosaic/hosts.json}"
}

# Prints the flags, one per line.
client_flags() { # VERB ARGUMENTS
  verb=${1-} all= read= write= net= run= env='@CLIENT_VARIABLES@' sys=
  # Every verb has these two options, without abbreviations. Everything that looks like one is granted: an option of the
  # worker only adds an entry.
  before=
  # The program itself, which is read in parts.
  grant read "${home:+$home/app}"
  for word; do
    case $word in
    --) break ;;
    --state-dir=*) state_directory "${word#*=}" ;;
    --target=*) named "${word#*=}" ;;
    --host | --host=* | --all-hosts) elsewhere ;;
    *)
      case $before in
      --state-dir) state_directory "$word" ;;
      --target) named "$word" ;;
      esac
      ;;
    esac
    before=$word
  done
  home_state=${XDG_STATE_HOME:+$XDG_STATE_HOME/mosaic}
  home_state=${home_state:-${HOME:+$HOME/.local/state/mosaic}}
  state_directory "${MOSAIC_STATE_DIR:-$home_state}"
  named "${MOSAIC_TARGET:-}"
  grant read "${MOSAIC_TLS_CA:-}"
  grant read "${MOSAIC_TLS_CERT:-}"
  grant read "${MOSAIC_TLS_KEY:-}"
  case $verb in
  host) elsewhere && for kind in read write; do grant "$kind" "${hosts:+$hosts/mosaic}"; done ;;
  validate) all="$all read " ;;                          # a config, wherever it is
  submit | rerun) all="$all read " && grant run /bin/sh ;; # the same; git, to record the code
  run | sweep) all="$all read env " && grant run /bin/sh ;; # finds the program, passes variables on by name, starts a daemon
  import) all="$all read write " ;;                      # the files of past runs, wherever they are; links of a run's directory
  import-worker) all="$all read env " ;;                 # the same, and its attempt
  docs | report) all="$all read write " ;;              # --out
  # The same, the directory of the backup; and asking the kernel where a file is that a worker can change.
  export | backup) all="$all read write " && grant run /bin/sh ;;
  permissions) all="$all read env " ;;                   # what it plans depends on both
  # Trackers' files that runs wrote anywhere, with the rights of their workers' users; and files that the runtime itself
  # refuses to read.
  doctor | reindex)
    all="$all read "
    grant run /bin/sh
    for call in gid setegid seteuid; do grant sys "$call"; done
    ;;
  demo-worker)                                       # a worker: --config, the checkpoint that it goes on from
    all="$all read env "
    grant write "${MOSAIC_CHECKPOINT_DIR:-}"
    grant write "${MOSAIC_RUN_DIR:-}"
    ;;
  demo) # a daemon of its own, at a place of its own: where its socket is and which ports it has is known once it runs
    all="$all net env "
    grant read "${TMPDIR:-/tmp}"
    grant write "${TMPDIR:-/tmp}"
    grant run /bin/sh
    ;;
  esac
  allowed_by_operator
  for kind in read write net run env sys; do
    eval "entries=\$$kind"
    case $all in
    *" $kind "*) printf '%s\n' "--allow-$kind" ;;
    *) [ -z "$entries" ] || printf '%s\n' "--allow-$kind=$entries" ;;
    esac
  done
  # Variables that are not listed look unset, because libraries read many.
  case $all in *' env '*) ;; *) printf '%s\n' --ignore-env ;; esac
}

allowed_by_operator() { # $MOSAIC_ALLOW: flags with blanks between
  IFS=" 	$newline"
  for word in ${MOSAIC_ALLOW:-}; do
    kind=${word#--allow-}
    kind=${kind%%=*}
    case $word in
    --allow-read | --allow-write | --allow-net | --allow-run | --allow-env | --allow-sys) all="$all $kind " ;;
    --allow-read=?* | --allow-write=?* | --allow-net=?* | --allow-run=?* | --allow-env=?* | --allow-sys=?*)
      eval "$kind=\${$kind:+\$$kind,}\${word#*=}"
      ;;
    *)
      printf 'mosaic: MOSAIC_ALLOW has "%s", which grants nothing that can be added\n' "$word" >&2
      printf '  Give flags such as --allow-net=hooks.example.com:443 or --allow-read=/data, with blanks between.\n' >&2
      exit 2
      ;;
    esac
  done
  IFS=$newline
}
