/**
 * The original's ring of frames in shared memory, filled from render payloads, for live frames in
 * the original's GUI. If a worker has a ring of this name itself, that one stays.
 */
import type { Logger } from "../base/log.ts";
import { parsedObject } from "../base/text/json_text.ts";
import type { EpisodeRecord, StepRecord } from "../gen/records/record_types.ts";
import { renderPayloadOf } from "../records/render_payload.ts";
import { messageOf } from "../base/errors.ts";
import { SharedMemory } from "./shared_memory.ts";
import {
  INVALIDATION,
  type Picture,
  pictureOfPayload,
  RING_MAGIC,
  RING_PREFIX,
  ringFrame,
  ringName,
  type RingShape,
  ringShape,
  ringsOf,
  ringStart,
} from "./fastlane.ts";

/** The GUI polls every 16 ms; people do not see more than this rate. */
const INTERVAL_MS = 1000 / 30;
/** Wait after the name was taken, or shared memory was full. */
const AGAIN_MS = 5000;

type Framed = StepRecord | EpisodeRecord;

export class FrameRing {
  readonly #name: string;
  readonly #log: Logger;
  readonly #memory = new SharedMemory();
  /** The newest frame that is not written yet. */
  #waiting: Framed | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #busy = false;
  #ring: { shape: RingShape; frames: number } | undefined;
  #shownAt = -Infinity;
  #reportedTrouble = "";

  constructor(runId: string, log: Logger) {
    this.#name = ringName(runId);
    this.#log = log;
  }

  /** Shows the frame soon; of frames that arrive faster than that, only the newest. */
  show(framed: Framed): void {
    this.#waiting = framed;
    this.#arm(Math.max(0, this.#shownAt + INTERVAL_MS - performance.now()));
  }

  /**
   * Removes the ring. @param leftover an earlier proxy, killed together with its helper, may have
   * left one
   */
  async close(leftover: boolean): Promise<void> {
    clearTimeout(this.#timer);
    this.#busy = true;
    try {
      if (leftover) await this.#memory.drop(this.#name);
    } catch (error) {
      this.#log.debug(
        { ring: this.#name, error: messageOf(error) },
        "cannot determine whether a ring is left",
      );
    }
    this.#memory[Symbol.dispose]();
  }

  #arm(delayMs: number): void {
    if (this.#busy || this.#timer !== undefined) return;
    this.#timer = setTimeout(async () => {
      this.#timer = undefined;
      const framed = this.#waiting!;
      this.#waiting = undefined;
      this.#busy = true;
      let again = 0;
      try {
        const picture = pictureOfPayload(renderPayloadOf(framed));
        const trouble = picture === undefined ? "" : await this.#write(picture, rewardsOf(framed));
        if (trouble !== "") again = this.#leave(trouble);
      } catch (error) {
        again = this.#leave(messageOf(error));
      }
      this.#shownAt = performance.now() + again;
      this.#busy = false;
      if (this.#waiting !== undefined) this.show(this.#waiting);
    }, delayMs);
  }

  /** @returns why it cannot be written, or "". */
  async #write(picture: Picture, rewards: ReturnType<typeof rewardsOf>): Promise<string> {
    const { width, height, channels } = picture;
    const before = this.#ring?.shape;
    if (before?.width !== width || before.height !== height || before.channels !== channels) {
      // Readers close a ring that is marked invalid, and open the next one of its name.
      if (before !== undefined) await this.#memory.write(this.#name, [INVALIDATION]);
      this.#ring = undefined;
      const shape = ringShape(width, height, channels);
      const trouble = await this.#memory.make(this.#name, shape.bytes) ||
        await this.#memory.write(this.#name, ringStart(shape));
      if (trouble !== "") return trouble;
      this.#ring = { shape, frames: 0 };
    }
    const ring = this.#ring!;
    const rate = 1000 / Math.max(1, performance.now() - this.#shownAt);
    const values = { ...rewards, stepsPerSecond: Number.isFinite(rate) ? rate : 0 };
    return await this.#memory.write(
      this.#name,
      ringFrame(ring.shape, ++ring.frames, picture.pixels, values),
    );
  }

  #leave(trouble: string): number {
    this.#ring = undefined;
    if (this.#reportedTrouble !== trouble) {
      this.#reportedTrouble = trouble;
      const why = trouble === "exists"
        ? "the worker has a ring of its own, or another program one of this name"
        : trouble;
      this.#log.info({ ring: this.#name, why }, "frames are not put into shared memory");
    }
    return AGAIN_MS;
  }
}

/**
 * Removes rings that a worker made and left, because it was killed or does not clean up: otherwise
 * the next attempt could not make its own. A file of that name that is not a ring stays.
 * @param parts also those of Ray's workers (`RUN-w1` …)
 */
export async function removeWorkersRings(
  runId: string,
  parts: boolean,
  log: Logger,
): Promise<void> {
  using memory = new SharedMemory();
  try {
    const rests = ringsOf(runId, await memory.list(RING_PREFIX));
    for (const rest of rests.filter((rest) => rest === "" || (parts && /^-w\d+$/.test(rest)))) {
      await memory.clear(ringName(runId) + rest, RING_MAGIC);
    }
  } catch (error) {
    log.warn(
      { ring: ringName(runId), error: messageOf(error) },
      "a ring that the worker left could not be removed",
    );
  }
}

/** 0 for unknown values, as in the original. */
function rewardsOf(framed: Framed): { reward: number; rollingReturn: number } {
  if ("totalReward" in framed) return { reward: 0, rollingReturn: Number(framed.totalReward) };
  const { total_reward: total, episode_return: sum, episode_reward: also } =
    parsedObject(framed.infoJson) ?? {};
  const rollingReturn = [total, sum, also].find((value) => typeof value === "number") as
    | number
    | undefined;
  return { reward: Number(framed.reward), rollingReturn: rollingReturn ?? 0 };
}
