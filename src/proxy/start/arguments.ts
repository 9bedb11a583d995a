/**
 * The proxy's command line. The original's arguments (`--target`, `--run-id`, `--agent-id`,
 * `--worker-id`, `--`) keep their meaning.
 */
import { withoutTrailingSlashes } from "../../base/text/trailing_slashes.ts";
import { DEFAULT_HTTP, HTTP_PORT } from "../../base/agreed.ts";
import { parseTarget } from "../../wire/address/target.ts";
import { MosaicError } from "../../base/errors.ts";
import { didYouMean } from "../../base/text/nearest.ts";

export interface ProxyArguments {
  /** `unix:PATH`, `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. */
  target: string;
  /** Whether the target was given or is the default. */
  targetGiven: boolean;
  runId: string;
  agentId: string;
  workerId: string;
  attempt: number;
  /** undefined: stand-alone, without a start file from the daemon. */
  runDir: string | undefined;
  /** Attach to a worker that was started before; never start one. */
  attach: boolean;
  /** Print what the files that the start file names have, instead of serving the attempt. */
  readFiles: boolean;
  heartbeatIntervalS: number | undefined;
  maxBacklogBytes: number | undefined;
  /** Stand-alone: seconds to wait for a daemon before the worker starts. */
  daemonWaitS: number;
  tokenFile: string | undefined;
  /** Certificates of the daemon's issuer (PEM); enables TLS. */
  tlsCaFile: string | undefined;
  /** The name in the daemon's certificate, if the target is an address. */
  tlsServerName: string | undefined;
  /** Copy the worker's output to the proxy's own. */
  mirror: boolean;
  command: string[];
}

/**
 * Within 80 columns, in the style of the other commands' help. That help comes from a library whose
 * loading would delay every worker.
 */
export const PROXY_USAGE = `Usage: mosaic proxy --run-id RUN [options] -- COMMAND [ARGUMENT...]

Starts COMMAND as the worker of a run, keeps its output in the run's directory,
delivers its telemetry to the daemon, enforces pause and rate, and reports how
it ended. The daemon starts one proxy for every attempt. Start one yourself to
connect a worker in a container or a batch system to a daemon. The daemon must
know the run, and the attempt must not have ended.

Options:
  --run-id RUN                the run's id
  --target ADDRESS            address of the daemon's API: unix:PATH, HOST:PORT,
                              http://HOST:PORT or https://HOST:PORT
                              (default: ${DEFAULT_HTTP})
  --attempt N                 number of the run's attempt (default: 1)
  --agent-id NAME             agent of records that name none (default: agent_1)
  --worker-id NAME            the worker's name in log files and records;
                              replaces the name in a record
  --run-dir DIR               the run's directory, with the daemon's start file
                              in it (default: below the state directory, or a
                              temporary one)
  --attach                    continue with the attempt's running worker instead
                              of starting one
  --read-files                print what the files named since the start have,
                              for the daemon; serve nothing
  --heartbeat-interval SECONDS
                              time between heartbeats (default: 60)
  --max-backlog SIZE          backlog at which the worker is held (SIGSTOP), as
                              500M (default: 10 GiB or 5 % of the free disk,
                              whichever is less)
  --daemon-wait SECONDS       time to wait for the daemon before COMMAND starts
                              without the daemon's variables and checkpoint
                              (default: 60; 0: do not wait)
  --token-file FILE           file with a token for the daemon
  --tls-ca FILE               connect with TLS; authority (PEM) that signed the
                              daemon's certificate
  --tls-server-name NAME      the name in that certificate, if the target is an
                              address
  --mirror                    copy the worker's output to the proxy's own
  -h, --help                  show this help

Examples:
  $ mosaic proxy --run-id "$RUN_ID" -- python train.py
      for the daemon of this host
  $ mosaic proxy --run-id "$RUN_ID" --target trainer:${HTTP_PORT} --tls-ca ca.pem \\
      --token-file /run/secrets/token --mirror -- python train.py
      in a container, for a daemon on another host

Environment:
  MOSAIC_STATE_DIR        state directory with the run's directory
  MOSAIC_TLS_SERVER_NAME  as --tls-server-name

Exit codes:
  0...255  the worker's own; 128 + n where signal n ended it
  2        wrong arguments
  3        another proxy serves the attempt
  70       the attempt has ended, or the proxy failed
  71       the worker is lost: gone without an exit record
  126      COMMAND cannot be executed
  127      COMMAND does not exist
`;

const DAEMON_WAIT_S = 60;

