/**
 * What `mosaic rerun` submits: the run's config with other parameters, and with --at-commit its
 * code.
 */
import { resolve } from "node:path";
import { MosaicError } from "../../base/errors.ts";
import { readConfig } from "../../config/config.ts";
import { type JsonObject, toPlain, writeJson } from "../../config/lossless_json.ts";
import { baseDirOf } from "../../config/prepare.ts";
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import {
  changesSince,
  type PackageDifference,
  packageDifferences,
} from "../../provenance/changes.ts";
import type { AttemptsCode, EnvironmentRecord, GitState } from "../../provenance/code_record.ts";
import { collectCode, type Collected, type RunScript } from "../../provenance/collect.ts";
import { checkOut } from "../../provenance/copy_code.ts";
import { commandWords } from "../../runs/command_words.ts";
import { escapeControl } from "../text/text.ts";
import type { Context } from "../link/context.ts";
import type { Link } from "../link/daemon_link.ts";
import { isThere, makeCopy } from "./code_copy.ts";
import { fetchCode } from "./fetch_code.ts";
import {
  configObject,
  moveConfig,
  objectIn,
  seedName,
  setParameters,
} from "../../runs/moved_config.ts";
import { copiedOf, leaveCopy, renew } from "../../runs/repeated_config.ts";
import { editable, noteCopy } from "./snapshot.ts";
import { collect } from "./submitted_code.ts";

export interface Repetition {
  settings: readonly [string, string][];
  seed: string | undefined;
  name: string | undefined;
  atCommit: boolean;
  /** Another clone. */
  repository: string | undefined;
  /** Also if part of the code is not recorded. */
  incomplete: boolean;
  /** Nothing will be submitted. */
  isDry: boolean;
  /** The daemon is on this host. */
  here: boolean;
}

const LOOK_MS = 10_000;
const MOST_SHOWN = 15;

/**
 * @throws MosaicError `invalid_argument` for a parameter, `failed_precondition` if the code cannot
 * be had again
 */
export async function repeatRun(context: Context, link: Link, run: Run, how: Repetition) {
  const say = (text: string) => context.err.write(`mosaic: ${escapeControl(text)}\n`);
  const config = configObject(run.configJson);
  const known = run.parameters.map(({ name }) => name);
  const seed: [string, string][] = how.seed === undefined ? [] : [[seedName(known), how.seed]];
  setParameters(config, [...how.settings, ...seed], known);
  renew(config, run.runId, how.name);
  const worker = objectIn(objectIn(config, "metadata"), "worker");
  const records = await fetchCode(link, run.runId, how.atCommit);
  const { from, to } = copiedOf(config);
  const text = () => writeJson(config, { nonFinite: "bare" });
  if (!how.atCommit) {
    leaveCopy(config);
    const [first] = records;
    if (how.here && first !== undefined) {
      const cwd = String(worker.get("cwd"));
      const now = await collect(context, {
        command: commandWords(toPlain(config)),
        env: environmentOf(config),
        cwd,
      });
      const changed = now === undefined ? [] : changesSince(
        (records.findLast(({ code }) => code.cwd === now.code.cwd) ?? first).code,
        now.code,
      );
      if (changed.length > 0) {
        say(`the code is not the one that ran (${shown(changed)}); --at-commit starts that one`);
      }
      if (now !== undefined) sayPackages(say, first.environment, now.environment);
    }
    return { configJson: text(), options: {} };
  }
  if (!how.here) {
    throw cannot(
      "--at-commit makes a copy on this host, and the daemon is on another",
      "Leave --target out.",
    );
  }
  const { record, git } = recordOf(records);
  const cwd = how.repository === undefined ? git.root : resolve(how.repository);
  if (!isThere(cwd)) {
    throw cannot(
      `the repository ${cwd} is not there any more`,
      "Name another clone: --repository DIR.",
    );
  }
  const env = { HOME: context.env("HOME"), PATH: context.env("PATH"), ...environmentOf(config) };
  const patch = await patchOf(context, record, git, env, how.incomplete, say);
  if (how.isDry) return { configJson: text(), options: {} };
  const base = baseDirOf(readConfig(text()).config);
  const copy = await makeCopy(context, link, base, cwd, async (place, script, runDirectory) => {
    const file = patch.length === 0 ? "" : `${runDirectory}/code.patch`;
    if (file !== "") Deno.writeFileSync(file, patch, { mode: 0o600 });
    try {
      return await checkOut(git.commit!, place, file, env, script);
    } finally {
      if (file !== "") Deno.removeSync(file);
    }
  });
  if (from !== undefined && to !== undefined) moveConfig(config, to, git.root, () => true);
  moveConfig(config, git.root, copy.directory, isThere);
  noteCopy(config, { ...copy, root: git.root });
  const now = await collect(context, {
    command: commandWords(toPlain(config)),
    env: environmentOf(config),
    cwd,
  });
  for (const note of [...copy.notes, ...editable(now, git.root)]) say(note);
  if (now !== undefined) sayPackages(say, record.environment, now.environment);
  const found: Collected = {
    code: record.code,
    environment: now?.environment ?? record.environment,
    diff: record.diff,
  };
  return { configJson: text(), options: { copy, found: Promise.resolve(found) } };
}

