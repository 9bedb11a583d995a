import { schedulesHold } from "./schedules.ts";

Deno.test("faults: schedules 21 to 30 lose nothing, repeat nothing, leave nothing behind", () => schedulesHold(21, 10));
