/**
 * Every verb with its one-line summary. A verb's module is loaded only when it runs: start-up time is mostly imports,
 * and `mosaic --help` needs none of them.
 */
import type { Verb } from "./verb/verb.ts";

export const GROUPS = ["Runs", "Telemetry", "Control", "Host", "Parts"] as const;

export const VERBS: readonly Verb[] = [
  {
    name: "submit",
    group: "Runs",
    summary: "submit a run from a config; print its id",
    load: () => import("./verbs/runs/submit.ts"),
  },
  {
    name: "run",
    group: "Runs",
    summary: "run a command as a training run",
    load: () => import("./verbs/runs/run.ts"),
  },
  {
    name: "sweep",
    group: "Runs",
    summary: "try a command with many values of its parameters",
    load: () => import("./verbs/sweep/sweep.ts"),
  },
  {
    name: "import",
    group: "Runs",
    summary: "import past runs from the files of other trackers",
    load: () => import("./verbs/runs/import.ts"),
  },
  {
    name: "list",
    aliases: ["ls", "ps"],
    group: "Runs",
    summary: "list runs",
    load: () => import("./verbs/runs/list.ts"),
  },
  {
    name: "show",
    group: "Runs",
    summary: "show everything known about a run",
    load: () => import("./verbs/runs/show.ts"),
  },
  {
    name: "watch",
    group: "Runs",
    summary: "print state changes as they happen",
    load: () => import("./verbs/runs/watch.ts"),
  },
  {
    name: "wait",
    group: "Runs",
    summary: "wait until runs have ended; exit code by outcome",
    load: () => import("./verbs/runs/wait.ts"),
  },
  {
    name: "validate",
    group: "Runs",
    summary: "check a config without submitting it",
    load: () => import("./verbs/runs/validate.ts"),
  },
  {
    name: "tag",
    group: "Runs",
    summary: "add or remove a run's tags",
    load: () => import("./verbs/edit/tag.ts"),
  },
  {
    name: "note",
    group: "Runs",
    summary: "write notes about a run",
    load: () => import("./verbs/edit/note.ts"),
  },
  {
    name: "rename",
    group: "Runs",
    summary: "give a run another name",
    load: () => import("./verbs/edit/rename.ts"),
  },
  {
    name: "delete",
    aliases: ["rm"],
    group: "Runs",
    summary: "delete ended runs with all their files",
    load: () => import("./verbs/edit/delete.ts"),
  },
  {
    name: "prune",
    group: "Runs",
    summary: "delete ended runs by count, age or size",
    load: () => import("./verbs/edit/prune.ts"),
  },
  {
    name: "du",
    group: "Runs",
    summary: "show the disk space that runs use",
    load: () => import("./verbs/edit/du.ts"),
  },
  {
    name: "compare",
    group: "Runs",
    summary: "compare runs: totals, metrics, configs, curves",
    load: () => import("./verbs/runs/compare.ts"),
  },
  {
    name: "rerun",
    group: "Runs",
    summary: "submit a run again, with other parameters or its old code",
    load: () => import("./verbs/runs/rerun.ts"),
  },
  {
    name: "diff",
    group: "Runs",
    summary: "show what differs between two runs: command, code, packages",
    load: () => import("./verbs/runs/diff.ts"),
  },
  {
    name: "report",
    group: "Runs",
    summary: "write runs' totals and curves as one HTML file",
    load: () => import("./verbs/runs/report.ts"),
  },
  {
    name: "steps",
    group: "Telemetry",
    summary: "print a run's steps",
    load: () => import("./verbs/telemetry/steps.ts"),
  },
  {
    name: "episodes",
    group: "Telemetry",
    summary: "print a run's episodes",
    load: () => import("./verbs/telemetry/episodes.ts"),
  },
  {
    name: "metrics",
    group: "Telemetry",
    summary: "list a run's metric series, or print their points",
    load: () => import("./verbs/telemetry/metrics.ts"),
  },
  {
    name: "events",
    group: "Telemetry",
    summary: "print what happened to runs, and why",
    load: () => import("./verbs/telemetry/events.ts"),
  },
  {
    name: "logs",
    group: "Telemetry",
    summary: "print what a run's worker wrote",
    load: () => import("./verbs/telemetry/logs.ts"),
  },
  {
    name: "plot",
    group: "Telemetry",
    summary: "draw a run's reward or metric in the terminal",
    load: () => import("./verbs/telemetry/plot.ts"),
  },
  {
    name: "export",
    group: "Telemetry",
    summary: "write telemetry as JSON Lines, CSV, Parquet, TensorBoard files",
    load: () => import("./verbs/telemetry/export.ts"),
  },
  {
    name: "cancel",
    aliases: ["stop"],
    group: "Control",
    summary: "cancel runs",
    load: () => import("./verbs/control/cancel.ts"),
  },
  {
    name: "pause",
    group: "Control",
    summary: "pause runs",
    load: () => import("./verbs/control/pause.ts"),
  },
  {
    name: "resume",
    group: "Control",
    summary: "resume paused runs",
    load: () => import("./verbs/control/resume.ts"),
  },
  {
    name: "throttle",
    group: "Control",
    summary: "limit runs to a number of steps per second",
    load: () => import("./verbs/control/throttle.ts"),
  },
  {
    name: "retry",
    group: "Control",
    summary: "start another attempt of ended runs",
    load: () => import("./verbs/control/retry.ts"),
  },
  {
    name: "reset",
    group: "Control",
    summary: "stop runs and restart them, from a checkpoint or the beginning",
    load: () => import("./verbs/control/reset.ts"),
  },
  {
    name: "status",
    group: "Host",
    summary: "show the daemon, its host and its GPU slots",
    load: () => import("./verbs/host/status.ts"),
  },
  {
    name: "mcp",
    group: "Host",
    summary: "serve tools to an agent (Model Context Protocol)",
    load: () => import("./verbs/host/mcp.ts"),
  },
  {
    name: "docs",
    group: "Host",
    summary: "read, search or export the manual",
    load: () => import("./verbs/help/docs.ts"),
  },
  {
    name: "skill",
    group: "Host",
    summary: "print a text that teaches an agent this command line",
    load: () => import("./verbs/help/skill.ts"),
  },
  {
    name: "gpus",
    group: "Host",
    summary: "show the GPUs, their runs, and who else uses them",
    load: () => import("./verbs/host/gpus.ts"),
  },
  {
    name: "usage",
    group: "Host",
    summary: "show GPU hours of users and runs, and how much of them was idle",
    load: () => import("./verbs/host/usage.ts"),
  },
  {
    name: "top",
    group: "Host",
    summary: "show runs, GPUs and the host full-screen, live",
    load: () => import("./verbs/host/top.ts"),
  },
  {
    name: "up",
    group: "Host",
    summary: "start a daemon in the background, unless one is running",
  },
  {
    name: "down",
    group: "Host",
    summary: "stop the daemon; its runs continue",
    load: () => import("./verbs/host/down.ts"),
  },
  {
    name: "completions",
    group: "Host",
    summary: "print a shell's completion script",
    load: () => import("./verbs/help/completions.ts"),
  },
  {
    name: "permissions",
    group: "Host",
    summary: "print the Deno permissions that a daemon or proxy needs",
    load: () => import("./verbs/host/permissions.ts"),
  },
  {
    name: "doctor",
    group: "Host",
    summary: "check a state directory, and repair it",
    load: () => import("./verbs/host/doctor.ts"),
  },
  {
    name: "backup",
    group: "Host",
    summary: "copy a state directory, beside its daemon",
    load: () => import("./verbs/host/backup.ts"),
  },
  {
    name: "reindex",
    group: "Host",
    summary: "read a run's log again and store what its telemetry lacks",
    load: () => import("./verbs/host/reindex.ts"),
  },
  {
    name: "sql",
    group: "Host",
    summary: "query the telemetry of all runs in SQL",
    load: () => import("./verbs/telemetry/sql.ts"),
  },
  {
    name: "token",
    group: "Host",
    summary: "create, show, replace and revoke tokens",
    load: () => import("./verbs/host/token.ts"),
  },
  {
    name: "audit",
    group: "Host",
    summary: "show who changed what, and who was refused",
    load: () => import("./verbs/host/audit.ts"),
  },
  {
    name: "python-helper",
    group: "Host",
    summary: "print the Python module that records a training",
    load: () => import("./verbs/host/python_helper.ts"),
  },
  {
    name: "demo",
    group: "Host",
    summary: "run a demo: a daemon and two training runs, 20 seconds",
    load: () => import("./verbs/host/demo.ts"),
  },
  {
    name: "demo-worker",
    group: "Parts",
    summary: "the demo's worker: learns CartPole and prints telemetry",
    load: () => import("./verbs/host/demo_worker.ts"),
  },
  {
    name: "import-worker",
    group: "Parts",
    summary: "an imported run's worker: prints what its files hold",
    load: () => import("./verbs/runs/import_worker.ts"),
  },
  {
    name: "daemon",
    group: "Parts",
    summary: "run the daemon: registry, dispatch, telemetry, status page",
  },
  {
    name: "proxy",
    group: "Parts",
    summary: "run a worker under a proxy that reports to a daemon",
  },
];

export function findVerb(name: string): Verb | undefined {
  return VERBS.find((v) => v.name === name || v.aliases?.includes(name));
}
