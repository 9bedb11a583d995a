/**
 * Lineage in the form of `mosaic.v1`, from which its JSON is made, too
 * (src/registry/artifacts/lineage_json.ts).
 */
import { timestampOfMs } from "../../wire/time.ts";
import type { LineageEdge, NamedArtifact, RunLineage } from "./lineage.ts";

export function lineageMessage({ uses, usedBy, names }: RunLineage) {
  return {
    uses: uses.map(useMessage),
    usedBy: usedBy.map(useMessage),
    names: names.map(namedMessage),
  };
}

function useMessage({ sourceRun, sourceName, given, at, ...others }: LineageEdge) {
  return {
    ...others,
    sourceRunId: sourceRun,
    sourceRunName: sourceName,
    artifact: given,
    at: timestampOfMs(at),
  };
}

export function namedMessage({ bytes, at, ...named }: NamedArtifact) {
  return { ...named, bytes: BigInt(bytes), at: timestampOfMs(at) };
}
