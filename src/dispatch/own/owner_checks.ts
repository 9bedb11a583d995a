/** Whose runs and sweeps are, for the checks of tokens that are only for their own. */
import { MosaicError } from "../../base/errors.ts";
import type { Core } from "../core/core.ts";

/** In which runs a call looks for the one that it names. */
export type Where = "list" | "trash" | "both";

/** `alone`: an owner who sees only their own. @throws MosaicError as the call that they ask for */
export function ownersOf(core: Pick<Core, "runs" | "ownerOfSweep">) {
  const { runs } = core;
  const ofRun = (ref: string, where: Where, alone: string | undefined): string => {
    if (where === "trash") return runs.resolveDeleted(ref, alone).owner;
    try {
      return runs.resolve(ref, alone).owner;
    } catch (error) {
      const isGone = error instanceof MosaicError && error.code === "not_found";
      if (where === "list" || !isGone) throw error;
      return runs.resolveDeleted(ref, alone).owner;
    }
  };
  return {
    ofRun,
    ofSweep: (ref: string, alone: string | undefined) => core.ownerOfSweep(ref, alone),
  };
}
