/** `mosaic rename` */
import { editVerb } from "../../verb/edit_run.ts";

export const define = editVerb({
  description: "Gives a run another name. Its id, files and config stay as they are.",
  argument: (command) => command.argument("<name>", "the new name, 1 to 120 characters"),
  examples: [["mosaic rename @last ppo-baseline", "name the newest run ppo-baseline"]],
  edit: (words) => ({ name: words[0]! }),
  done: (run) => `is named ${run.name}`,
});
