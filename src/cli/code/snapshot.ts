/**
 * `mosaic run --snapshot`: the code as it is at the submission, whatever becomes of it while the
 * run waits.
 */
import { writeJson } from "../../config/lossless_json.ts";
import type { Collected } from "../../provenance/collect.ts";
import { copyFiles } from "../../provenance/copy_code.ts";
import { escapeControl } from "../text/text.ts";
import type { Context } from "../link/context.ts";
import type { Link } from "../link/daemon_link.ts";
import { type CodeCopy, isThere, makeCopy } from "./code_copy.ts";
import { configObject, moveConfig, objectIn } from "../../runs/moved_config.ts";
import { codeOf, collect } from "./submitted_code.ts";

export interface Snapshot {
  configJson: string;
  copy: CodeCopy;
  /** Of the working tree that was copied. */
  found: Promise<Collected | undefined>;
}

/** @throws MosaicError `failed_precondition` if the files cannot be copied */
export async function takeSnapshot(
  context: Context,
  link: Link,
  configJson: string,
): Promise<Snapshot> {
  const config = configObject(configJson);
  const cwd = String(objectIn(objectIn(config, "metadata"), "worker").get("cwd"));
  const code = codeOf(configJson);
  const found = await collect(context, code ?? { command: [], env: {}, cwd });
  const env = { HOME: context.env("HOME"), PATH: context.env("PATH") };
  const untracked = (found?.code.git?.files ?? []).filter(({ change }) => change === "untracked")
    .map(({ path }) => path);
  const copy = await makeCopy(
    context,
    link,
    "custom_scripts",
    cwd,
    (to, run) => copyFiles(to, untracked, env, run),
  );
  moveConfig(config, copy.root, copy.directory, isThere);
  noteCopy(config, copy);
  const notes = [...copy.notes, ...editable(found, copy.root)];
  const left = found?.code.git?.left_out.map(({ path, why }) => `${path} (${why})`) ?? [];
  if (left.length > 0) {
    notes.push(`files that are not tracked are not in the copy: ${left.slice(0, 5).join(", ")}`);
  }
  for (const note of notes) context.err.write(`mosaic: ${escapeControl(note)}\n`);
  return {
    configJson: writeJson(config, { nonFinite: "bare" }),
    copy,
    found: Promise.resolve(code === undefined ? undefined : found),
  };
}

/** So that `mosaic rerun` finds the repository. */
export function noteCopy(
  config: ReturnType<typeof configObject>,
  { root, directory }: CodeCopy,
): void {
  objectIn(objectIn(config, "metadata"), "submission").set(
    "copied",
    new Map([["from", root], ["to", directory]]),
  );
}

/** Imports of such packages read the repository, not its copy. */
export function editable(found: Collected | undefined, root: string): string[] {
  const names = Object.entries(found?.environment.sources ?? {})
    .filter(([, source]) => source.startsWith(`file://${root}`) && source.endsWith("(editable)"))
    .map(([name]) => name);
  return names.length === 0 ? [] : [
    `${
      names.join(", ")
    } is installed from ${root} (editable): what imports it may read the files there, not the copy`,
  ];
}
