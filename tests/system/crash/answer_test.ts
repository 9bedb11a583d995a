import { crashesLeaveNothingWrong } from "./crash_point.ts";
import { tracedTest } from "./tracing.ts";

tracedTest(
  "crash between a commit and its answer: what was stored and not acknowledged is not stored again",
  () =>
    crashesLeaveNothingWrong(
      // The answer to the submission is among the first; the acknowledgements of batches and of the
      // exit follow.
      { call: "sendto", when: 2 },
      { call: "sendto", when: 8 },
      { call: "sendto", when: 14 },
      { call: "sendto", when: 21 },
    ),
);
