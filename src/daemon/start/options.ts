/** The options of `mosaic daemon`. */
import { OBJECTIVE_FORM, objectiveOf, taggedObjective } from "../../records/objective.ts";
import { withoutTrailingSlashes } from "../../base/text/trailing_slashes.ts";
import { DEFAULT_HTTP, DEFAULT_LISTEN, GPU_LOCKS, GRACE_S } from "../../base/agreed.ts";
import { type Command, CommanderError, Option } from "commander";
import { type BoundName, BOUNDS, type Bounds } from "../../base/load_limits.ts";
import { manual, newCommand, oneOf, plainError } from "../../cli/verb/verb_parser.ts";
import { realContext } from "../../cli/real_context.ts";
import { parseBytes, parseDuration } from "../../base/text/format.ts";
import { findVerb } from "../../cli/verbs.ts";
import { type Auth, AUTHS, type TlsFiles } from "../../wire/address/tls.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { type FreeRule, parseFreeMemory, USUAL_FREE } from "../../os/gpus/free_memory.ts";
import { type GpuOption, parseGpuOption } from "../../os/gpus/gpu_option.ts";
import { parseWorkerUser, type WorkerUserOption } from "../../os/rights/worker_user.ts";
import { cpuCount } from "../../os/host/host_resources.ts";
import { resolveStateDir } from "../../base/layout.ts";
import { LOG_LEVELS, type LogFormat, type LogLevel } from "../../base/log_line.ts";
import { parseEventKinds } from "../../registry/event_kinds.ts";
import { HALF_LIFE_MS, parseShares, type Shares } from "../../dispatch/queue/shares.ts";
import { KEEP_DELETED_MS, type RetentionPolicy } from "../../registry/retention/retention.ts";
import { absolutePath } from "../../permissions/find_option.ts";
import { parseListen } from "../../wire/address/address.ts";
import { parseTarget } from "../../wire/address/target.ts";
import { DAEMON_EXIT, StartFailure } from "./exit_codes.ts";
import { type GroupSocket, parseGroupSocket } from "./group_socket.ts";

/** Added to the arguments of a daemon in the background: its log goes to its file only. */
export const DETACHED_OPTION = "--detached";

export interface DaemonOptions {
  /** Start a daemon in the background, and end. */
  detach: boolean;
  /** It is the daemon in the background. */
  detached: boolean;
  stateDir: string;
  /** HOST:PORT, unix:PATH, or "none". */
  listen: string;
  /** HOST:PORT, or "none". */
  http: string;
  /** A Unix socket for page and API for a group; every caller needs a token. */
  groupSocket: GroupSocket | undefined;
  gpus: GpuOption;
  /** When a card that no run has counts as free; undefined: always. */
  gpuFree: FreeRule | undefined;
  /** Directory; undefined: cards are not locked. */
  gpuLocks: string | undefined;
  /** Where runs that share cards go. */
  sharing: "pack" | "spread";
  maxRuns: number;
  maxStarting: number;
  /** Fair shares between the owners of runs; undefined: first come, first served. */
  shares: Shares | undefined;
  /** GPU slots of one owner at a time; undefined: no limit. */
  maxGpusPerUser: number | undefined;
  /** Running runs of one owner; undefined: no limit. */
  maxRunsPerUser: number | undefined;
  /** Bytes of one owner's runs; undefined: no limit. */
  maxDiskPerUser: number | undefined;
  bounds: Bounds;
  handshakeTimeoutSeconds: number;
  heartbeatTimeoutSeconds: number;
  graceSeconds: number;
  durability: "normal" | "full";
  /** 0: the proxies' default, the smaller of 10 GiB and 5 % of the free disk space. */
  maxBacklogBytes: number;
  /** A daemon beyond it is replaced by a new one; undefined: no limit. */
  maxMemoryBytes: number | undefined;
  /** Enforces the limits of configs: a delegated directory of cgroup v2, or `auto`. */
  cgroupParent: string | undefined;
  /** The user of workers, if the daemon is root; undefined: each config's own. */
  workerUser: WorkerUserOption | undefined;
  /** Rules for every run, in addition to its own; see config_defaults.ts. */
  alerts: string | undefined;
  /** The metrics by which runs are judged that choose none, as `METRIC` or `TAG=METRIC`. */
  objectives: readonly string[];
  /** Defaults of `metadata.slurm`. */
  slurm: string | undefined;
  /** Address and certificate authority of the API for proxies on other hosts. */
  advertise: { target: string | undefined; ca: string | undefined };
  webhook: string | undefined;
  /** Event kinds sent to the webhook; undefined: all except `metrics`. */
  webhookEvents: string[] | undefined;
  /** The file that says who gets messages; see ../messages.ts. */
  notify: string | undefined;
  /** `token`: API calls and the page require a token from the state directory's tokens.json. */
  auth: Auth;
  /** PEM files; undefined: connections without TLS. */
  tls: TlsFiles | undefined;
  logLevel: LogLevel;
  logFormat: LogFormat;
  replace: boolean;
  /** How long deleted runs stay in the trash, milliseconds; 0: they are removed at once. */
  keepDeletedMs: number;
  /** Which ended runs are deleted; undefined: none. */
  retention: RetentionPolicy | undefined;
}

