import { crashesLeaveNothingWrong } from "./crash_point.ts";
import { tracedTest } from "./tracing.ts";

const path = "trainer/registry.db-wal";

tracedTest(
  "crash in the middle of a commit of the registry: of a submission, of a start, of a registration, of an end",
  () =>
    crashesLeaveNothingWrong(
      { call: "pwrite64", path, when: 18 },
      { call: "pwrite64", path, when: 40 },
      { call: "pwrite64", path, when: 62 },
      { call: "pwrite64", path, when: 95 },
    ),
);
