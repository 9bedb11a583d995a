/**
 * What runs have read and written. An artifact is named by its run (`RUN:checkpoints/best.pt`) or
 * by a name that its content was given (`policy:best`, `policy:v3`, `policy`: the newest). Nothing
 * is copied: a name stands for a content, and a file with it is found wherever a run still has one.
 */
import { sha256 } from "../../base/node_modules.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import { parsedObject } from "../../base/text/json_text.ts";
import type { Logger } from "../../base/log.ts";
import {
  isAlias,
  isArtifactName,
  LATEST,
  type UseRow,
  VERSION,
  type VersionRow,
} from "../../registry/lineage/lineage_rows.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunRow } from "../../registry/row_types.ts";

export interface FoundArtifact {
  runId: string;
  runName: string;
  path: string;
  /** "" while it is not computed, and of a file outside of the run's directory. */
  sha256: string;
  bytes: number;
  /** Absolute, on the daemon's host. */
  file: string;
}

export type NamedArtifact = VersionRow & {
  /** "": the run is deleted. */
  runName: string;
  /** "": no run has a file with this content any more. */
  file: string;
};

export type LineageEdge = UseRow & {
  runName: string;
  sourceDeleted: boolean;
  /** The file has another content now. */
  changed: boolean;
};

export interface RunLineage {
  /** What it has read, and what was read for that, and so on. */
  uses: LineageEdge[];
  /** What others have read of it, and so on. */
  usedBy: LineageEdge[];
  /** Names of contents that it has written. */
  names: NamedArtifact[];
}

export interface LineageParts {
  registry: Registry;
  log: Logger;
  /** Absolute path of a run's directory. */
  directoryOf: (run: RunRow) => string;
}

/** Of a run's lineage, each way. */
const MOST_EDGES = 500;
const NOT_THERE: readonly string[] = ["not_found", "invalid_argument", "failed_precondition"];

export class Lineage {
  readonly #parts: LineageParts;

  constructor(parts: LineageParts) {
    this.#parts = parts;
  }

  /**
   * @throws MosaicError `not_found`, `invalid_argument`, `failed_precondition` (a content that no
   * run has any more)
   */
  find(artifact: string): FoundArtifact {
    const { registry } = this.#parts;
    const [, left, right] = /^([^:]+)(?::(.+))?$/s.exec(artifact) ?? [];
    if (left === undefined) {
      throw new MosaicError(
        "invalid_argument",
        `artifact ${JSON.stringify(artifact)} has no name`,
        {
          hint: "Give RUN:PATH, or NAME:ALIAS.",
        },
      );
    }
    const versions = registry.lineage.versions(left);
    const version = versionOf(versions, right ?? LATEST);
    if (version !== undefined) return this.#withContent(version);
    if (right === undefined) {
      throw new MosaicError("not_found", `no artifact is called "${left}"`, {
        hint: "Of a run, give RUN:PATH.",
      });
    }
    try {
      return this.#ofRun(registry.resolve(left), right);
    } catch (error) {
      if (versions.length === 0 || !(error instanceof MosaicError) || error.code !== "not_found") {
        throw error;
      }
    }
    const known = [
      LATEST,
      ...versions.flatMap(({ aliases, version }) => [...aliases, `v${version}`]),
    ];
    throw new MosaicError(
      "not_found",
      `${left} has no version "${right}".${didYouMean(right, known)}`,
      {
        hint: `It has ${known.slice(0, 20).join(", ")}.`,
      },
    );
  }

