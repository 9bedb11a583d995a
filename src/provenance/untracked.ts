/** Which untracked files belong to a run's code: a pure decision by name and size. */
import { isSecretName } from "../base/text/secrets.ts";
import { MOST_DIFF_BYTES, MOST_FILES } from "./bounds.ts";

const MOST_FILE_BYTES = 1 << 20;
/** Files that are given to one command. */
const MOST_TAKEN = 1000;
const MOST_NAME_BYTES = 60_000;

/** Names of files, without their directories, that contain secrets and nothing else. */
const SECRET_FILE =
  /^(?:\.env(?:\..*)?|\.netrc|\.pgpass|\.npmrc|\.pypirc|id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|key|p12|pfx|kdbx|jks))$/i;
/** Text files by their names; others are data of the run until they are tracked. */
const DATA_FILE =
  /\.(?:npy|npz|pt|pth|ckpt|safetensors|pkl|pickle|h5|hdf5|parquet|arrow|zip|gz|zst|xz|tar|tgz|png|jpe?g|gif|mp4|avi|webm|wav|so|o|a|pyc|bin|onnx|sqlite|db)$|(?:^|\/)events\.out\.tfevents\./i;

export interface Untracked {
  path: string;
  bytes: number;
  /** As `stat` names it. */
  kind: string;
}

/** `SIZE KIND PATH` of stat; undefined for another text. */
export function untrackedOf(text: string): Untracked | undefined {
  const [, bytes, kind, path] =
    /^(\d+) (regular empty file|regular file|symbolic link|[a-z ]+?) ([^]+)$/.exec(text) ??
      [];
  return path === undefined || path.includes("\ufffd")
    ? undefined
    : { path, bytes: Number(bytes), kind: kind! };
}

export function chooseUntracked(
  files: readonly Untracked[],
): { taken: string[]; leftOut: { path: string; why: string }[] } {
  const taken: string[] = [];
  const leftOut: { path: string; why: string }[] = [];
  let [bytes, nameBytes] = [0, 0];
  for (const { path, bytes: size, kind } of files) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const why = !kind.startsWith("regular") ? `a ${kind}` : SECRET_FILE.test(name) ||
        isSecretName(name.replace(/\.\w+$/, "")) && !isSource(path)
      ? "its name says that it holds secrets"
      : DATA_FILE.test(path)
      ? "not a text file"
      : size > MOST_FILE_BYTES
      ? `larger than ${MOST_FILE_BYTES >> 20} MiB`
      : bytes + size > MOST_DIFF_BYTES
      ? `more than ${MOST_DIFF_BYTES >> 20} MiB together`
      : taken.length >= MOST_TAKEN || nameBytes + path.length > MOST_NAME_BYTES
      ? "too many untracked files"
      : "";
    if (why === "") {
      taken.push(path);
      bytes += size;
      nameBytes += path.length;
    } else if (leftOut.length < MOST_FILES / 2) leftOut.push({ path, why });
  }
  return { taken, leftOut };
}

/** `tokenizer.py` and `token_env.py` are code. */
export function isSource(path: string): boolean {
  return /\.(?:py|pyi|pyx|ipynb|sh|bash|c|cc|cpp|cu|h|hpp|rs|go|js|ts|jl|lua|r|rb|ya?ml|toml|cfg|ini|json)$/i
    .test(
      path,
    );
}
