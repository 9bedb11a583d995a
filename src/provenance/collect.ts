/** Looks at a run's code and environment, where its files are and with its worker's rights. */
import { sha256 } from "../base/node_modules.ts";
import { maskCode } from "../base/text/secrets.ts";
import type { ProgramOutput } from "../os/processes/external_program.ts";
import { MOST_DIFF_BYTES, MOST_FILES } from "./bounds.ts";
import type { CodeFile, CodeRecord, EnvironmentRecord } from "./code_record.ts";
import { LOOK, UNTRACKED } from "./collect_script.ts";
import { bytesText, type DiffPart, partsOf, textBytes } from "./diff_parts.ts";
import { packagesOf, withoutCredentials } from "./packages.ts";
import { chooseUntracked, untrackedOf } from "./untracked.ts";

/** Runs `/bin/sh -c SCRIPT WORDS…` in the run's working directory. @throws if it takes too long */
export type RunScript = (
  script: string,
  words: readonly string[],
  env: Record<string, string>,
) => Promise<ProgramOutput>;

export interface Collected {
  code: CodeRecord;
  environment: EnvironmentRecord;
  /** A patch with secrets masked; empty: nothing differs, or there is no repository. */
  diff: Uint8Array;
}

/** The only variables of the run that the scripts get: by them the interpreter is found. */
const PASSED = ["HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_VERSION", "TMPDIR"];
const SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";
const PYTHON_PROGRAM =
  /^(?:python[\d.]*|ipython|uv|poetry|pdm|pixi|conda|torchrun|accelerate|deepspeed|mpirun|mpiexec|ray)$/;
const MOST_TEXT = 4000;

/**
 * @param command the run's program and its arguments
 * @param env the run's variables
 * @throws ProgramLate if the scripts do not answer in their time
 */
export async function collectCode(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  run: RunScript,
  mask: (code: string) => string = maskCode,
): Promise<Collected> {
  const found = pairsOf((await run(LOOK, command, scriptEnvironment(command, env))).stdout);
  const one = (key: string) => found.get(key)?.[0]?.slice(0, MOST_TEXT);
  const all = (key: string) => found.get(key) ?? [];
  const problems = [...all("problem")];
  const root = one("root");
  let git: CodeRecord["git"] = null;
  let diff: Uint8Array = new Uint8Array();
  if (root !== undefined) {
    const untracked = chooseUntracked(all("untracked").flatMap((text) => untrackedOf(text) ?? []));
    const more = untracked.taken.length === 0 ? undefined : pairsOf(
      (await run(UNTRACKED, ["sh", ...untracked.taken], scriptEnvironment(command, env))).stdout,
    );
    const state = changes(one("diff") ?? "", more?.get("diff")?.[0] ?? "", mask);
    diff = state.diff;
    if (all("complete").length === 0 && problems.length === 0) {
      problems.push("the repository could not be read to its end");
    }
    git = {
      root,
      commit: one("commit") || null,
      branch: one("branch") || null,
      remote: one("remote") ? withoutCredentials(one("remote")!) : null,
      files: state.files,
      left_out: [...state.leftOut, ...untracked.leftOut].slice(0, MOST_FILES),
      masked: state.masked,
      diff_sha256: state.sha256,
    };
  }
  const { packages, sources } = packagesOf(all("package"), all("conda"), all("url"));
  const python = one("python");
  return {
    code: {
      cwd: one("cwd") ?? "",
      git,
      words: all("file").map((text) => ({
        sha256: text.slice(0, 64),
        path: text.slice(65).slice(0, MOST_TEXT),
      })),
      problems,
    },
    environment: {
      host: one("host") ?? "",
      kernel: one("kernel") ?? "",
      driver: /\b\d{3,4}\.\d+(?:\.\d+)?\b/.exec(one("driver") ?? "")?.[0] ?? null,
      cuda: /"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([^"]+)"/.exec(one("cuda") ?? "")?.[1] ?? null,
      interpreter: python === undefined ? null : {
        path: python,
        version: /^version(?:_info)?\s*=\s*(\S+)/m.exec(one("venv") ?? "")?.[1] ??
          packages.find(([name]) => name === "python")?.[1] ??
          /\/(?:versions\/)?(\d+\.\d+\.\d+)\/bin\//.exec(one("real_python") ?? "")?.[1] ??
          /python(\d\.\d+)$/.exec(one("real_python") ?? "")?.[1] ?? null,
      },
      packages,
      sources,
    },
    diff,
  };
}

