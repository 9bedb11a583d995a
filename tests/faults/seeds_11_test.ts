import { schedulesHold } from "./schedules.ts";

Deno.test("faults: schedules 11 to 20 lose nothing, repeat nothing, leave nothing behind", () => schedulesHold(11, 10));
