// deno-lint-ignore-file no-control-regex -- the patterns keep NUL and other control characters out
/**
 * TrainRunConfig: the one schema that submissions are checked against and from which
 * `schema/train-run-config.v1.json` is generated. docs/reference/configuration.md explains every
 * field.
 */
import { DEFAULT_LISTEN } from "../base/agreed.ts";
import { OBJECTIVE_FORM, objectiveOf } from "../records/objective.ts";
import * as z from "zod";
import {
  anyObject,
  argument,
  closed,
  either,
  filledText,
  flag,
  integer,
  list,
  matching,
  once,
  oneOf,
  open,
  quantity,
  record,
  text,
} from "./field_kinds.ts";
import { TEXT_DIALECTS } from "../readers/text/text_dialects.ts";
import { alerts } from "./alerts.ts";
import { LONGEST_RUN_NAME } from "../base/run_name.ts";
import { AFTER_NEVER, MOMENT, momentAt, MOST_PREDECESSORS } from "./queue_fields.ts";

/** Version of the schema that this mosaic reads: another major is refused. */
export const SCHEMA_MAJOR = 1;
const SCHEMA_MINOR = 0;

export const RESTART_CAUSES = ["exit", "heartbeat", "handshake", "lost", "infrastructure"] as const;
export const BACKPRESSURE_POLICIES = ["journal", "throttle", "pause"] as const;
/** The entry point of runs that `mosaic import` has made. */
export const IMPORT_WORKER = "mosaic:import-worker";
/** Entry points that are part of mosaic. */
export const BUILT_IN_WORKERS = ["mosaic:demo-worker", IMPORT_WORKER] as const;
export const SANDBOXES = ["none", "bubblewrap"] as const;
/** What starts runs: the daemon on its own host, or an engine (docs/reference/launchers.md). */
export const LAUNCHERS = ["local", "slurm"] as const;

/** What may stand in a file name: ids become part of log and config file names. */
/** Ids that may become parts of file names. */
export const FILE_NAME_PART = /^(?:|[^/.\u0000-\u001f\u007f][^/\u0000-\u001f\u007f]{0,99})$/u;
const idForFiles = () =>
  matching(
    FILE_NAME_PART,
    'at most 100 characters without "/" and control characters, not beginning with "."',
  );
const absolutePath = () => matching(/^\/[^\u0000]*$/u, 'an absolute path (beginning with "/")');
/** The original writes null and "" for absent values; both count as absent. */
const optionalText = () => text().nullish();
const environment = () =>
  record(
    matching(/^[^=\u0000]+$/u, 'a variable name: not empty, without "="'),
    argument(),
    "an object of strings",
  );

const workerConfig = once(() =>
  open({
    run_id: optionalText().describe("Replaced by the run's id; a ULID here becomes the run's id."),
    worker_id: idForFiles().nullish().describe("Used when worker.worker_id is empty."),
    agent_id: optionalText().describe("Used when worker.agent_id is empty."),
    schema_id: optionalText().describe("As telemetry.schema_id, if that is not given."),
    schema_definition: anyObject().nullish().describe(
      "As telemetry.schema, if that is not given.",
    ),
    extras: open({}).nullish().describe(
      'mode "policy_eval" makes it an evaluation; tensorboard_dir, track_wandb as in the original.',
    ),
    total_timesteps: z.unknown().optional().describe(
      "Length of the training, for the progress bar, if schedule.max_steps is not given.",
    ),
  }).describe("Written to the worker's config file, with run_id and worker_id in it.")
);

