/** Whether this run includes all fault schedules, and tests that build executables. `.ci/run` sets it. */
export const LONG_TESTS = Deno.env.get("MOSAIC_TEST_LONG") === "1";
