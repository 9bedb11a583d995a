/** `--gpu-free-memory` and `--gpu-ignore`: when a card that no run has counts as free. */
import { parseBytes } from "../../base/text/format.ts";
import { MosaicError } from "../../base/errors.ts";

export interface FreeRule {
  /** Others may use up to the larger of the two. */
  mb: number;
  /** Of the card's memory, 0 to 100. */
  percent: number;
  /** Names of programs whose memory does not count. */
  ignored: readonly string[];
}

export const USUAL_FREE: FreeRule = { mb: 1024, percent: 5, ignored: [] };

/**
 * A size such as 2G, a share such as 10%, or off. @returns undefined for off @throws {MosaicError}
 * `invalid_argument`
 */
export function parseFreeMemory(text: string): Pick<FreeRule, "mb" | "percent"> | "off" {
  if (text === "off") return "off";
  const [, share] = /^(\d+(?:\.\d+)?)%$/.exec(text) ?? [];
  if (share !== undefined && Number(share) <= 100) return { mb: 0, percent: Number(share) };
  const size = share === undefined ? parseBytes(text) : undefined;
  if (size === undefined) {
    throw new MosaicError(
      "invalid_argument",
      `--gpu-free-memory ${JSON.stringify(text)}: neither a size, nor a share, nor off`,
      {
        hint:
          "Give what others may use of a card that still counts as free: a size such as 2G, a share such as 10%, or off.",
      },
    );
  }
  return { mb: size / (1 << 20), percent: 0 };
}