const WITH_VALUE = [
  "target",
  "run-id",
  "agent-id",
  "worker-id",
  "attempt",
  "run-dir",
  "heartbeat-interval",
  "max-backlog",
  "daemon-wait",
  "token-file",
  "tls-ca",
  "tls-server-name",
] as const;
const FLAGS = ["attach", "read-files", "mirror"] as const;

type Options = Partial<
  Record<typeof WITH_VALUE[number], string> & Record<typeof FLAGS[number], boolean>
>;

function invalid(message: string): MosaicError {
  return new MosaicError("invalid_argument", message, { hint: 'See "mosaic proxy --help".' });
}

/**
 * Parses `--name VALUE`, `--name=VALUE` and `--flag` by hand: loading Node's parser takes longer
 * than all of this.
 */
function readOptions(words: readonly string[]): Options {
  const options: Options = {};
  for (let at = 0; at < words.length; at++) {
    const [, name, value] = /^--([^=]+)(?:=(.*))?$/s.exec(words[at]!) ?? [];
    const flag = FLAGS.find((known) => known === name);
    const option = WITH_VALUE.find((known) => known === name);
    if (flag !== undefined) {
      if (value !== undefined) throw invalid(`--${flag} takes no value`);
      options[flag] = true;
    } else if (option !== undefined) {
      const following = value ?? words[++at];
      if (following === undefined || (value === undefined && following.startsWith("--"))) {
        throw invalid(`--${option} has no value`);
      }
      options[option] = following;
    } else {
      const known = [...WITH_VALUE, ...FLAGS].map((one) => `--${one}`);
      throw invalid(
        words[at]!.startsWith("-")
          ? `unknown option ${words[at]}.${didYouMean(words[at]!, known)}`
          : `unexpected argument "${words[at]}": the worker's command comes after --`,
      );
    }
  }
  return options;
}

/** @throws MosaicError `invalid_argument` naming the option, its value and what is allowed. */
export function parseProxyArguments(args: string[]): ProxyArguments {
  const split = args.indexOf("--");
  const command = split < 0 ? [] : args.slice(split + 1);
  const values = readOptions(split < 0 ? args : args.slice(0, split));
  const attach = values.attach ?? false;
  const readFiles = values["read-files"] ?? false;
  if (!attach && !readFiles && command.length === 0) {
    throw invalid("there is no command after --: what is the worker?");
  }
  if (!values["run-id"]) throw invalid("--run-id is missing: a proxy belongs to one run");
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(values["run-id"])) {
    throw invalid(`--run-id ${values["run-id"]} is no run id`);
  }
  const attempt = values.attempt === undefined ? 1 : Number(values.attempt);
  if (!Number.isSafeInteger(attempt) || attempt < 1) {
    throw invalid(`--attempt ${values.attempt}: a whole number from 1 is needed`);
  }
  const target = values.target || DEFAULT_HTTP;
  parseTarget(target);
  return {
    target,
    targetGiven: Boolean(values.target),
    runId: values["run-id"],
    agentId: values["agent-id"] || "agent_1",
    workerId: values["worker-id"] ?? "",
    attempt,
    runDir: values["run-dir"] ? absolute(values["run-dir"]) : undefined,
    attach,
    readFiles,
    heartbeatIntervalS: positive("--heartbeat-interval", values["heartbeat-interval"]),
    maxBacklogBytes: bytesOf("--max-backlog", values["max-backlog"]),
    daemonWaitS: values["daemon-wait"] === "0"
      ? 0
      : positive("--daemon-wait", values["daemon-wait"]) ?? DAEMON_WAIT_S,
    tokenFile: values["token-file"],
    tlsCaFile: values["tls-ca"],
    tlsServerName: values["tls-server-name"],
    mirror: values.mirror ?? false,
    command,
  };
}

function absolute(path: string): string {
  return withoutTrailingSlashes(path.startsWith("/") ? path : `${Deno.cwd()}/${path}`) || "/";
}

function positive(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!(value > 0) || !Number.isFinite(value)) {
    throw invalid(`${option} ${text}: a number of seconds above 0 is needed`);
  }
  return value;
}

const UNITS: Record<string, number> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

function bytesOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const m = /^(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$/i.exec(text.trim());
  const value = m === null ? NaN : Math.round(Number(m[1]) * UNITS[m[2]!.toLowerCase()]!);
  if (!(value > 0)) {
    throw invalid(`${option} ${text}: bytes above 0 are needed, such as 10GiB or 500M`);
  }
  return value;
}
