/**
 * What is recorded of a run's code and environment, at its submission (attempt 0) and at the start
 * of each attempt.
 */
import { z } from "zod";
import { MosaicError } from "../base/errors.ts";
import { MOST_FILES } from "./bounds.ts";

const text = (most = 4096) => z.string().max(most);
const sha256 = () => z.string().regex(/^[0-9a-f]{64}$/);

const CodeFile = z.object({
  /** Below the repository's top. */
  path: text(),
  change: z.enum(["modified", "added", "deleted", "untracked"]),
  /** Of its part of the diff, before secrets were masked. */
  sha256: sha256(),
});

const GitState = z.object({
  root: text(),
  /** null: the repository has no commit. */
  commit: z.string().regex(/^[0-9a-f]{40,64}$/).nullable(),
  branch: text().nullable(),
  /** Without credentials. */
  remote: text().nullable(),
  /** Files that differ from the commit, and are in the diff. */
  files: z.array(CodeFile).max(MOST_FILES),
  /** Files that differ and are not in the diff, and why. */
  left_out: z.array(z.object({ path: text(), why: text() })).max(MOST_FILES),
  /** Files in whose part of the diff secrets were replaced. */
  masked: z.array(text()).max(MOST_FILES),
  /** Of the whole diff before secrets were masked; null: nothing differs. */
  diff_sha256: sha256().nullable(),
});

export const CodeRecord = z.object({
  cwd: text(),
  git: GitState.nullable(),
  /** Files that the command names. */
  words: z.array(z.object({ path: text(), sha256: sha256() })).max(200),
  /** What could not be found out, and why. */
  problems: z.array(text()).max(20),
});

export const EnvironmentRecord = z.object({
  host: text(),
  kernel: text(),
  /** NVIDIA's driver; null: none. */
  driver: text().nullable(),
  cuda: text().nullable(),
  interpreter: z.object({ path: text(), version: text().nullable() }).nullable(),
  /** Name and version, sorted by name. */
  packages: z.array(z.tuple([text(200), text(200)])).max(6000),
  /** Packages that were installed from a directory or an address, by name. */
  sources: z.record(text(200), text()),
});

export type CodeFile = z.infer<typeof CodeFile>;
export type GitState = z.infer<typeof GitState>;
export type CodeRecord = z.infer<typeof CodeRecord>;
export type EnvironmentRecord = z.infer<typeof EnvironmentRecord>;

export interface AttemptsCode {
  /** 0: at the submission. */
  attempt: number;
  /** Unix milliseconds. */
  at: number;
  code: CodeRecord;
  environment: EnvironmentRecord;
  /** A patch; empty unless it was asked for. */
  diff: Uint8Array;
}

/** @throws MosaicError `invalid_argument` that names the field */
export function checkedCode(json: string): CodeRecord {
  return checked("code_json", CodeRecord, json);
}

/** @throws MosaicError `invalid_argument` that names the field */
export function checkedEnvironment(json: string): EnvironmentRecord {
  return checked("environment_json", EnvironmentRecord, json);
}

function checked<T>(field: string, schema: z.ZodType<T>, json: string): T {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new MosaicError("invalid_argument", `${field} is not JSON`, { cause: error });
  }
  const { data, error } = schema.safeParse(value);
  if (data !== undefined) return data;
  const { path, message } = error!.issues[0]!;
  throw new MosaicError("invalid_argument", `${field}: ${path.join(".") || "it"}: ${message}`);
}
