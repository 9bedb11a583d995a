/** `mosaic steps` */
import { recordsVerb } from "../telemetry_verb.ts";

export const define = recordsVerb({
  kind: "steps",
  description:
    "Prints a run's steps in the order of their seq, which is contiguous from 1. Without --since, --limit or --tail a " +
    "table shows the newest 20; the other formats give all.",
  examples: [
    ["mosaic steps @last -f", "watch steps arrive"],
    ["mosaic steps @last -o jsonl --since 1000 --limit 500", "steps 1001 to 1500, one JSON object a line"],
    ["mosaic steps @last -o jsonl | jq -s 'map(.reward) | add'", "the sum of all rewards"],
  ],
});
