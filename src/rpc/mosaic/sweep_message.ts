/** Sweeps as messages of `mosaic.v1`; runs, events and the host: src/runs/fields. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { SweepJson } from "../../dispatch/core/core.ts";
import type { SweepSchema } from "../../gen/mosaic/v1/mosaic_pb.ts";

export function sweepMessage(sweep: SweepJson): MessageInitShape<typeof SweepSchema> {
  const { sweep_id: sweepId, name, state, total, made, states } = sweep;
  return { sweepId, name, state, total, made, states, json: JSON.stringify(sweep) };
}
