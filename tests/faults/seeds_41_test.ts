import { schedulesHold } from "./schedules.ts";

Deno.test("faults: schedules 41 to 50 lose nothing, repeat nothing, leave nothing behind", () => schedulesHold(41, 10));
