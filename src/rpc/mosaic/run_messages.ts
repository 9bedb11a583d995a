/** Hosts, events and artifacts as messages of `mosaic.v1`. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HostInfo, SweepJson } from "../../dispatch/core/core.ts";
import type { ArtifactSchema, EventSchema, HostResponseSchema, SweepSchema } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { ArtifactRow, EventRow } from "../../registry/row_types.ts";
import { timestampOfMs } from "../../wire/time.ts";

export function sweepMessage(sweep: SweepJson): MessageInitShape<typeof SweepSchema> {
  const { sweep_id: sweepId, name, state, total, made, states } = sweep;
  return { sweepId, name, state, total, made, states, json: JSON.stringify(sweep) };
}