const worker = once(() =>
  open({
    module: optionalText().describe("Python module, run as `python -m MODULE`."),
    script: argument().nullish().describe("Program to run if there is no module."),
    arguments: list(argument(), "strings").nullish().describe(
      "Arguments of the module or script, or of the entry point after its own.",
    ),
    config: workerConfig().nullish(),
    use_grpc: flag().nullish().describe(
      "Whether --grpc --grpc-target ADDRESS is added to the command; default true.",
    ),
    grpc_target: optionalText().describe(
      `Address in it; ${DEFAULT_LISTEN} also means the daemon's own. Default: the daemon's own.`,
    ),
    worker_id: idForFiles().nullish().describe(
      "Name of the worker: log files, WORKER_ID, --worker-id.",
    ),
    agent_id: optionalText().describe(
      "Agent of records that name none; default: agent_ and 8 characters of the run id.",
    ),
    python: argument().nullish().describe(
      "Interpreter for the module (docs/reference/configuration.md#the-workers-command).",
    ),
    supports_pause: flag().nullish().describe(
      'Whether the worker accepts {"control":"pause"} on its standard input, or control by gRPC; others are stopped as a process group. Default false.',
    ),
    cwd: absolutePath().nullish().describe(
      "Working directory of the worker; default: the daemon's, else the run's directory.",
    ),
    user: either("a user's name, or a number above 0", [
      matching(/^[A-Za-z_][\w.-]*$/, "a user's name"),
      integer(1, 4_294_967_294),
    ]).nullish().describe(
      "User of the worker, if root runs the daemon; default: the daemon's, or its --worker-user.",
    ),
    external: flag().nullish().describe(
      "Whether another system, such as a container platform, starts the run's proxy (docs/how-to/containers.md); default false.",
    ),
    upload_files: flag().nullish().describe(
      "Whether the proxy of an external run uploads logs and files of the run; default false.",
    ),
  })
);

const restart = once(() =>
  closed({
    max_attempts: integer(1, 1000).optional().describe(
      "Most attempts of the run, including the first; default 1.",
    ),
    backoff_s: quantity("seconds", { least: 0 }).optional().describe(
      "Seconds before the second attempt, doubled for each further one up to 10 minutes; default 5.",
    ),
    on: list(oneOf(RESTART_CAUSES), "causes").optional().describe(
      "Failures that lead to another attempt (docs/reference/operations.md#why-a-run-failed); default: all.",
    ),
  })
);

const backpressure = once(() =>
  either(
    `one of ${
      BACKPRESSURE_POLICIES.map((p) => `"${p}"`).join(", ")
    }, or an object with policy, min_rate_hz, starved_seconds`,
    [
      oneOf(BACKPRESSURE_POLICIES),
      closed({
        policy: oneOf(BACKPRESSURE_POLICIES).optional().describe(
          "As backpressure alone; default journal.",
        ),
        min_rate_hz: integer(1, 1_000_000).optional().describe(
          "Floor of `throttle`, in steps per second; default 1.",
        ),
        starved_seconds: quantity("seconds", { above: 0 }).optional().describe(
          "How long readers are without credits before `pause` holds the run; default 10.",
        ),
      }),
    ],
  )
);

const preflight = once(() =>
  closed({
    files: list(
      either("a path, or an object with path and sha256", [
        filledText(),
        closed({
          path: filledText(),
          sha256: matching(/^[0-9a-fA-F]{64}$/, "64 hexadecimal digits").optional(),
        }),
      ]),
      "paths",
    ).optional().describe(
      "Files that must exist and have this SHA-256; relative paths: in the working directory.",
    ),
    modules: list(
      matching(/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/, "the dotted name of a Python module"),
      "module names",
    ).optional().describe(
      "Python modules that the run's interpreter must be able to import, all within 120 s.",
    ),
    min_free_disk_mb: integer(0).optional().describe(
      "MiB that must be free on the run directory's file system.",
    ),
    gpu: flag().optional().describe(
      "Whether the run must have a GPU slot; on a node of Slurm, its job a GPU.",
    ),
  })
);

