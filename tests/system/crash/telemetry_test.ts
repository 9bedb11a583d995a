import { crashesLeaveNothingWrong } from "./crash_point.ts";
import { tracedTest } from "./tracing.ts";

const path = "telemetry/mosaic.sqlite-wal";

tracedTest(
  "crash before, in the middle of and after the commit of a batch: no record is lost, none is stored twice",
  () =>
    crashesLeaveNothingWrong(
      { call: "pwrite64", path, when: 1 },
      { call: "pwrite64", path, when: 8 },
      { call: "pwrite64", path, when: 13 },
      { call: "pwrite64", path, when: 20 },
    ),
);
