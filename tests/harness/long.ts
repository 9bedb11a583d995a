/**
 * Whether this run includes all fault schedules, tests that build executables, and large tests in their whole size.
 * `.ci/run` sets it.
 */
export const LONG_TESTS = Deno.env.get("MOSAIC_TEST_LONG") === "1";