const telemetry = once(() =>
  open({
    strict: flag().optional().describe(
      "Whether a record that violates the schema faults the run; default false.",
    ),
    schema: anyObject().optional().describe(
      "JSON Schema of step records (docs/reference/telemetry.md#telemetry-schemas); default: worker.config.schema_definition.",
    ),
    schema_id: filledText(200).optional().describe(
      "A schema by its name; default: worker.config.schema_id.",
    ),
    schema_version: integer(1).optional().describe("Its version."),
    text: either(
      `true, false, or a list of ${TEXT_DIALECTS.map((d) => `"${d}"`).join(", ")}`,
      [flag(), list(oneOf(TEXT_DIALECTS), "dialects")],
    ).optional().describe(
      "Which printed text becomes metrics and episodes (docs/reference/telemetry.md#what-programs-print-for-people); default: true, every dialect.",
    ),
  })
);

const sandbox = once(() =>
  either('"none", "bubblewrap", or an object with kind, network, writable', [
    oneOf(SANDBOXES),
    closed({
      kind: oneOf(SANDBOXES).describe(
        "bubblewrap: the host is read-only, mosaic's state and sockets are hidden, /tmp is private, only the run's directory is writable, without logs/ and media/.",
      ),
      network: flag().optional().describe(
        "Whether the worker has the host's network; default false.",
      ),
      writable: list(absolutePath(), "absolute paths").optional().describe(
        "Writable in addition to the run's directory.",
      ),
    }),
  ])
);

const WEBHOOK_URL = /^https?:\/\/[^\s/]+/;
const webhook = once(() =>
  either("an http or https URL, or an object with url, events, secret_file", [
    matching(WEBHOOK_URL, "an http or https URL"),
    closed({
      url: matching(WEBHOOK_URL, "an http or https URL"),
      events: list(filledText(), "event kinds").optional().describe(
        "Kinds to send; default: all but metrics.",
      ),
      secret_file: absolutePath().optional().describe(
        "File with the key that signs each request; default: the daemon's.",
      ),
    }),
  ])
);

/** A word for the command line of an engine's tools: it cannot begin another option. */
const engineWord = () =>
  matching(
    /^[^-\s\u0000-\u001f][^\u0000-\u001f]{0,199}$/u,
    "a value that does not begin with - or a space",
  );

/** What Slurm is asked for; docs/how-to/slurm.md. */
export const slurmFields = once(() =>
  closed({
    partition: engineWord().optional().describe("As of sbatch."),
    account: engineWord().optional().describe("As of sbatch."),
    qos: engineWord().optional().describe("As of sbatch."),
    time: either("minutes, or a time as sbatch takes it, such as 1-12:00:00", [
      integer(1),
      matching(/^(\d+-)?\d+(:\d+){0,2}$/, "a time as sbatch takes it, such as 1-12:00:00"),
    ]).optional().describe(
      "Longest time of an attempt; a number is minutes. Default: the partition's.",
    ),
    constraint: engineWord().optional().describe("Features of the nodes."),
    gres: engineWord().optional().describe(
      "Generic resources; default: gpu:N for resources.gpus.requested.",
    ),
    extra: list(
      matching(/^--[a-z][a-z-]*(=[^\u0000-\u001f]*)?$/, "an option of sbatch as --name=value"),
      "options of sbatch",
    ).optional().describe("Further options of sbatch."),
    node_dir: absolutePath().optional().describe(
      "Directory on nodes that share no disk with the daemon (docs/how-to/slurm.md#without-a-shared-disk); default: they share the state directory.",
    ),
    linger_seconds: quantity("seconds", { least: 1 }).optional().describe(
      "Seconds for which a job without work waits for a daemon that is away; default 60.",
    ),
    nodes: integer(1).optional().describe(
      "Nodes of the run (docs/how-to/slurm.md#several-nodes); default 1.",
    ),
    tasks_per_node: either('a number of ranks, or "gpu"', [integer(1), oneOf(["gpu"])]).optional()
      .describe(
        'Ranks on each node; "gpu": one for each of resources.gpus.requested, which is of each node; default 1.',
      ),
    warn_seconds: integer(1).optional().describe(
      'Seconds before the time limit at which the worker receives {"control":"checkpoint"}; needs worker.supports_pause.',
    ),
    lease_seconds: integer(10).optional().describe(
      "Seconds without contact to the daemon after which the job stops its worker (docs/how-to/slurm.md#how-a-job-ends); default: never.",
    ),
  })
);