function bytes(text: string): number {
  const value = parseBytes(text);
  if (value === undefined) throw new Error("must be a size such as 500M or 10G");
  return value;
}

function listenAddress(text: string): string {
  if (text !== "none" && !isListenAddress(text)) {
    throw new Error(`must be HOST:PORT (such as ${DEFAULT_LISTEN}), unix:PATH, or none`);
  }
  return text;
}

function objective(text: string): string {
  if (objectiveOf(taggedObjective(text).metric) === undefined) {
    throw new Error(`must be ${OBJECTIVE_FORM}, or TAG=METRIC for the runs with a tag`);
  }
  return text;
}

/** `off` is the earlier name of `none`. */
function httpAddress(text: string): string {
  if (text === "none" || text === "off") return "none";
  if (text.startsWith("unix:") || !isListenAddress(text)) {
    throw new Error(
      `must be HOST:PORT (such as ${DEFAULT_HTTP}), or none; the API is always on the state directory's socket`,
    );
  }
  return text;
}

function isListenAddress(text: string): boolean {
  try {
    parseListen(text);
    return true;
  } catch (error) {
    if (error instanceof MosaicError) return false;
    throw error;
  }
}

function cgroup(text: string): string {
  if (text !== "auto" && !text.startsWith("/")) {
    throw new Error("must be auto or an absolute path below /sys/fs/cgroup");
  }
  return withoutTrailingSlashes(text) || "/";
}

function sizeBetween(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = bytes(text);
    if (value < least) throw new Error(`must be at least ${sizeText(least)}`);
    if (value > most) throw new Error(`must be at most ${sizeText(most)}`);
    return value;
  };
}

const sizeText = (value: number): string =>
  value >= 2 ** 30
    ? `${value / 2 ** 30}G`
    : value >= 1 << 20
    ? `${value >> 20}M`
    : `${value >> 10}K`;

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new Error("must be a number above 0");
  return value;
}

function duration(text: string): number {
  const value = parseDuration(text);
  if (value === undefined || value <= 0) throw new Error("must be a duration such as 30d or 12h");
  return value;
}

function age(text: string): number {
  if (/^[\d.]+$/.test(text)) throw new Error(`needs a unit: ${text}d for days, ${text}h for hours`);
  return duration(text);
}

function whole(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isSafeInteger(value) || value < least) {
      throw new Error(`must be an integer, at least ${least}`);
    }
    return value;
  };
}

function seconds(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value) || value < least) {
      throw new Error(`must be a number of seconds${least > 0 ? " above 0" : ""}`);
    }
    return value;
  };
}

function advertised(text: string): string {
  if ("path" in parseTarget(text).address) {
    throw new Error("must be HOST:PORT or https://HOST:PORT");
  }
  return text;
}

function url(text: string): string {
  if (!/^https?:$/.test(new URL(text).protocol)) throw new Error("must be an http or https URL");
  return text;
}

function tlsFiles(
  given: { tlsCert?: string; tlsKey?: string; tlsCa?: string },
): TlsFiles | undefined {
  const { tlsCert: cert, tlsKey: key, tlsCa: ca } = given;
  if (cert !== undefined && key !== undefined) return { cert, key, ca };
  if (cert === undefined && key === undefined && ca === undefined) return undefined;
  throw new StartFailure(
    DAEMON_EXIT.usage,
    "--tls-cert and --tls-key must be given together, and --tls-ca requires both",
  );
}

