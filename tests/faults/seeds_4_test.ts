import { shareHolds } from "./schedules.ts";

Deno.test("faults: share 4 of the schedules loses nothing, repeats nothing, leaves nothing behind", () =>
  shareHolds(4));
