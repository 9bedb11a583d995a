/** Lineage as JSON, for the command line and the page. Pure. */
import type { z } from "zod";
import type * as contract from "../contract.ts";

export type LineageJson = z.infer<typeof contract.Lineage>;
export type ArtifactUseJson = z.infer<typeof contract.ArtifactUse>;
export type NamedArtifactJson = z.infer<typeof contract.NamedArtifact>;

/** Of a message, or of the daemon's objects as `useMessage` and `namedMessage` form them. */
interface Use {
  runId: string;
  runName: string;
  /** "": nothing of this name was there. */
  sourceRunId: string;
  sourceRunName: string;
  path: string;
  sha256: string;
  artifact: string;
  at?: { seconds: bigint; nanos: number } | undefined;
  sourceDeleted: boolean;
  changed: boolean;
}

interface Named {
  name: string;
  version: number;
  aliases: readonly string[];
  sha256: string;
  runId: string;
  runName: string;
  path: string;
  bytes: bigint;
  at?: { seconds: bigint; nanos: number } | undefined;
  file: string;
}

export interface LineageMessage {
  uses: readonly Use[];
  usedBy: readonly Use[];
  names: readonly Named[];
}

export function lineageJson(
  runId: string,
  runName: string,
  { uses, usedBy, names }: LineageMessage,
): LineageJson {
  return {
    run_id: runId,
    run_name: runName,
    uses: uses.map(useJson),
    used_by: usedBy.map(useJson),
    names: names.map(namedJson),
  };
}

function useJson(use: Use): ArtifactUseJson {
  return {
    run_id: use.runId,
    run_name: use.runName,
    source_run_id: use.sourceRunId || null,
    source_run_name: use.sourceRunName,
    path: use.path,
    sha256: use.sha256,
    artifact: use.artifact,
    at: timeOf(use.at),
    source_deleted: use.sourceDeleted,
    changed: use.changed,
  };
}

export function namedJson(named: Named): NamedArtifactJson {
  const { name, version, aliases, sha256, path } = named;
  return {
    ...{
      name,
      version,
      aliases: [...aliases],
      sha256,
      run_id: named.runId,
      run_name: named.runName || null,
      path,
    },
    ...{ bytes: Number(named.bytes), at: timeOf(named.at), file: named.file || null },
  };
}

function timeOf(at: { seconds: bigint; nanos: number } | undefined): string {
  return new Date(at === undefined ? 0 : Number(at.seconds) * 1000 + Math.trunc(at.nanos / 1e6))
    .toISOString();
}