/** An option whose value is checked while the command line is parsed. */
/** Of all that are given, in their order. */
function repeatable(option: Option): Option {
  const one = option.parseArg!;
  return option.argParser((text: string, before: unknown[] = []) => [...before, one(text, null)]);
}

function checked<T>(
  flags: string,
  description: string,
  parse: (text: string) => T,
  byDefault?: T,
): Option {
  return new Option(flags, description).default(byDefault).argParser((text: string) => {
    try {
      return parse(text);
    } catch (error) {
      const option = `${flags.split(" ")[0]} ${JSON.stringify(text)}: `;
      const message = messageOf(error);
      // Some of the parsers name the option themselves.
      const whole = message.startsWith(option) ? message : option + message;
      throw new StartFailure(
        DAEMON_EXIT.usage,
        whole,
        error instanceof MosaicError ? error.hint : undefined,
      );
    }
  });
}

function bound(name: BoundName, description: string, parse: (text: string) => number): Option {
  const { option, standard } = BOUNDS[name];
  const isSize = name.endsWith("Bytes");
  const found = checked(
    `${option} <${isSize ? "size" : "n"}>`,
    description,
    parse,
    standard as number,
  );
  return isSize ? found.default(standard, sizeText(standard)) : found;
}

function boundsOf(command: Command): Bounds {
  const value = (name: BoundName) =>
    command.getOptionValue(new Option(BOUNDS[name].option).attributeName());
  return Object.fromEntries(
    Object.keys(BOUNDS).map((name) => [name, value(name as BoundName)]),
  ) as Bounds;
}

/**
 * @returns undefined after printing the help
 * @throws StartFailure (usage)
 */
