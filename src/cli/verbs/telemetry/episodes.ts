/** `mosaic episodes` */
import { recordsVerb } from "../../verb/telemetry_verb.ts";

export const define = recordsVerb({
  kind: "episodes",
  description:
    "Prints a run's episodes in order of their seq (1, 2, 3 …, without gaps). Without --since, --limit or --tail a table shows the newest 20; the other formats print all.",
  examples: [
    ["mosaic episodes @last", "the newest 20"],
    ["mosaic episodes @last -o csv > episodes.csv", "all episodes, for a spreadsheet"],
    ["mosaic episodes @last -f -o jsonl", "all episodes and new ones, one JSON object per line"],
  ],
});