function cannot(why: string, hint: string): MosaicError {
  return new MosaicError("failed_precondition", why, { hint });
}

function environmentOf(config: JsonObject): Record<string, string> {
  const environment = config.get("environment");
  return environment instanceof Map ? toPlain(environment) as Record<string, string> : {};
}

/**
 * What ran: the newest record of the repository; that of the submission for a run that had a copy.
 */
function recordOf(records: readonly AttemptsCode[]): { record: AttemptsCode; git: GitState } {
  const of = records.map((record) => ({ record, git: record.code.git }));
  const root = of[0]?.git?.root;
  const newest = of.findLast(({ git }) => git !== null && git.root === root);
  if (newest?.git == null) {
    throw cannot(
      records.length === 0
        ? "nothing is recorded of the run's code"
        : "the run did not start in a git repository",
      "Without --at-commit it starts with the code that is there now.",
    );
  }
  if (newest.git.commit === null) {
    throw cannot("the run's repository had no commit", "Commit first; then runs can be repeated.");
  }
  return { record: newest.record, git: newest.git };
}

/**
 * The changes to the commit. If secrets in them are masked, the working tree may still have them.
 * @throws MosaicError `failed_precondition` if part of them is not recorded
 */
async function patchOf(
  context: Context,
  record: AttemptsCode,
  git: GitState,
  env: Record<string, string | undefined>,
  incomplete: boolean,
  say: (text: string) => void,
): Promise<Uint8Array<ArrayBuffer>> {
  const patch = new Uint8Array(record.diff);
  const missing = git.left_out.map(({ path, why }) => `${path} (${why})`);
  if (git.masked.length === 0 && missing.length === 0) return patch;
  const now = git.masked.length === 0 ? undefined : await unmasked(context, record, env);
  const same = now !== undefined && now.code.git?.commit === git.commit &&
    now.code.git.diff_sha256 === git.diff_sha256;
  const lacks = [
    ...(git.masked.length === 0 || same ? [] : [`secrets were masked in ${shown(git.masked)}`]),
    ...(missing.length === 0 ? [] : [`not recorded: ${shown(missing)}`]),
  ].join("; ");
  if (lacks !== "" && !incomplete) {
    throw cannot(
      `not all of the code that ran can be had again: ${lacks}`,
      "--incomplete starts what is recorded.",
    );
  }
  if (lacks !== "") say(lacks);
  return same ? new Uint8Array(now.diff) : patch;
}

/** The working tree as it is now, with its secrets; undefined if it cannot be read. */
async function unmasked(
  context: Context,
  record: AttemptsCode,
  env: Record<string, string | undefined>,
): Promise<Collected | undefined> {
  const { cwd } = record.code;
  if (!isThere(cwd)) return undefined;
  const run: RunScript = (script, words, scriptEnv) =>
    context.runScript(script, words, { env: scriptEnv, cwd, limitMs: LOOK_MS });
  return await collectCode([], env, run, (code) => code);
}

/** Packages that are not what they were. */
function sayPackages(
  say: (text: string) => void,
  before: EnvironmentRecord,
  now: EnvironmentRecord,
): void {
  const different = packageDifferences(before.packages, now.packages);
  if (different.length > 0) {
    const words = ({ name, a, b }: PackageDifference) =>
      `${name} ${a ?? "absent"} -> ${b ?? "absent"}`;
    say(`packages differ from those of the run: ${shown(different.map(words))}`);
  }
  const [a, b] = [before.interpreter, now.interpreter];
  if (a?.version !== b?.version) {
    say(`the interpreter differs: ${a?.version ?? "none"} -> ${b?.version ?? "none"}`);
  }
}

function shown(texts: readonly string[]): string {
  const more = texts.length - MOST_SHOWN;
  return `${texts.slice(0, MOST_SHOWN).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
