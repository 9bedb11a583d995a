/** Shared by the verbs with which people describe a run: edit; rename, tag, note. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Command } from "commander";
import type { EditRequestSchema, Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { type Manual, manual } from "./verb_parser.ts";
import type { Context } from "../link/context.ts";
import { Link } from "../link/daemon_link.ts";
import { connectionFlags, connectionOptions, outputOption, RUN_ARGUMENT } from "./flags.ts";
import { runJsonOf } from "../../runs/fields/run_json.ts";
import { escapeControl } from "../text/text.ts";
import type { VerbModule } from "./verb.ts";

type Flags = Record<string, unknown>;
type Edit = Omit<Exclude<MessageInitShape<typeof EditRequestSchema>, { $typeName: string }>, "run">;

export interface EditVerb extends Pick<Manual, "examples"> {
  description: string;
  /** Adds the verb's own argument and options. */
  argument: (command: Command) => Command;
  /** @throws MosaicError `invalid_argument` */
  edit: (words: string[], flags: Flags, context: Context) => Edit | Promise<Edit>;
  done: (run: Run) => string;
}

export function editVerb(
  { description, argument, examples, edit, done }: EditVerb,
): VerbModule["define"] {
  return (command, context, result) => {
    argument(command.description(description).argument("<run>", RUN_ARGUMENT));
    connectionOptions(outputOption(command, ["table", "json"]))
      .addHelpText("after", manual({ examples, exits: { 0: "written", 4: "no such run" } }))
      .action(async (run: string, ...given: unknown[]) => {
        const flags = command.opts<Flags>();
        // Between the run and what commander adds, the options and the command: the verb's own
        // argument, if it has one.
        const change = await edit(given.slice(0, -2).flat() as string[], flags, context);
        using link = await Link.open(context, connectionFlags(flags));
        const edited = await link.unary(link.methods.editRun, { run, ...change });
        const text = flags["output"] === "json"
          ? JSON.stringify(runJsonOf(edited), null, 2)
          : `${edited.runId}  ${escapeControl(done(edited))}`;
        context.out.write(`${text}\n`);
        result.code = 0;
      });
  };
}
