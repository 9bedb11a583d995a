/** `mosaic steps` */
import { recordsVerb } from "../../verb/telemetry_verb.ts";

export const define = recordsVerb({
  kind: "steps",
  description:
    "Prints a run's steps in order of their seq (1, 2, 3 …, without gaps). Without --since, --limit or --tail a table shows the newest 20; the other formats print all.",
  examples: [
    ["mosaic steps @last -f", "the newest 20, then new steps as they arrive"],
    [
      "mosaic steps @last -o jsonl --since 1000 --limit 500",
      "steps 1001 to 1500, one JSON object per line",
    ],
    ["mosaic steps @last -o jsonl | jq -s 'map(.reward) | add'", "the sum of all rewards"],
  ],
});