  #ofRun(run: RunRow, path: string): FoundArtifact {
    const { registry, directoryOf } = this.#parts;
    const wanted = path.replace(/\/+$/, "");
    const artifacts = registry.artifacts(run.runId);
    const exact = artifacts.find((one) => one.path === wanted);
    const inside = artifacts.filter((one) => one.path.startsWith(`${wanted}/`));
    if (exact === undefined && inside.length === 0) {
      const paths = artifacts.map((one) => one.path);
      throw new MosaicError(
        "not_found",
        `run ${run.name} has no artifact "${path}".${didYouMean(path, paths)}`,
        {
          hint: `mosaic show ${run.runId} lists ${paths.length} artifacts.`,
        },
      );
    }
    const file = wanted.startsWith("/") ? wanted : `${directoryOf(run)}/${wanted}`;
    const whose = { runId: run.runId, runName: run.name, path: wanted, file };
    if (exact !== undefined) return { ...whose, sha256: exact.sha256, bytes: exact.bytes };
    const bytes = inside.reduce((sum, one) => sum + one.bytes, 0);
    if (inside.some((one) => one.sha256 === "")) return { ...whose, sha256: "", bytes };
    // As `sha256sum` prints them, sorted by path.
    const lines = inside.map((one) => `${one.sha256}  ${one.path.slice(wanted.length + 1)}\n`).join(
      "",
    );
    return { ...whose, sha256: sha256().update(lines).digest("hex"), bytes };
  }

  /** The named file, if it still has the content; else another of this content. */
  #withContent(version: VersionRow): FoundArtifact {
    const found = this.#contentAt(version);
    if (found !== undefined) return found;
    const { name, version: number, runId, path } = version;
    throw new MosaicError(
      "failed_precondition",
      `no run has the content of ${name}:v${number} any more; it was ${path} of run ${runId}`,
      { hint: `mosaic artifact list ${name} shows its other versions.` },
    );
  }

  #contentAt({ runId, path, sha256 }: VersionRow): FoundArtifact | undefined {
    const { registry } = this.#parts;
    for (const place of [{ runId, path }, registry.lineage.fileWith(sha256)]) {
      const run = place && registry.get(place.runId);
      if (run === undefined) continue;
      try {
        const found = this.#ofRun(run, place!.path);
        if (found.sha256 === sha256) return found;
      } catch (error) {
        if (!(error instanceof MosaicError) || error.code !== "not_found") throw error;
      }
    }
    return undefined;
  }

  /**
   * Gives a content a name, and aliases to its version.
   * @throws MosaicError as `find`; `invalid_argument` for a name that is none,
   * `failed_precondition` without a checksum
   */
  name(artifact: string, name: string, aliases: readonly string[]): NamedArtifact {
    if (!isArtifactName(name)) {
      throw new MosaicError(
        "invalid_argument",
        `name ${JSON.stringify(name)} is no name of an artifact`,
        {
          hint: "Letters, digits, . _ -, the first a letter, at most 100.",
        },
      );
    }
    const wrong = aliases.find((alias) => !isAlias(alias));
    if (wrong !== undefined) {
      throw new MosaicError("invalid_argument", `alias ${JSON.stringify(wrong)} cannot be given`, {
        hint: "A name of letters, digits, . _ -; latest and v1, v2 … are given by mosaic.",
      });
    }
    const found = this.find(artifact);
    if (found.sha256 === "") {
      const isOutside = found.path.startsWith("/");
      throw new MosaicError(
        "failed_precondition",
        isOutside
          ? `${found.path} lies outside of its run's directory, so its content is not known`
          : `the checksum of ${found.path} of run ${found.runName} is not computed yet`,
        {
          hint: isOutside
            ? "Write it below $MOSAIC_RUN_DIR."
            : "It is some seconds after the file's last change.",
        },
      );
    }
    const { runId, path, sha256, bytes } = found;
    return this.#named(
      this.#parts.registry.lineage.nameContent({ name, runId, path, sha256, bytes }, aliases),
    );
  }

  /** @param name "" for all */
  versions(name: string): NamedArtifact[] {
    return this.#parts.registry.lineage.versions(name).map((version) => this.#named(version));
  }

  #named(version: VersionRow): NamedArtifact {
    const run = this.#parts.registry.get(version.runId);
    return { ...version, runName: run?.name ?? "", file: this.#contentAt(version)?.file ?? "" };
  }

  of({ runId }: RunRow): RunLineage {
    const { lineage } = this.#parts.registry;
    return {
      uses: this.#edges(runId, (run) => lineage.usesOf(run), ({ sourceRun }) => sourceRun),
      usedBy: this.#edges(runId, (run) => lineage.usesFrom(run), (use) => use.runId),
      names: lineage.versions("").filter((version) => version.runId === runId).map((version) =>
        this.#named(version)
      ),
    };
  }

  /** Nearest first; each run is followed once. */
  #edges(
    from: string,
    usesAt: (runId: string) => UseRow[],
    next: (use: UseRow) => string,
  ): LineageEdge[] {
    const edges: LineageEdge[] = [];
    const seen = new Set([from]);
    for (const runId of seen) {
      for (const use of usesAt(runId)) {
        if (edges.length >= MOST_EDGES) return edges;
        edges.push(this.#edge(use));
        if (next(use) !== "") seen.add(next(use));
      }
    }
    return edges;
  }

  #edge(use: UseRow): LineageEdge {
    const { registry } = this.#parts;
    const source = use.sourceRun === "" ? undefined : registry.get(use.sourceRun);
    return {
      ...use,
      runName: registry.get(use.runId)?.name ?? "",
      sourceName: source?.name ?? use.sourceName,
      sourceDeleted: use.sourceRun !== "" && source === undefined,
      changed: source !== undefined && use.sha256 !== "" &&
        this.#contentOf(source, use.path) !== use.sha256,
    };
  }

  /** "" for a file that is gone, or has no checksum. */
  #contentOf(run: RunRow, path: string): string {
    try {
      return this.#ofRun(run, path).sha256;
    } catch (error) {
      if (error instanceof MosaicError && error.code === "not_found") return "";
      throw error;
    }
  }

  /**
   * A record of the run's program that it reads an artifact: `use_artifact`. What cannot be found
   * is recorded as that.
   */
  used(run: RunRow, event: { dataJson: string }): void {
    const record = parsedObject(event.dataJson) ?? {};
    const payload = typeof record.payload === "object" && record.payload !== null
      ? record.payload
      : record;
    const { artifact } = payload as { artifact?: unknown };
    if (typeof artifact !== "string" || artifact === "") return;
    const given = artifact.slice(0, 500);
    const { registry, log } = this.#parts;
    try {
      const { runId, runName, path, sha256 } = this.#findOrNothing(given);
      // What it has written itself comes from no other run.
      if (runId === run.runId) return;
      registry.lineage.addUses(run.runId, [{
        sourceRun: runId,
        sourceName: runName,
        path,
        sha256,
        given,
      }]);
    } catch (error) {
      // A full disk, say. The record stays in the run's telemetry.
      log.error(
        { run_id: run.runId, artifact: given, error: messageOf(error) },
        "a used artifact is not recorded",
      );
    }
  }

  #findOrNothing(given: string): Pick<FoundArtifact, "runId" | "runName" | "path" | "sha256"> {
    try {
      return this.find(given);
    } catch (error) {
      if (!(error instanceof MosaicError) || !NOT_THERE.includes(error.code)) throw error;
      return { runId: "", runName: "", path: given, sha256: "" };
    }
  }
}

function versionOf(versions: readonly VersionRow[], which: string): VersionRow | undefined {
  if (which === LATEST) return versions[0];
  const number = VERSION.exec(which)?.[1];
  return versions.find(({ version, aliases }) =>
    number === undefined ? aliases.includes(which) : version === +number
  );
}
