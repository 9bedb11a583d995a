/** The options of `mosaic daemon`. */
import { type Command, CommanderError, Option } from "commander";
import { type BoundName, BOUNDS, type Bounds } from "../base/load_limits.ts";
import { manual, newCommand, oneOf, plainError } from "../cli/command.ts";
import { realContext } from "../cli/context.ts";
import { parseBytes, parseDuration } from "../cli/format.ts";
import { findVerb } from "../cli/verbs.ts";
import type { TlsFiles } from "../wire/tls.ts";
import { messageOf } from "../base/errors.ts";
import { type GpuOption, parseGpuOption } from "../os/gpus.ts";
import { cpuCount } from "../os/host_resources.ts";
import { resolveStateDir } from "../base/layout.ts";
import { LOG_LEVELS, type LogFormat, type LogLevel } from "../base/log_line.ts";
import { parseEventKinds } from "../registry/event_kinds.ts";
import type { RetentionPolicy } from "../registry/retention/retention.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";

export interface DaemonOptions {
  stateDir: string;
  /** HOST:PORT, unix:PATH, or "none". */
  listen: string;
  /** HOST:PORT, or "off". */
  http: string;
  gpus: GpuOption;
  maxRuns: number;
  maxStarting: number;
  bounds: Bounds;
  handshakeTimeoutSeconds: number;
  heartbeatTimeoutSeconds: number;
  graceSeconds: number;
  durability: "normal" | "full";
  /** 0 leaves it to the proxies: 10 GiB or 5 % of the free disk, whichever is less. */
  maxBacklogBytes: number;
  /** A daemon beyond it is followed by a new one; undefined: it may grow. */
  maxMemoryBytes: number | undefined;
  /** Where workers are held to their configs' limits: a delegated directory of cgroup v2, or `auto`. */
  cgroupParent: string | undefined;
  webhook: string | undefined;
  /** Kinds of events that it gets; undefined is all but `metrics`. */
  webhookEvents: string[] | undefined;
  /** Calls and the page need a token of the state directory's tokens.json. */
  auth: "none" | "token";
  /** PEM files; without them connections are plain. */
  tls: TlsFiles | undefined;
  logLevel: LogLevel;
  logFormat: LogFormat;
  replace: boolean;
  /** What is deleted of ended runs; undefined: nothing. */
  retention: RetentionPolicy | undefined;
}

function bytes(text: string): number {
  const value = parseBytes(text);
  if (value === undefined) throw new Error("it must be a size such as 500M or 10G");
  return value;
}

function cgroup(text: string): string {
  if (text !== "auto" && !text.startsWith("/")) {
    throw new Error("it must be auto or an absolute path below /sys/fs/cgroup");
  }
  return text.replace(/(.)\/+$/, "$1");
}

function sizeBetween(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = bytes(text);
    if (value < least) throw new Error(`it must be at least ${sizeText(least)}`);
    if (value > most) throw new Error(`it must be at most ${sizeText(most)}`);
    return value;
  };
}

const sizeText = (value: number): string => value >= 1 << 20 ? `${value >> 20}M` : `${value >> 10}K`;

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new Error("it must be a number above 0");
  return value;
}

function duration(text: string): number {
  const value = parseDuration(text);
  if (value === undefined || value <= 0) throw new Error("it must be a duration such as 30d or 12h");
  return value;
}

function whole(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isSafeInteger(value) || value < least) throw new Error(`it must be a whole number from ${least}`);
    return value;
  };
}

function seconds(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value) || value < least) {
      throw new Error(`it must be a number of seconds${least > 0 ? " above 0" : ""}`);
    }
    return value;
  };
}

function url(text: string): string {
  if (!/^https?:$/.test(new URL(text).protocol)) throw new Error("it must be an http or https URL");
  return text;
}

function tlsFiles(given: { tlsCert?: string; tlsKey?: string; tlsCa?: string }): TlsFiles | undefined {
  const { tlsCert: cert, tlsKey: key, tlsCa: ca } = given;
  if (cert !== undefined && key !== undefined) return { cert, key, ca };
  if (cert === undefined && key === undefined && ca === undefined) return undefined;
  throw new StartFailure(DAEMON_EXIT.usage, "--tls-cert and --tls-key belong together, and --tls-ca needs both");
}

