/** `mosaic tag` */
import { MosaicError } from "../../../base/errors.ts";
import { editVerb } from "../../verb/edit_run.ts";
import { repeated } from "../../verb/flags.ts";

export const define = editVerb({
  description:
    "Adds tags to a run, or removes some. `mosaic list --tag TAG` lists the runs that have a tag.",
  argument: (command) =>
    command.argument("[tag...]", "tags to add").option(
      "--remove <tag>",
      "remove this tag (repeatable)",
      repeated,
    ),
  examples: [
    ["mosaic tag @last baseline paper", "add two tags"],
    ["mosaic tag 01K9ZQ --remove paper", "remove one"],
  ],
  edit(words, flags) {
    const removeTags = (flags["remove"] ?? []) as string[];
    if (words.length + removeTags.length === 0) {
      throw new MosaicError("invalid_argument", "no tag given", {
        hint: "Name tags to add, or --remove TAG.",
      });
    }
    return { addTags: words, removeTags };
  },
  done: (run) => run.tags.length === 0 ? "has no tags" : `has the tags ${run.tags.join(", ")}`,
});
