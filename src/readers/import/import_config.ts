/** Builds the config of an imported run. Pure. */
import { LONGEST_TAG } from "../../base/field_limits.ts";
import { LONGEST_RUN_NAME } from "../../base/run_name.ts";
import { baseName } from "./read.ts";
import type { ScannedRun } from "./scan.ts";

/** Directory names that identify a run only together with the parent directory's name. */
const SAYS_LITTLE =
  /^(?:version_\d+|run_?\d+|\d+(?:\.\d+)*|train|validation|val|test|eval|logs?|runs?|tb|tensorboard|files)$/i;

const cut = (text: string, length: number) => [...text].slice(0, length).join("");

/**
 * The tracker's own name, else the directory's, with its parent's if it does not identify the run
 * alone.
 */
function runNameOf({ directory, tracker }: Pick<ScannedRun, "directory" | "tracker">): string {
  if (tracker.name !== "") return cut(tracker.name, LONGEST_RUN_NAME);
  const parts = directory.split("/").filter((part) => part !== "");
  const name = parts.at(-1) ?? "imported";
  const above = parts.at(-2);
  return cut(
    SAYS_LITTLE.test(name) && above !== undefined ? `${above}/${name}` : name,
    LONGEST_RUN_NAME,
  );
}

export function importConfig(
  run: ScannedRun,
  options: {
    name?: string | undefined;
    tags: readonly string[];
    /** The run that it is within, and as what. */
    within?: { run: string; name: string; place: string; placeName: string } | undefined;
  },
): Record<string, unknown> {
  const { within } = options;
  const { id, name, project, group, tags } = run.tracker;
  const known = Object.entries({ id, name, project, group }).filter(([, value]) => value !== "");
  const own = tags.filter((tag) => tag !== "").map((tag) => cut(tag, LONGEST_TAG));
  return {
    run_name: within === undefined
      ? options.name ?? runNameOf(run)
      : cut(`${within.name}/${within.placeName}`, LONGEST_RUN_NAME),
    entry_point: "mosaic:import-worker",
    arguments: run.files,
    environment: {},
    resources: { cpus: 1, memory_mb: 256, gpus: { requested: 0, mandatory: false } },
    artifacts: {},
    metadata: {
      tags: [...new Set(["imported", ...options.tags, ...own])],
      parameters: run.parameters,
      imported: {
        directory: run.directory,
        files: run.files.map(baseName),
        ...(within === undefined ? {} : { within: { run: within.run, place: within.place } }),
        ...(known.length === 0 ? {} : { tracker: Object.fromEntries(known) }),
      },
    },
  };
}
