/**
 * Whether this run has 30 fault schedules instead of 15, the full sizes of tests whose sizes
 * matter, and the tests that build executables. `.ci/run` sets it.
 */
export const LONG_TESTS = Deno.env.get("MOSAIC_TEST_LONG") === "1";
