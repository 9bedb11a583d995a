/** `mosaic artifact` */
import { Argument, type Command } from "commander";
import { bytes } from "../../../base/text/format.ts";
import { type NamedArtifactJson, namedJson } from "../../../registry/artifacts/lineage_json.ts";
import type { Context } from "../../link/context.ts";
import { Link } from "../../link/daemon_link.ts";
import { type Column, table } from "../../text/table.ts";
import { connectionFlags, connectionOptions, outputOption } from "../../verb/flags.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";

const ACTIONS = ["name", "list", "path"] as const;

const COLUMNS: Column<NamedArtifactJson>[] = [
  { name: "artifact", text: ({ name, version }) => `${name}:v${version}` },
  { name: "aliases", text: ({ aliases }) => aliases.join(",") },
  { name: "run", text: ({ run_id, run_name }) => run_name ?? `${run_id} (deleted)` },
  { name: "path", shrinkTo: 20, text: ({ path }) => path },
  { name: "size", align: "right", text: ({ bytes: size }) => bytes(size) },
  { name: "sha256", text: ({ sha256 }) => sha256.slice(0, 12) },
  { name: "file", text: ({ file }) => file === null ? "gone" : "there" },
];

export function define(command: Command, context: Context): void {
  command
    .description(
      "Names contents of artifacts, without copying them: of one name, each content is a version, and an alias such as best is " +
        "moved from one to another. Wherever an artifact is asked for, give RUN:PATH, NAME:ALIAS, NAME:v3, or NAME for the newest.",
    )
    .addArgument(oneOf(new Argument("<what>", "action"), ACTIONS))
    .argument("[artifact]", "RUN:PATH or NAME:ALIAS; for list, a name")
    .argument("[name]", "its name, which may end with aliases: policy:best,stable");
  connectionOptions(outputOption(command, ["table", "json"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          [
            "mosaic artifact name cart:checkpoints/best.pt policy:best",
            "its content is a version of policy, and the best",
          ],
          ["mosaic artifact list policy", "all versions"],
          ["cp $(mosaic artifact path policy:best) .", "the file with the content"],
        ],
        exits: {
          0: "done",
          4: "no such run, artifact or version",
          6: "no run has the content, or its checksum is not known",
        },
      }),
    )
    .action(
      async (
        what: typeof ACTIONS[number],
        artifact: string | undefined,
        name: string | undefined,
        flags: Record<string, unknown>,
      ) => {
        const required = (value: string | undefined, which: string) =>
          value ?? command.error(`"artifact ${what}" needs ${which}`);
        if (what !== "name" && name !== undefined) command.error(`unexpected argument "${name}"`);
        const isJson = flags["output"] === "json";
        using link = await Link.open(context, connectionFlags(flags));
        if (what === "path") {
          const found = await link.unary(link.methods.getNamedArtifact, {
            artifact: required(artifact, "an artifact"),
          });
          context.out.write(isJson ? `${JSON.stringify(found.file)}\n` : `${found.file}\n`);
          return;
        }
        const named = what === "list"
          ? (await link.unary(link.methods.listNamedArtifacts, { name: artifact ?? "" })).artifacts
          : [
            await link.unary(link.methods.nameArtifact, {
              artifact: required(artifact, "an artifact"),
              ...nameOf(required(name, "a name")),
            }),
          ];
        const rows = named.map(namedJson);
        const { color, width } = context.terminal;
        context.out.write(
          isJson
            ? `${JSON.stringify(rows, null, 2)}\n`
            : rows.length === 0
            ? "No artifact has a name.\n"
            : table(COLUMNS, rows, { color, width }),
        );
      },
    );
}

/** "policy:best,stable" */
function nameOf(text: string): { name: string; aliases: string[] } {
  const [name = "", ...aliases] = text.split(/:(.*)/s).slice(0, 2);
  return { name, aliases: aliases.join("").split(",").filter((alias) => alias !== "") };
}
