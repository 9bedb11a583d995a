/**
 * Copies of a run's code, in a directory that exists: the working tree as it is, or a commit with
 * recorded changes.
 */
import { MosaicError } from "../base/errors.ts";
import { pairsOf, type RunScript, scriptEnvironment } from "./collect.ts";
import { CHECK_OUT, COPY_FILES } from "./collect_script.ts";

export interface Copied {
  /** The top of the repository. */
  root: string;
  /** What is not as it was, in words. */
  notes: string[];
}

type Env = Readonly<Record<string, string | undefined>>;

/**
 * Tracked files as they are now, and `untracked` ones.
 * @throws MosaicError `failed_precondition`: no repository, or files that cannot be copied;
 * ProgramLate
 */
export async function copyFiles(
  to: string,
  untracked: readonly string[],
  env: Env,
  run: RunScript,
): Promise<Copied> {
  return copied(
    pairsOf((await run(COPY_FILES, ["sh", to, ...untracked], scriptEnvironment([], env))).stdout),
  );
}

/**
 * The files of a commit, with a patch applied.
 * @param patch the path of a file; "": none
 * @throws MosaicError `failed_precondition`: no repository, no such commit, or a patch that does
 * not fit; ProgramLate
 */
export async function checkOut(
  commit: string,
  to: string,
  patch: string,
  env: Env,
  run: RunScript,
): Promise<Copied> {
  const found = pairsOf(
    (await run(CHECK_OUT, ["sh", commit, to, patch], scriptEnvironment([], env))).stdout,
  );
  if (found.has("missing")) {
    throw new MosaicError(
      "failed_precondition",
      `commit ${commit} is not in the repository ${found.get("root")?.[0]}`,
      {
        hint: `Fetch it (git fetch origin ${commit}), or name another clone: --repository DIR.`,
      },
    );
  }
  return copied(found);
}

function copied(found: Map<string, string[]>): Copied {
  const [problem] = found.get("problem") ?? [];
  if (problem !== undefined || !found.has("complete")) {
    throw new MosaicError(
      "failed_precondition",
      problem ?? "the repository could not be read to its end",
    );
  }
  const named = (key: string, what: string) => {
    const paths = found.get(key) ?? [];
    return paths.length === 0 ? [] : [`${what}: ${paths.slice(0, 10).join(", ")}`];
  };
  return {
    root: found.get("root")![0]!,
    notes: [
      ...named("submodule", "submodules are not in the copy"),
      ...named("lfs", "files of Git LFS are pointers in the copy"),
    ],
  };
}
