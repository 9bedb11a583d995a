/**
 * Characters of a run's name at most. Apart from the schema, so that the command line knows it
 * without a library.
 */
export const LONGEST_RUN_NAME = 120;