export function daemonOptions(
  args: string[],
  env: (name: string) => string | undefined,
  verb: "daemon" | "up" = "daemon",
  context = realContext(),
): DaemonOptions | undefined {
  const command = newCommand(findVerb(verb)!, context)
    .description(
      verb === "up"
        ? "Starts a daemon in the background, unless one is running on the state directory, and waits until it is ready. It " +
          "outlives the terminal. mosaic down stops it; the runs continue."
        : "Runs the daemon: registry, dispatch, telemetry store, gRPC and the status page. SIGTERM stops it; the runs " +
          "continue. SIGHUP, as of a closed terminal, does not; with --tls-cert it reads the certificates again.",
    )
    .option(
      "--state-dir <dir>",
      "state directory (default: $MOSAIC_STATE_DIR, else ~/.local/state/mosaic)",
    )
    .addOption(
      checked(
        "--listen <address>",
        "gRPC address: HOST:PORT (port 0: any free port), unix:PATH, or none",
        listenAddress,
        DEFAULT_LISTEN,
      ),
    )
    .addOption(
      checked(
        "--http <address>",
        "address of the page and the API: HOST:PORT (port 0: any free port), or none",
        httpAddress,
        DEFAULT_HTTP,
      ),
    )
    .addOption(
      checked(
        "--group-socket <group:path>",
        "a further Unix socket of the page and the API, of mode 0660, for a group: each caller needs a token",
        parseGroupSocket,
      ),
    )
    .addOption(
      checked(
        "--gpus <which>",
        "GPU slots: auto, a number of slots, device numbers such as 0,2, or UUIDs of cards and MIG devices",
        parseGpuOption,
      ),
    )
    .addOption(
      checked(
        "--gpu-free-memory <size>",
        "what others may use of a GPU that still counts as free: 2G, 10%, or off (default: 1G or 5%, the larger)",
        parseFreeMemory,
      ),
    )
    .addOption(
      new Option(
        "--gpu-ignore <programs>",
        "programs whose GPU memory does not count as use, such as Xorg,ollama",
      ),
    )
    .addOption(
      new Option(
        "--gpu-locks <directory>",
        "where all daemons of the host lock the cards that they give out: a directory, or off",
      ).default(GPU_LOCKS),
    )
    .addOption(
      new Option(
        "--gpu-sharing <how>",
        "where runs that share cards go: onto the fullest with room, or the emptiest",
      )
        .choices(["pack", "spread"]).default("pack"),
    )
    .addOption(checked("--max-runs <n>", "maximum runs at one time", whole(1), 128))
    .addOption(
      checked(
        "--max-starting <n>",
        "maximum runs starting at once",
        whole(1),
        Math.max(4, 2 * cpuCount()),
      ).default(Math.max(4, 2 * cpuCount()), "2 per CPU, at least 4"),
    )
    .addOption(
      checked(
        "--share <owners>",
        "fair shares among runs of one priority: equal, or weights such as alice=2,uid:1001=0.5 (see docs/how-to/queue.md)",
        parseShares,
      ),
    )
    .addOption(
      checked(
        "--share-half-life <duration>",
        "after it, past use counts half in shares",
        duration,
        HALF_LIFE_MS,
      )
        .default(HALF_LIFE_MS, "7d"),
    )
    .addOption(
      checked(
        "--max-gpus-per-user <n>",
        "maximum GPU slots of one user's runs at one time",
        whole(1),
      ),
    )
    .addOption(
      checked(
        "--max-runs-per-user <n>",
        "maximum running runs of one user; further ones wait",
        whole(1),
      ),
    )
    .addOption(
      checked(
        "--max-disk-per-user <size>",
        "disk space of one user's runs, beyond which further ones are refused",
        bytes,
      ),
    )
    .addOption(
      checked(
        "--handshake-timeout <s>",
        "seconds in which a new proxy must register",
        seconds(0.001),
        60,
      ),
    )
    .addOption(
      checked(
        "--heartbeat-timeout <s>",
        "seconds without a heartbeat after which a run fails",
        seconds(0.001),
        300,
      ),
    )
    .addOption(checked("--grace <s>", "seconds between SIGTERM and SIGKILL", seconds(0), GRACE_S))
    .addOption(
      oneOf(
        new Option(
          "--durability <level>",
          "normal survives a crash of the daemon, full also a power failure",
        ),
        [
          "normal",
          "full",
        ],
      )
        .default("normal"),
    )
    .addOption(
      checked(
        "--max-backlog <size>",
        "backlog at which a worker is held (SIGSTOP), such as 10G",
        bytes,
      ),
    )
    .addOption(
      checked(
        "--max-memory <size>",
        "restart the daemon, when it is idle, if it uses more memory than this; runs continue",
        sizeBetween(128 << 20, Infinity),
      ),
    )
    .addOption(
      checked(
        "--cgroup-parent <dir>",
        "parent cgroup for enforcing cpus and memory_mb; auto: the daemon's own cgroup",
        cgroup,
      ),
    )
    .addOption(
      checked(
        "--worker-user <user>",
        "user of all workers, if root runs the daemon: a name, a uid, FIRST-LAST to give each run its own uid, or @owner: each run's owner",
        parseWorkerUser,
      ),
    )
    .addOption(
      new Option(
        "--alerts <rules>",
        'rules for every run, as metadata.alerts: \'[{"when": "nan", "metric": "loss"}]\'',
      ),
    )
    .addOption(
      repeatable(checked(
        "--objective <metric>",
        "the number by which list, page, top and compare judge runs that choose none themselves, as eval/reward:max " +
          "(or :min, :last, :mean); TAG=METRIC for the runs of a project, by their tag (repeatable)",
        objective,
      )),
    )
    .addOption(
      new Option(
        "--slurm <defaults>",
        "defaults of metadata.slurm, such as partition=gpu,account=lab",
      ),
    )
    .addOption(
      checked(
        "--advertise <address>",
        "address of the API for proxies on other hosts (default: that of --http)",
        advertised,
      ),
    )
    .option(
      "--advertise-ca <file>",
      "authority (PEM) of this daemon's certificate, if the other hosts do not trust it already",
    )
    .addOption(checked("--keep-last <n>", "delete ended runs except the newest n", whole(0)))
    .addOption(
      checked(
        "--older-than <age>",
        "delete runs that ended more than this long ago, such as 30d",
        age,
      ),
    )
    .addOption(
      checked(
        "--max-disk <size>",
        "delete the oldest ended runs while all runs use more disk space than this",
        bytes,
      ),
    )
    .addOption(
      checked(
        "--telemetry-max-size <size>",
        "delete the oldest ended runs while the telemetry database uses more than this",
        bytes,
      ),
    )
    .addOption(
      checked(
        "--keep-deleted <age>",
        "keep deleted runs in the trash this long; less if the disk fills; 0: remove them at once",
        (text) => text === "0" ? 0 : age(text),
        KEEP_DELETED_MS,
      ).default(KEEP_DELETED_MS, "7d"),
    )
    .addOption(checked("--webhook <url>", "URL that receives the events of all runs", url))
    .addOption(
      checked(
        "--webhook-events <kinds>",
        "event kinds to send, comma-separated (default: all except metrics)",
        parseEventKinds,
      ),
    )
    .option(
      "--notify <file>",
      "who gets messages, about which runs (JSON; see docs/how-to/messages.md)",
    )
    .addOption(
      oneOf(
        new Option(
          "--auth <how>",
          "who needs a token (see mosaic token) for API calls and the page: user: everybody but the daemon's user on " +
            "this machine; token: everybody; none: nobody",
        ),
        AUTHS,
      ).default("user"),
    )
    .option(
      "--tls-cert <file>",
      "certificate (PEM) for gRPC and the page; required for non-loopback addresses",
    )
    .option("--tls-key <file>", "private key of the certificate (PEM)")
    .option(
      "--tls-ca <file>",
      "certificate authority (PEM) that must have signed gRPC clients' certificates",
    )
    .addOption(
      oneOf(new Option("--log-level <level>", "minimum log level"), LOG_LEVELS).default("info"),
    )
    .addOption(
      oneOf(new Option("--log-format <format>", "log format"), ["json", "text"]).default("json"),
    )
    .option("--replace", "stop the daemon that uses the state directory, then start")
    .option(
      "--detach",
      "start in the background, in a session of its own, and wait until it is ready",
    )
    .addOption(new Option(DETACHED_OPTION).hideHelp())
    .optionsGroup(
      "Limits (beyond one: RESOURCE_EXHAUSTED, exit code 7, HTTP 429):",
    )
    .addOption(bound("maxQueue", "maximum queued runs", whole(0)))
    .addOption(bound("submitRate", "maximum submissions per second", positive))
    .addOption(bound("submitBurst", "maximum submissions at once, after a time without", whole(1)))
    .addOption(bound("maxStreams", "maximum open streams, without those of proxies", whole(1)))
    .addOption(
      bound(
        "maxStreamsPerConnection",
        "maximum open streams per connection; of ended runs ten times as many",
        whole(1),
      ),
    )
    .addOption(bound("maxStreamsPerRun", "maximum open streams per run", whole(1)))
    .addOption(bound("maxPageStreams", "maximum live connections of the page", whole(1)))
    .addOption(
      bound(
        "maxConnections",
        "maximum connections of gRPC, and of the API with TLS; further ones are closed",
        whole(1),
      ),
    )
    .addOption(
      bound(
        "maxMessageBytes",
        "maximum size of a request",
        sizeBetween(64 << 10, BOUNDS.maxMessageBytes.standard),
      ),
    )
    .addOption(
      bound(
        "logLines",
        "maximum lines per second sent to one reader of a log; the rest is left out and counted",
        whole(1),
      ),
    )
    .addOption(
      bound(
        "ringSteps",
        "newest steps kept in memory per run; older ones are read from the database",
        whole(1),
      ),
    )
    .addOption(
      bound(
        "ringBytes",
        "maximum memory for the newest records of all runs; of one run an eighth",
        sizeBetween(1 << 20, Infinity),
      ),
    )
    .addOption(
      bound(
        "maxUploadBytes",
        "maximum size of the files that an attempt on a host of its own uploads; others stay there (file_left)",
        bytes,
      ),
    )
    .addOption(
      bound(
        "uploadRateBytes",
        "maximum bytes a second of such an upload",
        sizeBetween(64 << 10, Infinity),
      ),
    )
    .addOption(
      bound(
        "windowBytes",
        "maximum unacknowledged bytes per proxy, which then waits",
        sizeBetween(64 << 10, 1 << 30),
      ),
    )
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic daemon", "all GPUs of this host, loopback only, state in ~/.local/state/mosaic"],
          [
            "mosaic daemon --state-dir /var/lib/mosaic --gpus 0,1 --max-disk 2T",
            "as a service of the host",
          ],
          [
            "mosaic daemon --listen unix:/run/mosaic.sock --http none",
            "for local clients only, without the page",
          ],
          ["mosaic daemon --replace", "replace an older daemon; its runs continue"],
          ["mosaic up", "in the background, unless one is running; mosaic down stops it"],
        ],
        exits: {
          0: "stopped by SIGTERM or SIGINT",
          2: "wrong options, or another daemon uses the state directory",
          3: "an address is in use or cannot be listened on",
          4: "the state directory or a database cannot be used",
          5: "a database was written by a newer mosaic",
          6: "a database is damaged",
          7: "stopped because of --max-memory; the service manager should start it again",
        },
        environment: [["MOSAIC_STATE_DIR", "the state directory, unless --state-dir is given"]],
      }),
    )
    // runDaemon() prints the error.
    .configureOutput({ writeErr: () => {}, outputError: () => {} });
  try {
    command.parse(args, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw new StartFailure(
      DAEMON_EXIT.usage,
      plainError(error.message),
      `See "mosaic ${verb} --help".`,
    );
  }
  if (command.args.length > 0) {
    throw new StartFailure(
      DAEMON_EXIT.usage,
      `unexpected argument ${JSON.stringify(command.args[0])}`,
    );
  }
  const given = command.opts();
  return {
    detach: given.detach === true,
    detached: given.detached === true,
    stateDir: resolveStateDir(given.stateDir, env),
    listen: given.listen,
    http: given.http,
    groupSocket: given.groupSocket,
    gpus: given.gpus ?? { type: "auto" },
    gpuFree: given.gpuFreeMemory === "off" ? undefined : {
      ...USUAL_FREE,
      ...given.gpuFreeMemory,
      ignored: String(given.gpuIgnore ?? "").split(",").map((name) => name.trim()).filter((name) =>
        name !== ""
      ),
    },
    gpuLocks: given.gpuLocks === "off" ? undefined : absolutePath(given.gpuLocks, Deno.cwd()),
    sharing: given.gpuSharing,
    maxRuns: given.maxRuns,
    maxStarting: given.maxStarting,
    shares: given.share && { weights: given.share, halfLifeMs: given.shareHalfLife },
    maxGpusPerUser: given.maxGpusPerUser,
    maxRunsPerUser: given.maxRunsPerUser,
    maxDiskPerUser: given.maxDiskPerUser,
    bounds: boundsOf(command),
    handshakeTimeoutSeconds: given.handshakeTimeout,
    heartbeatTimeoutSeconds: given.heartbeatTimeout,
    graceSeconds: given.grace,
    durability: given.durability,
    maxBacklogBytes: given.maxBacklog ?? 0,
    maxMemoryBytes: given.maxMemory,
    cgroupParent: given.cgroupParent,
    workerUser: given.workerUser,
    alerts: given.alerts,
    objectives: given.objective ?? [],
    slurm: given.slurm,
    advertise: {
      target: given.advertise,
      ca: given.advertiseCa && absolutePath(given.advertiseCa, Deno.cwd()),
    },
    webhook: given.webhook,
    webhookEvents: given.webhookEvents,
    notify: given.notify && absolutePath(given.notify, Deno.cwd()),
    auth: given.auth,
    tls: tlsFiles(given),
    logLevel: given.logLevel,
    logFormat: given.logFormat,
    replace: given.replace === true,
    keepDeletedMs: given.keepDeleted,
    retention: retentionOf(given.keepLast, given.olderThan, given.maxDisk, given.telemetryMaxSize),
  };
}

function retentionOf(
  keepLast?: number,
  olderThanMs?: number,
  maxBytes?: number,
  maxTelemetryBytes?: number,
): RetentionPolicy | undefined {
  if ([keepLast, olderThanMs, maxBytes, maxTelemetryBytes].every((limit) => limit === undefined)) {
    return undefined;
  }
  return {
    ...(maxTelemetryBytes === undefined ? {} : { maxTelemetryBytes }),
    ...(keepLast === undefined ? {} : { keepLast }),
    ...(olderThanMs === undefined ? {} : { olderThanMs }),
    ...(maxBytes === undefined ? {} : { maxBytes }),
  };
}