/** In a stored config, what was found. */
const used = once(() =>
  either("an artifact, as RUN:PATH or NAME:ALIAS", [
    filledText(500),
    closed({
      artifact: filledText(500),
      run: filledText(26),
      path: filledText(),
      sha256: text(),
      file: filledText(),
    }),
  ])
);

const MOMENT_TEXT =
  "a time such as 2026-11-27T18:00:00Z, or a duration after the submission such as +2h";
const moment = () =>
  matching(MOMENT, MOMENT_TEXT).refine((text) => !MOMENT.test(text) || momentAt(text, 0) !== null, {
    error: ({ input }) => `must be ${MOMENT_TEXT}, not "${input}", which is in no calendar`,
  });

/** What a run waits for; docs/how-to/queue.md. */
const queue = once(() =>
  closed({
    after: list(filledText(300), "runs").max(MOST_PREDECESSORS, {
      error: ({ input }) =>
        `names ${(input as unknown[]).length} runs; at most ${MOST_PREDECESSORS} are taken`,
    }).optional().describe(
      "Runs that must have ended before this one starts: RUN or RUN:ok (well), RUN:failed (failed or cancelled), RUN:any; sweep:NAME for all trials of a sweep.",
    ),
    after_never: oneOf(AFTER_NEVER).optional().describe(
      "When a predecessor has ended in another way: wait (it may be retried), or cancel this run; default wait.",
    ),
    begin: moment().optional().describe(
      "Time before which the run does not start, or +DURATION after its submission.",
    ),
    deadline: moment().optional().describe(
      "Time after which the run does not start any more (deadline_passed), or +DURATION after its submission.",
    ),
    preemptible: flag().optional().describe(
      "Whether the run gives way to runs of higher priority, and continues later from its newest checkpoint; default false.",
    ),
    deadline_stops: flag().optional().describe(
      "Whether the deadline also stops a run that has started; default false.",
    ),
  })
);

