/**
 * Which of the caller's variables a run gets: all that a shell would give it, except secrets, what
 * belongs to the caller's session or process, and what changes every program that is started. Pure.
 */
import { hideSecret, isSecretName } from "../../base/text/secrets.ts";
import { matchesName, PASSED_ON } from "../../os/processes/inherited_environment.ts";

/**
 * Variables of the shell, the terminal, the desktop and the job; and those that each run gets from
 * the daemon.
 */
const OF_THE_SESSION = [
  ...[
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "TERM*",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "LS_COLORS",
    "PS1",
    "PS2",
    "PROMPT_COMMAND",
  ],
  ...[
    "HIST*",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESS*",
    "MAIL",
    "HOSTNAME",
    "HOSTTYPE",
    "MACHTYPE",
    "OSTYPE",
  ],
  ...[
    "SSH_*",
    "GPG_*",
    "DBUS_*",
    "XAUTHORITY",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DESKTOP_SESSION",
    "GNOME_*",
    "GTK_*",
  ],
  ...[
    "QT_*",
    "KDE_*",
    "SESSION_MANAGER",
    "WINDOWID",
    "VTE_VERSION",
    "TMUX*",
    "STY",
    "KITTY_*",
    "ALACRITTY_*",
    "ITERM_*",
  ],
  ...[
    "WEZTERM_*",
    "GHOSTTY_*",
    "ZELLIJ*",
    "STARSHIP_*",
    "FZF_*",
    "VSCODE_*",
    "npm_*",
    "NVM_*",
    "INIT_CWD",
    "WSL*",
  ],
  ...[
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_*",
    "XDG_CURRENT_DESKTOP",
    "XDG_MENU_PREFIX",
    "XDG_SEAT*",
    "XDG_VTNR",
  ],
  ...["XDG_GREETER_*", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS"],
  // Variables of the caller's own job; a job of the run has its own.
  ...[
    "SLURM_*",
    "SLURMD_*",
    "SRUN_*",
    "PMI_*",
    "PMIX_*",
    "OMPI_*",
    "PRTE_*",
    "PBS_*",
    "LSB_*",
    "LSF_*",
    "FLUX_*",
  ],
  ...[
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MANAGERPID",
    "SYSTEMD_*",
    "NOTIFY_SOCKET",
    "LISTEN_*",
    "SUDO_*",
  ],
  ...[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "NODE",
    "DEBIAN_FRONTEND",
    "MOSAIC_*",
    "DENO_*",
  ],
  "CUDA_VISIBLE_DEVICES",
];
/** Variables of a single process. */
const OF_THE_PROCESS = ["_", "PWD", "OLDPWD", "SHLVL", "MOSAIC_*", "CUDA_VISIBLE_DEVICES"];
/**
 * What mosaic gives to a worker (src/dispatch/launch/local/worker_environment.ts), if a worker
 * calls `mosaic run`.
 */
const OF_A_WORKER = [
  ...[
    "RUN_ID",
    "WORKER_ID",
    "TRACEPARENT",
    "TRAINER_WORKER_CONFIG_PATH",
    "GYM_GUI_FASTLANE_*",
    "XUANCE_RUN_ID",
  ],
  ...["RAY_FASTLANE_*", "MLFLOW_TRACKING_URI"],
];
/** Code and tables that loaders and shells read in every program, with the rights of each. */
const OF_EVERY_PROGRAM = [
  ...[
    "LD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
  ],
];
/** The daemon is the MLflow server of its runs, unless the config names another. */
const OF_ANOTHER_SERVER = ["MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME"];
/** Longer values are no settings. In bytes of UTF-16. */
const LONGEST_VALUE = 16 << 10;
/**
 * Such values say where a secret is, or how long one is, or whether it is wanted. (Keys in base64
 * may begin with "/".)
 */
const NO_SECRET = /^(?:\/[\w./@+-]*\.\w{1,8}|\d{1,3}(?:\.\d+)?|true|false|yes|no|on|off|)$/i;
/** And any path of such a name. */
const NAME_OF_PATH = /(?:file|path|dir|directory|home|sock|socket|cache|store)$/i;
const PATH = /^\/[\w./@+-]*$/;

/**
 * The caller's variables that a run gets by default, and the names of others that a program may
 * need.
 * @param all everything, except what belongs to the calling process, and the GPUs, which the daemon
 * assigns
 */
export function inheritedFrom(
  env: Readonly<Record<string, string>>,
  all: boolean,
): { inherited: Record<string, string>; leftOut: string[] } {
  const inherited: Record<string, string> = {};
  const leftOut: string[] = [];
  for (const name of Object.keys(env).sort()) {
    const value = env[name]!;
    if (all) {
      if (!is(OF_THE_PROCESS, name)) inherited[name] = value;
    } else if (
      is(OF_THE_SESSION, name) || (env.MOSAIC_RUN_ID !== undefined && is(OF_A_WORKER, name))
    ) {
      continue;
    } else if (isPassedOn(name, value)) {
      inherited[name] = value;
    } else if (!is(PASSED_ON, name)) {
      leftOut.push(name);
    }
  }
  return { inherited, leftOut };
}

function isPassedOn(name: string, value: string): boolean {
  if (name === "LD_LIBRARY_PATH") return true;
  if (is(OF_EVERY_PROGRAM, name) || is(OF_ANOTHER_SERVER, name) || value.length > LONGEST_VALUE) {
    return false;
  }
  if (!isSecretName(name)) return hideSecret("", value) === value;
  return NO_SECRET.test(value) || (NAME_OF_PATH.test(name) && PATH.test(value));
}

function is(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matchesName(pattern, name));
}
