/** `mosaic edit` */
import { MosaicError } from "../../../base/errors.ts";
import { editVerb } from "../../verb/edit_run.ts";
import { repeated } from "../../verb/flags.ts";

export const define = editVerb({
  description:
    "Changes what people say about a run: its name, its tags, and its notes in Markdown. Its id, files and config stay as " +
    "they are.",
  argument: (command) =>
    command
      .option("-n, --name <name>", "the new name, 1 to 120 characters")
      .option("-t, --tag <tag>", "add this tag (repeatable)", repeated)
      .option("--remove-tag <tag>", "remove this tag (repeatable)", repeated)
      .option(
        "--note <text>",
        'the notes, instead of those it has; "-" reads standard input, "" removes them',
      ),
  examples: [
    ["mosaic edit @last --name ppo-baseline", "name the newest run ppo-baseline"],
    ["mosaic edit @last -t baseline --remove-tag draft", "add one tag, remove another"],
    [
      "mosaic edit @last --note 'diverges after 1M steps, see #12'",
      "write notes; mosaic show prints them",
    ],
    ["cat notes.md | mosaic edit @last --note -", "write the content of a file"],
  ],
  async edit(_words, { name, tag, removeTag, note }, context) {
    if ([name, tag, removeTag, note].every((given) => given === undefined)) {
      throw new MosaicError("invalid_argument", "nothing to change was given", {
        hint: "Give --name, --tag, --remove-tag or --note.",
      });
    }
    const notes = note === "-" ? await context.readInput() : note as string | undefined;
    return {
      ...(name === undefined ? {} : { name: String(name) }),
      addTags: (tag ?? []) as string[],
      removeTags: (removeTag ?? []) as string[],
      ...(notes === undefined ? {} : { notes: notes.trimEnd() }),
    };
  },
  done: ({ name, tags, notes }) =>
    [
      `is named ${name}`,
      tags.length === 0 ? "" : `tags ${tags.join(", ")}`,
      notes === "" ? "" : "has notes",
    ]
      .filter((text) => text !== "").join("; "),
});
