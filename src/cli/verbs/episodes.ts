/** `mosaic episodes` */
import { recordsVerb } from "../telemetry_verb.ts";

export const define = recordsVerb({
  kind: "episodes",
  description:
    "Prints a run's episodes in the order of their seq, which is contiguous from 1. Without --since, --limit or --tail " +
    "a table shows the newest 20; the other formats give all.",
  examples: [
    ["mosaic episodes @last", "the newest 20"],
    ["mosaic episodes @last -o csv > episodes.csv", "all, for a spreadsheet"],
    ["mosaic episodes @last -f -o jsonl", "all, and those to come, one JSON object a line"],
  ],
});
