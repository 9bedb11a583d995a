/** Whether this run takes the long way: all fault schedules, and tests that build executables. `.ci/run` does. */
export const LONG_TESTS = Deno.env.get("MOSAIC_TEST_LONG") === "1";