const metadata = once(() =>
  open({
    run_id: optionalText().describe("In the nested shape: the run's id, if it is a ULID."),
    run_name: optionalText().describe("In the nested shape: the run's name."),
    worker: worker().nullish(),
    priority: integer(-1_000_000, 1_000_000).optional().describe(
      "Higher starts earlier, equal ones in order of submission; default 0.",
    ),
    submitted_by: optionalText().describe(
      "Who submitted the run: a token's name, or uid:N. The daemon sets it.",
    ),
    queue: queue().optional().describe("What the run waits for; docs/how-to/queue.md."),
    tags: list(filledText(100), "strings").optional().describe("For mosaic list --tag."),
    restart: restart().optional(),
    backpressure: backpressure().optional().describe(
      "What readers without credits do to training: nothing (journal), slow it down (throttle), hold it (pause); default journal.",
    ),
    preflight: preflight().optional().describe(
      "Checked on the attempt's host before it starts (docs/reference/configuration.md#preflight).",
    ),
    telemetry: telemetry().optional(),
    alerts: alerts().optional().describe(
      "Rules about the run's records (docs/reference/operations.md#alerts).",
    ),
    resume_from: absolutePath().optional().describe(
      "A checkpoint of another run, a file or directory: it is copied into the run's directory, with the run's rights, and the copy is the first MOSAIC_RESUME_FROM.",
    ),
    objective: text().refine((value) => objectiveOf(value) !== undefined, {
      error: `must be ${OBJECTIVE_FORM}`,
    })
      .optional()
      .describe(
        'The metric by which the run is judged, such as "eval/reward:max"; default: the daemon\'s --objective.',
      ),
    observe: either("true, false, or a list of patterns", [
      flag(),
      list(filledText(4096), "patterns"),
    ]).optional()
      .describe(
        "Whether files of trackers are read (docs/reference/formats.md#while-a-run-runs); patterns (*, ?, **; relative to the working directory) add files. Default true.",
      ),
    code: oneOf(["on", "off"]).optional().describe(
      "off: commit, changes, packages and interpreter of the run are not recorded; default on (docs/how-to/reproduction.md).",
    ),
    uses: list(used(), "artifacts").max(100, { error: "names more than 100 artifacts" }).optional()
      .describe(
        "Artifacts that the run reads: RUN:PATH, or NAME:ALIAS (docs/how-to/reproduction.md).",
      ),
    heartbeat_timeout_seconds: quantity("seconds", { above: 0 }).optional().describe(
      "Time without a heartbeat or telemetry before the run is faulted; default: the daemon's, 300.",
    ),
    handshake_timeout_seconds: quantity("seconds", { above: 0 }).optional().describe(
      "Time for the proxy's registration; default: the daemon's, 60.",
    ),
    sandbox: sandbox().optional().describe("Default none."),
    launcher: oneOf(LAUNCHERS).optional().describe(
      "What starts the run: the daemon on its host (local), or Slurm; default local.",
    ),
    slurm: slurmFields().optional().describe(
      "Fields of the Slurm job; they override the daemon's --slurm.",
    ),
    umask: matching(/^0?[0-7]{3}$/, 'three octal digits in quotes, such as "022"').optional()
      .describe('Mode bits that files of the worker do not get; default "077", its user\'s alone.'),
    webhook: webhook().optional().describe(
      "Receiver of the run's events (docs/reference/observability.md#webhooks).",
    ),
    artifacts: open({
      tensorboard: open({}).nullish(),
      wandb: open({}).nullish(),
      drop_checkpoints_at_end: flag().optional().describe(
        "true: checkpoints/ is removed when the run is TERMINATED or CANCELLED; default false.",
      ),
      keep_journal: flag().optional().describe(
        "true: the worker's standard output stays one plain file instead of being compressed; default false.",
      ),
    }).nullish(),
  }).meta({ id: "metadata" })
);

const PART = "must be a part of a card, a number above 0 and below 1; for whole cards leave it out";
const gpus = once(() =>
  closed({
    requested: integer(0, 8).describe("GPU slots requested; in the nested shape, default 0."),
    mandatory: flag().optional().describe(
      "true: wait until all are free (RESOURCE_EXHAUSTED if the host has fewer); false: start with the free ones, possibly none. Default false.",
    ),
    share: z.number({ error: PART }).gt(0, { error: PART }).lt(1, { error: PART }).optional()
      .describe(
        "A part of each card (docs/how-to/gpus.md#sharing-a-card); default: whole cards.",
      ),
    memory_mb: integer(64).optional().describe(
      "The same in MiB, instead of share; default: whole cards.",
    ),
  }).superRefine(({ requested, share, memory_mb }, context) => {
    const both = share !== undefined && memory_mb !== undefined;
    const none = requested === 0 && (share ?? memory_mb) !== undefined;
    if (both) {
      context.addIssue({ code: "custom", message: "has share and memory_mb; give one of them" });
    }
    if (none) {
      context.addIssue({
        code: "custom",
        message: "has a part of a card, but requested is 0; give 1",
      });
    }
  })
);
const resources = once(() => ({
  cpus: integer(1).optional().describe(
    "CPUs; enforced only with --cgroup-parent (docs/reference/operations.md#limits-of-cpu-and-memory); default: no limit.",
  ),
  memory_mb: integer(256).optional().describe(
    "MiB of memory; enforced as cpus is. Default: no limit.",
  ),
  gpus: gpus(),
}));
const artifacts = once(() =>
  closed({
    output_prefix: filledText().nullish().describe("Stored for the worker."),
    persist_logs: flag().optional().describe(
      "false: logs/ is removed when the run is TERMINATED or CANCELLED; default true.",
    ),
    keep_checkpoints: flag().optional().describe(
      "Stored for the worker; mosaic uses metadata.artifacts.drop_checkpoints_at_end. Default true.",
    ),
    keep_videos: integer(1, 1000).optional().describe(
      "Videos that are kept of the best, the worst and the last episodes (docs/reference/operations.md#retention); default: all.",
    ),
  }).meta({ id: "artifacts" })
);
const schedule = once(() =>
  closed({
    max_duration_seconds: integer(1).optional().describe(
      "An attempt that runs longer, pauses excluded, is faulted: max_duration.",
    ),
    max_steps: integer(1).optional().describe(
      "A run with more steps (recorded, or the highest step of a metric) is faulted: max_steps. Also the length of its progress bar.",
    ),
    stall_timeout_seconds: quantity("seconds", { above: 0 }).optional().describe(
      "A worker that prints nothing for this time is faulted: stall_timeout.",
    ),
  }).meta({ id: "schedule" })
);
/** A date is a version of the original's design, whose configs have version 1's fields. */
const schemaVersion = once(() =>
  either(
    `a version such as ${SCHEMA_MAJOR} or "${SCHEMA_MAJOR}.${SCHEMA_MINOR}", or a date such as "2025-10-14"`,
    [
      z.int().min(1),
      z.string().regex(/^[0-9]+(\.[0-9]+)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}$/),
    ],
  ).optional().describe("Not part of the digest; default 1.")
);

