import { shareHolds } from "./schedules.ts";

Deno.test("faults: share 5 of the schedules loses nothing, repeats nothing, leaves nothing behind", () =>
  shareHolds(5));
