/**
 * A repository of a test, with a learner whose curve depends on its code, its arguments and nothing
 * else.
 */
export interface Repository extends AsyncDisposable {
  directory: string;
  write(path: string, text: string): void;
  git(...args: string[]): string;
}

/** Also in a directory whose user has a config of git. */
const GIT_ENV = {
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  ...{
    GIT_AUTHOR_NAME: "a",
    GIT_AUTHOR_EMAIL: "a@example.org",
    GIT_COMMITTER_NAME: "a",
    GIT_COMMITTER_EMAIL: "a@example.org",
  },
};

export function repository(): Repository {
  const directory = Deno.realPathSync(Deno.makeTempDirSync({ prefix: "mosaic-repository-" }));
  const git = (...args: string[]) => {
    const { code, stdout, stderr } = new Deno.Command("git", { args, cwd: directory, env: GIT_ENV })
      .outputSync();
    const decoder = new TextDecoder();
    if (code !== 0) throw new Error(`git ${args.join(" ")}: ${decoder.decode(stderr)}`);
    return decoder.decode(stdout).trim();
  };
  git("init", "-q", "-b", "main", ".");
  return {
    directory,
    git,
    write(path, text) {
      const full = `${directory}/${path}`;
      Deno.mkdirSync(full.slice(0, full.lastIndexOf("/")), { recursive: true });
      Deno.writeTextFileSync(full, text);
    },
    async [Symbol.asyncDispose]() {
      await Deno.remove(directory, { recursive: true });
    },
  };
}

/**
 * A seeded search for 3.0 in sh and awk: prints a JSON line a step. `OPTIMUM` is in a file of its
 * own.
 */
export const LEARNER = `#!/bin/sh
# learn.sh --lr LR --seed SEED
. ./target.sh
exec awk -v lr="$2" -v seed="$4" -v optimum="$OPTIMUM" 'BEGIN {
  srand(seed); w = 0
  for (i = 0; i < 12; i++) {
    w += lr * (optimum - w) + 0.01 * (rand() - 0.5)
    printf "{\\"step\\":%d,\\"w\\":%.17g}\\n", i, w
  }
}'
`;
