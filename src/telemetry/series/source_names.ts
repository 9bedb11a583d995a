/** Names of series that several sources call the same. Pure. */

/** Label of points that the worker printed. */
export const JOURNAL_LABEL = "stdout";

/**
 * What a source is, without what differs between the runs of a sweep: seeds, trials, times and
 * hosts in a directory's name have digits. A role (`train`, `validation`), a tracker and a table's
 * name have none.
 */
export function roleOf(label: string): string {
  if (label === "") return JOURNAL_LABEL;
  const last = label.split("/").at(-1)!;
  if (/\.\w{1,8}$/.test(last) && !/\d/.test(last)) return last;
  return /\d/.test(last) ? "tensorboard" : last;
}

/**
 * Whether the source is one curve of several that a program gives one name: `add_scalars("loss",
 * {"train": …})` writes the directory `loss_train`. Then none of them has the plain name, whichever
 * is read first.
 */
export function isOneOfSeveral(name: string, label: string): boolean {
  return label.slice(label.lastIndexOf("/") + 1).startsWith(`${name.replaceAll("/", "_")}_`);
}

const MOST_ALIKE = 64;

/**
 * The name of a series beside the one that has the plain name.
 * @param isFree whether a name has no series, or one of this source
 */
export function nameBeside(name: string, label: string, isFree: (name: string) => boolean): string {
  const role = roleOf(label);
  for (let i = 1; i <= MOST_ALIKE; i++) {
    const beside = `${name}@${role}${i === 1 ? "" : `-${i}`}`;
    if (isFree(beside)) return beside;
  }
  return `${name}@${label}`;
}
