/** `mosaic lineage RUN` */
import type { Command } from "commander";
import {
  type ArtifactUseJson,
  type LineageJson,
  lineageJson,
} from "../../../registry/artifacts/lineage_json.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { escapeControl } from "../../text/text.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { manual } from "../../verb/verb_parser.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows which artifacts of other runs a run has read (mosaic run --uses, mosaic.use_artifact), what those runs had read, " +
        "and which runs have read its own.",
    )
    .argument("<run>", RUN_ARGUMENT);
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic lineage @last", "where its inputs come from"],
          [
            "mosaic lineage cart -o json | jq -r '.used_by[].run_name'",
            "which runs to repeat if this one was wrong",
          ],
        ],
        exits: { 0: "printed", 4: "no such run" },
      }),
    )
    .action(async (run: string, flags: Record<string, unknown>) => {
      using link = await Link.open(context, connectionFlags(flags));
      const { runId, name } = await link.unary(link.methods.getRun, { run });
      const lineage = lineageJson(
        runId,
        name,
        await link.unary(link.methods.getLineage, { run: runId }),
      );
      context.out.write(
        flags["output"] === "json" ? `${JSON.stringify(lineage, null, 2)}\n` : treeOf(lineage),
      );
    });
}

/** Characters of a checksum. */
const SHORT = 12;

export function treeOf({ run_id, run_name, uses, used_by, names }: LineageJson): string {
  const sources = branches(
    uses,
    run_id,
    (use) => use.run_id,
    (use) => use.source_run_id,
    (use) =>
      use.source_run_id === null
        ? `${use.artifact}: not found`
        : `${use.source_run_name}  ${contentText(use)}${use.source_deleted ? "  (deleted)" : ""}`,
  );
  const readers = branches(
    used_by,
    run_id,
    (use) => use.source_run_id,
    (use) => use.run_id,
    (use) => `${use.run_name}  read ${contentText(use)}`,
  );
  const lines = [
    `${run_name} (${run_id})`,
    ...(names.length === 0 ? [] : ["names"]),
    ...names.map(({ name, version, aliases, path }) =>
      `  ${[`${name}:v${version}`, ...aliases].join(", ")}  ${path}`
    ),
    sources.length === 0 ? "uses no artifact of another run" : "uses",
    ...sources,
    readers.length === 0 ? "no run has read its artifacts" : "used by",
    ...readers,
  ];
  return lines.map((line) => `${escapeControl(line)}\n`).join("");
}

function contentText({ path, sha256, artifact, changed }: ArtifactUseJson): string {
  const content = sha256 === "" ? "" : `  ${sha256.slice(0, SHORT)}`;
  return `${path}${content}${artifact.endsWith(`:${path}`) ? "" : `  as ${artifact}`}${
    changed ? "  (has changed since)" : ""
  }`;
}

/** Each run is followed where it comes first. */
function branches(
  uses: readonly ArtifactUseJson[],
  root: string,
  from: (use: ArtifactUseJson) => string | null,
  to: (use: ArtifactUseJson) => string | null,
  text: (use: ArtifactUseJson) => string,
): string[] {
  const followed = new Set<string | null>([root]);
  const below = (run: string | null, depth: number): string[] =>
    uses.filter((use) => from(use) === run).flatMap((use) => {
      const line = `${"  ".repeat(depth)}${text(use)}`;
      if (to(use) === null || followed.has(to(use))) return [line];
      followed.add(to(use));
      return [line, ...below(to(use), depth + 1)];
    });
  return below(root, 1);
}