/** An option whose value is checked as it is read. */
function checked<T>(flags: string, description: string, parse: (text: string) => T, byDefault?: T): Option {
  return new Option(flags, description).default(byDefault).argParser((text: string) => {
    try {
      return parse(text);
    } catch (error) {
      throw new StartFailure(DAEMON_EXIT.usage, `${flags.split(" ")[0]} ${JSON.stringify(text)}: ${messageOf(error)}`);
    }
  });
}

function bound(name: BoundName, description: string, parse: (text: string) => number): Option {
  const { option, standard } = BOUNDS[name];
  const isSize = name.endsWith("Bytes");
  const found = checked(`${option} <${isSize ? "size" : "n"}>`, description, parse, standard as number);
  return isSize ? found.default(standard, sizeText(standard)) : found;
}

function boundsOf(command: Command): Bounds {
  const value = (name: BoundName) => command.getOptionValue(new Option(BOUNDS[name].option).attributeName());
  return Object.fromEntries(Object.keys(BOUNDS).map((name) => [name, value(name as BoundName)])) as Bounds;
}

/**
 * @returns undefined when help was asked for and printed
 * @throws StartFailure (usage)
 */
export function daemonOptions(args: string[], env: (name: string) => string | undefined): DaemonOptions | undefined {
  const command = newCommand(findVerb("daemon")!, realContext())
    .description(
      "Runs the daemon: registry, dispatch, telemetry store, gRPC and the status page. SIGTERM stops it; runs live on.",
    )
    .option("--state-dir <dir>", "state directory (default: $MOSAIC_STATE_DIR, else ~/.local/state/mosaic)")
    .option(
      "--listen <address>",
      "gRPC for clients of the original: HOST:PORT (port 0 picks a free one), unix:PATH, or none",
      "127.0.0.1:50055",
    )
    .option("--http <address>", "page and API: HOST:PORT, or off", "127.0.0.1:8055")
    .addOption(checked("--gpus <which>", "GPU slots: auto, a count, or device numbers such as 0,2", parseGpuOption))
    .addOption(checked("--max-runs <n>", "runs at one time", whole(1), 128))
    .addOption(
      checked(
        "--max-starting <n>",
        "of them, those that are just being started",
        whole(1),
        Math.max(4, 2 * cpuCount()),
      ),
    )
    .addOption(checked("--handshake-timeout <s>", "seconds a proxy may take to register", seconds(0.001), 60))
    .addOption(checked("--heartbeat-timeout <s>", "seconds without a sign of life of a run", seconds(0.001), 300))
    .addOption(checked("--grace <s>", "seconds between SIGTERM and SIGKILL", seconds(0), 5))
    .addOption(
      oneOf(new Option("--durability <level>", "full also survives the loss of power"), ["normal", "full"])
        .default("normal"),
    )
    .addOption(checked("--max-backlog <size>", "undelivered output at which a worker is held, such as 10G", bytes))
    .addOption(
      checked(
        "--max-memory <size>",
        "start anew, at a quiet moment, when the daemon has grown beyond it; runs go on",
        sizeBetween(128 << 20, Infinity),
      ),
    )
    .addOption(
      checked(
        "--cgroup-parent <dir>",
        "hold workers to their cpus and memory_mb below this cgroup; auto: the own",
        cgroup,
      ),
    )
    .addOption(checked("--keep-last <n>", "delete ended runs but the newest n", whole(0)))
    .addOption(checked("--older-than <age>", "delete runs that ended longer ago, such as 30d", duration))
    .addOption(checked("--max-disk <size>", "delete the oldest runs when files and telemetry of all take more", bytes))
    .addOption(checked("--webhook <url>", "gets the events of all runs", url))
    .addOption(
      checked("--webhook-events <kinds>", "only these, comma-separated (default: all but metrics)", parseEventKinds),
    )
    .addOption(
      oneOf(new Option("--auth <how>", "token: calls and the page need one (see mosaic token)"), ["none", "token"])
        .default("none"),
    )
    .option("--tls-cert <file>", "certificate (PEM) for gRPC and the page; other hosts are let in with it only")
    .option("--tls-key <file>", "its private key (PEM)")
    .option("--tls-ca <file>", "gRPC clients must have a certificate of this authority (PEM)")
    .addOption(oneOf(new Option("--log-level <level>", "the least that is logged"), LOG_LEVELS).default("info"))
    .addOption(oneOf(new Option("--log-format <format>", "how"), ["json", "text"]).default("json"))
    .option("--replace", "stop the daemon that has the state directory and take its place")
    .optionsGroup("Bounds (what is beyond one is refused as RESOURCE_EXHAUSTED, or left out):")
    .addOption(bound("maxQueue", "runs that may wait", whole(0)))
    .addOption(bound("submitRate", "submissions a second", positive))
    .addOption(bound("submitBurst", "submissions at once", whole(1)))
    .addOption(bound("maxStreams", "open streams, beside those of proxies", whole(1)))
    .addOption(bound("maxStreamsPerConnection", "of them, on one connection", whole(1)))
    .addOption(bound("maxStreamsPerRun", "of them, of one run", whole(1)))
    .addOption(bound("maxPageStreams", "live connections of the page", whole(1)))
    .addOption(bound("maxConnections", "connections, beside those of proxies", whole(1)))
    .addOption(bound("maxMessageBytes", "one request", sizeBetween(64 << 10, BOUNDS.maxMessageBytes.standard)))
    .addOption(bound("logLines", "lines a second that one follower of a log gets", whole(1)))
    .addOption(bound("ringSteps", "a run's newest steps in memory", whole(1)))
    .addOption(bound("ringBytes", "memory of all runs' newest records", sizeBetween(1 << 20, Infinity)))
    .addOption(bound("windowBytes", "what one proxy may have under way", sizeBetween(64 << 10, 1 << 30)))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic daemon", "the GPUs of this host, loopback only, state in ~/.local/state/mosaic"],
          ["mosaic daemon --state-dir /var/lib/mosaic --gpus 0,1 --max-disk 2T", "a host's service"],
          ["mosaic daemon --listen unix:/run/mosaic.sock --http off", "for this host alone, without a page"],
          ["mosaic daemon --replace", "take the place of an older one; runs go on"],
        ],
        exits: {
          0: "stopped in order",
          2: "wrong options, or another daemon has the directory",
          3: "an address is taken",
          4: "the state directory or a database cannot be used",
          5: "a database was written by a newer mosaic",
          6: "a database is damaged",
          7: "stopped beyond --max-memory, for the service manager to start it again",
        },
        environment: [["MOSAIC_STATE_DIR", "the state directory, where --state-dir is not given"]],
      }),
    )
    // Whoever starts it says what is wrong, in the form of its log.
    .configureOutput({ writeErr: () => {}, outputError: () => {} });
  try {
    command.parse(args, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw new StartFailure(
      DAEMON_EXIT.usage,
      plainError(error.message),
      '"mosaic daemon --help" shows the options.',
    );
  }
  if (command.args.length > 0) {
    throw new StartFailure(DAEMON_EXIT.usage, `unexpected argument ${JSON.stringify(command.args[0])}`);
  }
  const given = command.opts();
  return {
    stateDir: resolveStateDir(given.stateDir, env),
    listen: given.listen,
    http: given.http,
    gpus: given.gpus ?? { type: "auto" },
    maxRuns: given.maxRuns,
    maxStarting: given.maxStarting,
    bounds: boundsOf(command),
    handshakeTimeoutSeconds: given.handshakeTimeout,
    heartbeatTimeoutSeconds: given.heartbeatTimeout,
    graceSeconds: given.grace,
    durability: given.durability,
    maxBacklogBytes: given.maxBacklog ?? 0,
    maxMemoryBytes: given.maxMemory,
    cgroupParent: given.cgroupParent,
    webhook: given.webhook,
    webhookEvents: given.webhookEvents,
    auth: given.auth,
    tls: tlsFiles(given),
    logLevel: given.logLevel,
    logFormat: given.logFormat,
    replace: given.replace === true,
    retention: retentionOf(given.keepLast, given.olderThan, given.maxDisk),
  };
}

function retentionOf(keepLast?: number, olderThanMs?: number, maxBytes?: number): RetentionPolicy | undefined {
  if (keepLast === undefined && olderThanMs === undefined && maxBytes === undefined) return undefined;
  return {
    ...(keepLast === undefined ? {} : { keepLast }),
    ...(olderThanMs === undefined ? {} : { olderThanMs }),
    ...(maxBytes === undefined ? {} : { maxBytes }),
  };
}