/** Nothing is known of a shell's `sleep 60`, so nothing is stored. */
export function tellsSomething({ code, environment }: Collected): boolean {
  return code.git !== null || code.words.length > 0 || environment.interpreter !== null;
}

export function scriptEnvironment(
  command: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const program = (command[0] ?? "").replace(/^.*\//, "");
  const isPython = PYTHON_PROGRAM.test(program) ||
    command.some((word) => /\.(?:py|ipynb)$/.test(word)) ||
    env.VIRTUAL_ENV !== undefined || env.CONDA_PREFIX !== undefined;
  return {
    ...Object.fromEntries(
      PASSED.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]!]]),
    ),
    PATH: env.PATH ? `${SYSTEM_PATH}:${env.PATH}` : SYSTEM_PATH,
    MOSAIC_PATH: env.PATH || SYSTEM_PATH,
    MOSAIC_PYTHON: isPython ? "1" : "0",
  };
}

/** Values by their keys, in order. */
export function pairsOf(stdout: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const texts = stdout.split("\0");
  for (let i = 0; i + 1 < texts.length; i += 2) {
    const values = found.get(texts[i]!);
    if (values === undefined) found.set(texts[i]!, [texts[i + 1]!]);
    else values.push(texts[i + 1]!);
  }
  return found;
}

interface Changes {
  files: CodeFile[];
  leftOut: { path: string; why: string }[];
  masked: string[];
  sha256: string | null;
  diff: Uint8Array;
}

/** The parts of two diffs (base64), in order, as far as there is room for them. */
function changes(tracked: string, untracked: string, mask: (code: string) => string): Changes {
  const files: CodeFile[] = [];
  const leftOut: Changes["leftOut"] = [];
  const masked: string[] = [];
  const texts: string[] = [];
  const whole = sha256();
  let bytes = 0;
  const take = (part: DiffPart, isUntracked: boolean, isCut: boolean) => {
    whole.update(part.text, "latin1");
    if (part.binary) return void leftOut.push({ path: part.path, why: "not a text file" });
    bytes += part.text.length;
    if (isCut || bytes > MOST_DIFF_BYTES || files.length >= MOST_FILES) {
      return void leftOut.push({
        path: part.path,
        why: `the changes are larger than ${MOST_DIFF_BYTES >> 20} MiB`,
      });
    }
    const text = mask(part.text);
    if (text !== part.text) masked.push(part.path);
    texts.push(text);
    files.push({
      path: part.path,
      change: isUntracked ? "untracked" : part.change,
      sha256: sha256Of(part.text),
    });
  };
  for (const [encoded, isUntracked] of [[tracked, false], [untracked, true]] as const) {
    const text = bytesText(Uint8Array.fromBase64(encoded.length % 4 === 0 ? encoded : ""));
    const parts = partsOf(text);
    const cut = text.length > MOST_DIFF_BYTES ? parts.length - 1 : parts.length;
    parts.forEach((part, i) => take(part, isUntracked, i >= cut));
  }
  const changed = files.length + leftOut.length > 0;
  return {
    files,
    leftOut,
    masked,
    sha256: changed ? whole.digest("hex") : null,
    diff: textBytes(texts.join("")),
  };
}

export function sha256Of(latin1: string): string {
  return sha256().update(latin1, "latin1").digest("hex");
}
