/**
 * What the fields of src/registry/contract.ts mean, by shape and path: docs/reference/json.md is
 * generated from both. A field without a line is what its name says. Those of runs are in
 * `src/runs/fields/run_fields.ts`.
 */
export const FIELD_WORDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ShownRun: {
    artifacts: "its artifacts",
  },
  Artifact: {
    path: "relative to the run's directory",
    kind: "`checkpoint`, `video`, `tensorboard` …",
    sha256: '"" until it has been computed',
    step: "training step, if known",
    window_id:
      'the window that shows a video, as the worker\'s `artifact` record says; "" for none',
  },
  Event: {
    seq: "ascending over all runs, never used twice",
    data: "depends on the kind; for `state`: `from`, `to`, `event`, `reason`, `attempt`",
  },
  WorkerEvent: {
    event: "what the worker reported about itself",
  },
  Deletion: {
    freed_bytes:
      "the size of its files and of its pages in the telemetry database; 0 if it is in the trash",
    kept_until: "how long the trash keeps it; null: it is removed for good",
  },
  Pruning: {
    dry_run: "nothing was deleted",
    freed_bytes: "0 for a dry run",
    runs: "deleted, or selected for deletion",
    "runs[].bytes":
      "of its files and its telemetry; null if the daemon could not compute it in time (with `--max-size` the command waits)",
    "runs[].because": "the rule that selected it",
  },
  ObservedFiles: {
    observed: "all patterns that were added",
    "files[].path": "a file, or a pattern that names none",
    "files[].format": "its reader; null: it is not read",
    "files[].records": "points and episodes that this call has stored",
    "files[].note": "why it is not read, or since when",
  },
  Usage: {
    runs: "largest first",
    "runs[].name": "null if the registry has no such run",
    "runs[].state": "null if the registry has no such run",
    "runs[].bytes": "its files and its telemetry",
    "runs[].telemetry_bytes": "only its telemetry",
    "runs[].deleted_at": "of a run in the trash",
    directories: "bytes in each directory",
    telemetry_bytes: "the database",
    registry_bytes: "the database",
    total_bytes: "of runs and databases",
    trash_bytes: "of the runs in the trash",
  },
  Host: {
    version: "of the daemon",
    listen: '"": it is off',
    http: '"": it is off',
    tls: "`http` takes TLS only",
    gpus: "the GPU slots",
    gpu_problem: 'why not all GPUs can be used; "": nothing is wrong',
    load_average: "over 1, 5 and 15 minutes",
    memory_bytes: "of the host",
    memory_available_bytes: "of the host",
    disk_bytes: "of the state directory's disk",
    disk_available_bytes: "of the state directory's disk",
    telemetry_bytes: "of the telemetry database",
    rss_bytes: "the daemon's memory",
  },
  Gpu: {
    run_id: "the run that holds it",
    name: 'of the card or MIG device, "" if unknown',
    uuid: 'of the card or MIG device, "" if unknown',
    memory_mb: "of the card, at the driver's last answer; null: it does not tell",
    used_mb: "of the card, at the driver's last answer; null: it does not tell",
    percent: "of the card, at the driver's last answer; null: it does not tell",
    watts: "of the card, at the driver's last answer; null: it does not tell",
    celsius: "of the card, at the driver's last answer; null: it does not tell",
    shares: "runs that share it; `run_id` is null then",
    "shares[].part": "of the card, 0 to 1",
    "shares[].memory_mb": "declared; null: not known",
    "shares[].used_mb": "used by its processes; null: not known",
    others: 'what other processes than the run\'s use of it, "" if nothing is known',
    lost: "the card does not answer, and a run still holds it",
  },
  Sweep: {
    state: "`running`, `paused`, `finished`, `cancelled`",
    total: "trials that there will be",
    made: "trials whose run was made",
    states: 'of the made ones, how many are in which state: `{"terminated": 7, "pruned": 2}`',
    parameters: "their names",
    max_parallel: "trials at once; null: the host's CPUs",
    budget: "as given; null: none",
    metric: "as given; null: none",
    stop: "as given; null: none",
    waiting_for: "why no further trial can be made now",
    seeds: "those of `parameters` that are seeds",
    detail:
      "not in lists: `best`, `winner`, `statement`, `points`, `trials`, `best_so_far`, `stopped`, `saved`, `spent`; of `sweep show`, `importance`, too",
  },
  UserGpuUse: {
    user: 'who submitted the runs: a token\'s name, or `uid:N`; "" if unknown',
    gpu_hours: "from the claim of each card to its release",
    measured_hours: "in which the utilisation was known",
    idle_hours: "of these, in which it was below 5 %",
    idle_share: "`idle_hours` of `measured_hours`; null if nothing was measured",
    disk_bytes: "files and telemetry of the runs that are there, those in the trash included",
    disk_limit_bytes: "`--max-disk-per-user`; null: no limit",
  },
  RunGpuUse: {
    gpu_hours: "as of a user",
    measured_hours: "as of a user",
    idle_hours: "as of a user",
    idle_share: "as of a user",
  },
  Sent: {
    receiver: "its name",
    error: "why the message was not sent; null: it was",
  },
  Lineage: {
    uses: "what the run has read, and what was read for that, nearest first; at most 500",
    used_by: "what others have read of it, and so on",
    names: "names of contents that it has written",
  },
  ArtifactUse: {
    run_id: "who has read it",
    run_name: "who has read it",
    source_run_id: "whose it is; null: nothing of this name was there",
    path: "as of an `Artifact`, or a directory of some",
    sha256:
      'its content when it was named; "" if it was not known. Of a directory, that of the lines `SHA256  PATH` of its files',
    artifact: "as the run named it",
    source_deleted: "the run is deleted",
    changed: "the file has another content now",
  },
  NamedArtifact: {
    version: "each content has one of the name",
    run_id: "where the content was when it was named",
    path: "where the content was when it was named",
    run_name: "null: the run is deleted",
    file: "a file with the content, on the daemon's host; null: there is none any more",
  },
  Series: {
    non_finite:
      "how many of the points are NaN or infinite; 0 where an earlier version stored them",
    last: "of all finite values; null if there is none",
    min: "of all finite values; null if there is none",
    max: "of all finite values; null if there is none",
    mean: "of all finite values; null if there is none",
    min_step:
      "the worker's step at the first smallest value (of `reward` and episodes the seq); null for values that a version without this stored",
    max_step: "the same of the largest",
    source:
      "what wrote the newest points: a tracker, a file or a directory; `stdout` is what the program printed",
    copy_of:
      "the series with the same points, more exactly ([one series per metric](formats.md#one-series-per-metric)); such copies are listed only with `--sources`, so null otherwise",
  },
  Bucket: {
    first_x: "x of the first point",
    last_x: "x of the last point",
    min: "null where no point of the bucket is finite",
    max: "null where no point of the bucket is finite",
    mean: "null where no point of the bucket is finite",
    last: "null where no point of the bucket is finite",
    count: "number of finite points",
    at: "of the last point",
    step:
      "the worker's step at the last point; null except for metrics and for series of several attempts; of the latter, the number of the step or episode without the overwritten ones",
    attempt: "null where there was one attempt",
    overwritten:
      "these records are [overwritten](cli.md#overwritten-records); only with `--overwritten`",
  },
  Comparison: {
    runs: "in the order of the arguments",
    parameters:
      "each parameter in which the runs differ, with the value in each run, null if absent",
    metrics: "the last value of each metric in each run",
    config: 'each path at which the configs differ, with the value in each run, "" if absent',
  },
  RunCode: {
    command: "secrets are hidden",
    records: "empty if nothing is recorded",
  },
  CodeOfAttempt: {
    attempt: "0: at the submission",
    code:
      "`cwd`; `git` (`root`, `commit`, `branch`, `remote`, `files`, `left_out`, `masked`, `diff_sha256`) or null; `words` (files that the command names, with their SHA-256); `problems`",
    environment:
      "`host`, `kernel`, `driver`, `cuda`, `interpreter`, `packages` (pairs of name and version), `sources` (of packages from a directory or an address)",
  },
  RunDifferences: {
    command: "in the order of interest",
    parameters: "in the order of interest",
    code: "in the order of interest",
    packages: "in the order of interest",
    environment: "in the order of interest",
    config: "in the order of interest",
    patch: "with `--patch`: lines in which the changes to the commit differ",
  },
  Difference: {
    name: "a parameter, file, package or path in the config",
    a: "null: the run has none",
    b: "null: the run has none",
  },
  RunGroup: {
    runs: "the ids of its runs",
    states: "how many of its runs are in each state",
    values:
      "by column: for numbers a `GroupValue`, null if no run has one; otherwise the text that all runs share, or `3 different`",
  },
  GroupValue: {
    sd: "the sample's standard deviation; 0 for one run",
    runs: "runs that have a value",
  },
  GroupComparison: {
    "groups[].runs": "the ids of its runs",
    figures: "of each total: a `GroupValue` for each group",
    metrics: "of the last value of each metric: the same",
    parameters:
      "each parameter in which the runs differ: the value that a group's runs have, or `3 different`",
    curves: "one for each group",
  },
  GroupPoint: {
    x: "step or episode, or seconds with `--time`",
    mean: "of the runs that have a value there; with `--band iqm` the interquartile mean",
    low: "of the band",
    high: "of the band",
    runs: "runs that have a value there",
  },
  Import: {
    run_id: "the same for the same content",
    status: "`imported`: a run of mosaic, completely stored; `found` with `--dry-run`",
    files: "files of the run",
    series: "imported ones",
    points: "imported ones",
    episodes: "imported ones",
    texts: "imported ones",
    parameters: "imported ones",
    left_out: "what is not imported, and why",
  },
  Validation: {
    digest: "null if it is not valid",
  },
  Examination: {
    repaired: "what `--repair` did, or failed to do",
    "repaired[].outcome": "what was done, or why it failed",
    findings: "the problems found (after a repair: those that remain)",
    "findings[].check": "[the checks](operations.md#mosaic-doctor)",
    "findings[].remedy": 'what `--repair` does; "" if a person has to decide',
  },
  Backup: {
    directory: "of the backup",
    state_dir: "of what is copied",
    mosaic: "version that made it",
    finished_at: "null in `backup.json` until the backup is complete",
    runs: "in the copied registry",
    live_runs: "in the copied registry",
    files: "of the backup",
    copied_files: "new or changed ones",
    copied_bytes: "new or changed ones",
    database_bytes: "size of the copied databases",
    secrets: "whether tokens and keys are copied (`--secrets`)",
    left_out: "files that could not be read, and why",
  },
  KnownHost: {
    name: "as `--host` names it",
    ssh: "what ssh connects to",
    mosaic: "the executable there",
    version: '"": unknown, or the host does not answer',
    state: "`ready`, or why it is not",
  },
  Token: {
    own: "changes only runs and sweeps that it has submitted",
    own_only: "sees only those, too",
    expires_at: "null: never",
  },
  CreatedToken: {
    secret: "the token itself; it cannot be shown again",
  },
  AuditEntry: {
    who:
      "name of a token; `owner`: the daemon's user without one; `anybody` under `--auth none`; `run ID`: the token of a run; `nobody`: a missing or wrong credential",
    address: "`unix` for the daemon's own socket, `local` for a command on the state directory",
    uid: "of the process at the other end",
    action: "such as `Mosaic/CancelRun` or `page/cancel`",
    run: "id of the run that it names",
    outcome: "`ok`, or the code of the error",
    message: "of the error",
    skipped: "refusals since the previous entry that were not written",
  },
};
