/** What a record of code may contain at most. */

/** Of the differences to the commit, untracked files included. */
export const MOST_DIFF_BYTES = 5 << 20;
/** Files of which a record tells something; the others are counted. */
export const MOST_FILES = 2000;
/** JSON of a record, and of an environment. */
export const MOST_RECORD_BYTES = 4 << 20;
