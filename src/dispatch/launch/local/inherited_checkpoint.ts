/**
 * The copy of another run's checkpoint with which a run begins (metadata.resume_from). It is made
 * before the first attempt starts, with the rights of the run: the other run may go on, and replace
 * or remove its checkpoint at any time. A daemon that dies meanwhile leaves no half copy under the
 * name that the program gets.
 */
import { messageOf } from "../../../base/errors.ts";
import { outputOfUser } from "../../../os/rights/user_shell.ts";
import type { WorkerUser } from "../../../os/rights/worker_user.ts";

/** Checkpoints of large models on slow disks. */
const COPY_SECONDS = 1800;

/**
 * Copies again if the checkpoint has changed meanwhile: half of an old and half of a new one fits
 * no program.
 */
const SCRIPT = `
look() { find "$0" -exec stat -c '%n %s %y' {} + 2>/dev/null | sort; }
[ -e "$1" ] && { echo there; exit 0; }
[ -e "$0" ] || { echo "it is not there, or the run's user may not see it"; exit 0; }
mkdir -p -- "\${1%/*}" || exit 1
for _ in 1 2 3; do
  before=$(look)
  rm -rf -- "$1.part"
  timeout ${COPY_SECONDS} cp -R -p -- "$0" "$1.part" || { rm -rf -- "$1.part"; exit 1; }
  if [ "$before" = "$(look)" ]; then mv -- "$1.part" "$1" && echo there; exit; fi
done
rm -rf -- "$1.part"
echo "it changes while it is copied"
`;

/** Where the copy is, in the run's directory. */
export function inheritedPath(directory: string, resumeFrom: string): string {
  const path = resumeFrom.replace(/\/+$/, "");
  return `${directory}/checkpoints/inherited/${path.slice(path.lastIndexOf("/") + 1)}`;
}

/** @returns why there is no copy, one sentence; undefined: it is there */
export async function copyCheckpoint(
  resumeFrom: string,
  directory: string,
  user: WorkerUser | undefined,
): Promise<string | undefined> {
  let said: string | undefined;
  try {
    const words = [resumeFrom, inheritedPath(directory, resumeFrom)] as const;
    said = (await outputOfUser(user, (COPY_SECONDS + 60) * 1000, SCRIPT, ...words))?.trim();
  } catch (error) {
    said = messageOf(error);
  }
  if (said === "there") return undefined;
  return `metadata.resume_from: ${resumeFrom} cannot be copied: ${
    said || "the disk may be full, or unreadable for its user"
  }`;
}
