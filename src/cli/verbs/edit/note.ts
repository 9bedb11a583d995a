/** `mosaic note` */
import { MosaicError } from "../../../base/errors.ts";
import { editVerb } from "../../verb/edit_run.ts";

export const define = editVerb({
  description:
    "Writes notes about a run, in Markdown, instead of those it has. `mosaic show` and the page show them.",
  argument: (command) =>
    command.argument("[text...]", 'the notes; "-" reads standard input').option(
      "--clear",
      "remove the notes",
    ),
  examples: [
    ["mosaic note @last 'diverges after 1M steps, see #12'", "write one line"],
    ["cat notes.md | mosaic note @last -", "write the content of a file"],
  ],
  async edit(words, flags, context) {
    const clear = flags["clear"] === true;
    if (clear === words.length > 0) {
      throw new MosaicError(
        "invalid_argument",
        clear ? "--clear goes with no text" : "no text given",
        {
          hint:
            'Give the text, "-" for standard input, or --clear. "mosaic show RUN" prints the notes that it has.',
        },
      );
    }
    const text = words.length === 1 && words[0] === "-"
      ? await context.readInput()
      : words.join(" ");
    return { notes: text.trimEnd() };
  },
  done: (run) => run.notes === "" ? "has no notes" : "has these notes",
});
