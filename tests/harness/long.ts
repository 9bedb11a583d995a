/** Whether this run includes all fault schedules, tests that build executables, and the whole size of tests that are large. `.ci/run` sets it. */
export const LONG_TESTS = Deno.env.get("MOSAIC_TEST_LONG") === "1";
