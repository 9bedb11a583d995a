import { shareHolds } from "./schedules.ts";

Deno.test("faults: share 2 of the schedules loses nothing, repeats nothing, leaves nothing behind", () =>
  shareHolds(2));
