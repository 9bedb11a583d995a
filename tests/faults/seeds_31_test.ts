import { schedulesHold } from "./schedules.ts";

Deno.test("faults: schedules 31 to 40 lose nothing, repeat nothing, leave nothing behind", () => schedulesHold(31, 10));