const flatFields = once(() => ({
  run_name: filledText(LONGEST_RUN_NAME).describe("Name for people; need not be unique."),
  entry_point: argument().min(1, { error: 'must be a non-empty string, not ""' }).refine(
    (value) => !value.startsWith("mosaic:") || BUILT_IN_WORKERS.some((name) => name === value),
    {
      error: ({ input }) =>
        `is no built-in worker: ${String(input)}; there is ${BUILT_IN_WORKERS.join(", ")}`,
    },
  ).describe(
    'Program to run if the worker has neither module nor script; "mosaic:demo-worker" and "mosaic:import-worker" are ' +
      "built in.",
  ),
  arguments: list(argument(), "strings").optional().describe("Arguments of the entry point."),
  environment: environment().describe(
    "Variables added to the worker's environment; a command line shows only those that a shell cannot export (a.b), for a millisecond.",
  ),
  resources: closed(resources()),
  artifacts: artifacts(),
}));

/** The flat shape, which is also the canonical one. */
export const flatConfig = once(() =>
  closed({
    schema_version: schemaVersion(),
    ...flatFields(),
    metadata: metadata().optional(),
    schedule: schedule().optional(),
  })
);

/**
 * The documentation's shape: `payload` holds the flat keys, the name is in `metadata`. Converted by
 * flat_shape.ts before it is checked.
 */
const nestedConfig = once(() =>
  closed({
    schema_version: schemaVersion(),
    metadata: metadata(),
    payload: closed(flatFields()).partial().extend({
      resources: closed(resources()).partial().optional(),
      schedule: schedule().optional(),
    }),
  })
);

const trainRunConfig = once(() => z.union([flatConfig(), nestedConfig()]));

export type SlurmFields = z.infer<ReturnType<typeof slurmFields>>;
export type FlatConfig = z.infer<ReturnType<typeof flatConfig>>;

/** The published JSON Schema (draft 2020-12). */
export function publishedSchema(): Record<string, unknown> {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: `train-run-config.v${SCHEMA_MAJOR}.json`,
    title: "TrainRunConfig",
    description:
      `A training run as it is submitted to mosaic; schema_version ${SCHEMA_MAJOR}.${SCHEMA_MINOR}.`,
    ...z.toJSONSchema(trainRunConfig(), { io: "input" }),
  };
}
