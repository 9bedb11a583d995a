import { schedulesHold } from "./schedules.ts";

Deno.test("faults: schedules 1 to 10 lose nothing, repeat nothing, leave nothing behind", () => schedulesHold(1, 10));
