/**
 * `Ingest.Fetch`: the files of the checkpoint that an attempt resumes from, for a proxy whose host
 * shares no disk with the daemon. After a broken connection the proxy names what it has and gets
 * the rest.
 */
import type { FetchRequest, FilePieceSchema } from "../../gen/mosaic/v1/ingest_pb.ts";
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import { checkpointFiles } from "../../registry/artifacts/checkpoint_files.ts";
import type { Outgoing } from "../call/handlers.ts";
import { turn } from "../call/turns.ts";

export async function fetchCheckpoint(
  core: Core,
  { runId, attempt, have }: FetchRequest,
  out: Outgoing<typeof FilePieceSchema>,
): Promise<void> {
  const row = core.runs.require(runId);
  if (row.attempt !== attempt) {
    throw new MosaicError("failed_precondition", `attempt ${attempt} of run ${runId} has ended`);
  }
  if (row.resumeFrom === null) {
    throw new MosaicError(
      "not_found",
      `attempt ${attempt} of run ${runId} begins from no checkpoint`,
    );
  }
  const has = new Map(have.map(({ path, bytes }) => [path, Number(bytes)]));
  for await (
    const chunk of checkpointFiles(
      core.directoryOf(row),
      row.resumeFrom,
      (path) => has.get(path) ?? 0,
    )
  ) {
    await turn();
    const { size, changedAt, offset } = chunk;
    await out.send({
      ...chunk,
      size: BigInt(size),
      changedAt: BigInt(changedAt),
      offset: BigInt(offset),
    });
  }
}
