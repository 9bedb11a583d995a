/**
 * `mosaic up` and `mosaic daemon --detach`: starts a daemon in a session of its own, so that it
 * outlives its terminal, and waits until it is ready. Its log goes to its file only; what a failed
 * start prints goes to `daemon-output.txt`.
 */
import { Layout } from "../../base/layout.ts";
import { sleep } from "../../base/time/sleep.ts";
import { hostEnvironment } from "../../os/processes/environment.ts";
import { readTextIfThere } from "../../os/files/files.ts";
import { processRef } from "../../os/processes/identity.ts";
import { selfCommand } from "../../os/processes/self.ts";
import { shellOutput, SOON, startDetached } from "../../os/processes/shell.ts";
import { daemonPlan } from "../../permissions/daemon_plan.ts";
import { flagsOf } from "../../permissions/permissions.ts";
import { realWorld } from "../../permissions/world.ts";
import { DAEMON_EXIT } from "./exit_codes.ts";
import { DETACHED_OPTION } from "./options.ts";
import { createStateDirectory } from "./state_directory.ts";

/** A first start unpacks the executable; a start after an upgrade may migrate large databases. */
const READY_MS = 60_000;
const POLL_MS = 30;
const LAST_LINES = 10;
/** In the error of a daemon whose state directory has one. */
const TAKEN = "already uses";

export interface Background {
  stateDir: string;
  /** Arguments of `mosaic daemon`. */
  args: readonly string[];
  /** A daemon that is running already is what was wanted. */
  find: boolean;
  replace: boolean;
  out: (text: string) => void;
  err: (text: string) => void;
}

/**
 * @returns the exit code: 0 when a daemon is ready, else that of the daemon @throws StartFailure
 * (stateUnusable)
 */
export async function startInBackground(options: Background): Promise<number> {
  const { out, err } = options;
  const layout = new Layout(options.stateDir);
  const running = options.find && !options.replace ? announced(layout) : undefined;
  if (running !== undefined) return found(running, options);
  Deno.umask(0o077);
  createStateDirectory(layout);
  const output = layout.daemonOutput;
  const before = [output, layout.daemonLog].map((path) => lengthOf(path));
  const words = [...options.args.filter((word) => word !== "--detach"), DETACHED_OPTION];
  const { argv, env } = selfCommand(flagsOf(daemonPlan(words, realWorld())));
  const child = startDetached(
    [...argv, "daemon", ...words],
    { ...hostEnvironment(), ...env },
    output,
  );
  let code: number | undefined;
  child.status.then((status) => code = status.code);
  for (
    const deadline = performance.now() + READY_MS;
    performance.now() < deadline;
    await sleep(POLL_MS)
  ) {
    const ready = announced(layout);
    if (ready?.pid === child.pid) {
      out(
        `The daemon is ready (pid ${ready.pid})${
          pageOf(ready, options)
        }.\nIts log: ${layout.daemonLog}; "mosaic down" stops it.\n`,
      );
      const warning = logoutWarning(logoutOf(shellOutput(LOGIND)));
      if (warning !== undefined) err(warning);
      return DAEMON_EXIT.ok;
    }
    if (code === undefined) continue;
    const isSecond = options.find && code === DAEMON_EXIT.usage &&
      lastLines(output, before[0]!).includes(TAKEN);
    // Another one was started at the same time, and may not be ready yet.
    if (isSecond && ready === undefined) continue;
    if (isSecond) return found(ready!, options);
    err(`mosaic: the daemon did not start (exit code ${code})\n`);
    for (const [at, path] of [output, layout.daemonLog].entries()) {
      err(lastLines(path, before[at]!));
    }
    return code === 0 ? DAEMON_EXIT.internal : code;
  }
  err(
    `mosaic: the daemon (pid ${child.pid}) is not ready after ${
      READY_MS / 1000
    } s and goes on starting\n` +
      `  See ${layout.daemonLog}, and whether "mosaic status" finds it.\n`,
  );
  return DAEMON_EXIT.internal;
}

interface Announced {
  pid: number;
  identity?: string;
  http: string;
}

function found(daemon: Announced, options: Background): number {
  const { args, out, err } = options;
  out(`A daemon is running (pid ${daemon.pid})${pageOf(daemon, options)}.\n`);
  const others = args.filter((word, at) =>
    !word.startsWith("--state-dir") && args[at - 1] !== "--state-dir"
  );
  if (others.length > 0) {
    err("mosaic: it keeps the options that it was started with; --replace applies new ones\n");
  }
  return DAEMON_EXIT.ok;
}

function pageOf({ http }: Announced, { args }: Background): string {
  const scheme = args.some((word) => word.startsWith("--tls-cert")) ? "https" : "http";
  return http === "" ? "" : `: ${scheme}://${http}/`;
}

/** The living daemon that daemon.json names. */
function announced({ daemonJson }: Layout): Announced | undefined {
  const text = readTextIfThere(daemonJson);
  if (text === undefined) return undefined;
  try {
    const daemon = JSON.parse(text) as Announced;
    return processRef(daemon.pid)?.identity === daemon.identity ? daemon : undefined;
  } catch {
    // Torn by a full disk: it names nobody.
    return undefined;
  }
}

function lengthOf(path: string): number {
  return readTextIfThere(path)?.length ?? 0;
}

function lastLines(path: string, since: number): string {
  const lines = (readTextIfThere(path) ?? "").slice(since).split("\n").filter((line) =>
    line !== ""
  );
  return lines.slice(-LAST_LINES).map((line) => `  ${line}\n`).join("");
}

/**
 * Prints whether logind ends a user's processes at log-out, and whether it lets the user's services
 * run without a log-in.
 */
const LOGIND =
  `${SOON} busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager ` +
  'KillUserProcesses && soon loginctl show-user "$(id -u)" -p Linger';

export interface Logout {
  kills: boolean;
  lingers: boolean;
}

/** @param text undefined where there is no logind */
export function logoutOf(text: string | undefined): Logout {
  // Root's processes are excluded by default.
  return {
    kills: Deno.uid() !== 0 && /^b true$/m.test(text ?? ""),
    lingers: /^Linger=yes$/m.test(text ?? ""),
  };
}

/** What to do where the daemon ends with the log-in; undefined where it goes on. */
export function logoutWarning({ kills, lingers }: Logout): string | undefined {
  if (!kills) return undefined;
  const linger = lingers ? "" : "loginctl enable-linger && ";
  return "mosaic: this host ends a user's processes at log-out (KillUserProcesses of systemd-logind), and the daemon\n" +
    "  with them; runs, too. A service goes on: mosaic down, then\n" +
    `  ${linger}systemd-run --user --unit mosaic -p KillMode=process mosaic daemon\n`;
}
