/**
 * Frames of live environments, while a client reads them: the newest frame of each run, from its
 * shared-memory rings or, if it has none, from the payloads of its stored steps and episodes.
 * Frames that arrive faster than the client reads are skipped. A message: its length after these 4
 * bytes (u32, little endian), length of a JSON text (u32), the text, the pixels (for a ring, only
 * of the rows that have changed since the frame before).
 */
import type { RunReader } from "../registry/run_reader.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import type { z } from "zod";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import { MosaicError } from "../base/errors.ts";
import { SharedMemory } from "./shared_memory.ts";
import { shellOutputLater } from "../os/processes/external_program.ts";
import {
  type Picture,
  pictureOfPayload,
  RING_PREFIX,
  type RingFrame,
  ringName,
  RingReader,
  ringsOf,
} from "./fastlane.ts";
import { pause } from "../wire/http/waiting.ts";
import { stepsReached } from "../records/progress_series.ts";
import { FRAME_KINDS, type FrameKind, renderPayloadOf } from "../records/render_payload.ts";
import { ChangedRows, KeptPictures } from "./changed_rows.ts";
import { finiteOrText, parsed } from "../records/json_values.ts";
import type { PageLiveFrame } from "../registry/contract.ts";
import { placeOf } from "./pictures.ts";

export const MAX_WATCHED = 64;
const FRAMES_PER_SECOND = 30;
/** Frames a second of all environments of one connection; with more environments each has fewer. */
const FRAMES_IN_ALL = 480;
/** Payloads of records are parsed for each frame. */
const RECORDS_FRAMES_PER_SECOND = 10;
/** Interval of polling for new rings and for runs that have ended. */
const POLL_MS = 2000;
const IDLE_MS = 250;
/** Interval of reading the run's step, for frames that name none. */
const RUN_STEP_MS = 250;
/**
 * A picture is searched among this many newest records: the records of several agents may
 * alternate.
 */
const NEWEST_RECORDS = 8;
/**
 * Bound on pictures kept for all readers of this daemon; beyond it, every picture is sent whole.
 * Sixteen of 600 × 400 take 12 MB.
 */
const MAX_KEPT_BYTES = 64 << 20;
/** Bound on a payload without a picture, which is sent unchanged. */
const MAX_PAYLOAD = 64 << 10;

type LiveFrame = z.infer<typeof PageLiveFrame>;

/** What frames are read from besides shared memory. */
export interface FrameSources {
  runs: RunReader;
  records: TelemetryReader;
}

const encoder = new TextEncoder();
const kept = new KeptPictures(MAX_KEPT_BYTES);

function message(head: LiveFrame, pixels: Uint8Array): Uint8Array<ArrayBuffer> {
  const text = encoder.encode(JSON.stringify(head));
  const bytes = new Uint8Array(8 + text.length + pixels.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.length - 4, true);
  view.setUint32(4, text.length, true);
  bytes.set(text, 8);
  bytes.set(pixels, 8 + text.length);
  return bytes;
}

const NOTHING = new Uint8Array(0);
const NO_STEP = { episode: null, step: null, agent: null, action: null };

/** One environment: a ring of a run. */
class Ring implements Disposable {
  readonly #core: FrameSources;
  readonly #runId: string;
  readonly #rest: string;
  readonly #reader: RingReader;
  readonly #changed = new ChangedRows(kept);
  #runStep: number | null = null;
  #runStepAt = -Infinity;
  spoilt = false;

  constructor(core: FrameSources, runId: string, rest: string, memory: SharedMemory) {
    this.#core = core;
    this.#runId = runId;
    this.#rest = rest;
    this.#reader = new RingReader({
      read: (...ranges) => memory.read(ringName(runId + rest), ...ranges),
    });
  }

  async next(): Promise<Uint8Array<ArrayBuffer> | undefined> {
    let frame: RingFrame | undefined;
    try {
      frame = this.spoilt ? undefined : await this.#reader.next();
    } catch (error) {
      // Its header does not fit the file, or nothing can be read now; the next poll tries again.
      if (!(error instanceof RangeError) && !(error instanceof MosaicError)) throw error;
      this.spoilt = true;
    }
    if (frame === undefined) return undefined;
    const { n, width, height, channels, reward, rollingReturn, stepsPerSecond } = frame;
    const { rows, pixels } = this.#changed.next(frame);
    return message({
      ...this.#head(n),
      ...{ width, height, channels, rows, payload: null },
      reward: finiteOrText(reward),
      rolling_return: finiteOrText(rollingReturn),
      steps_per_second: finiteOrText(stepsPerSecond),
    }, pixels);
  }

  /** Sent instead of its frames. */
  unreadable(why: string): Uint8Array<ArrayBuffer> {
    const nothing = {
      width: 0,
      height: 0,
      channels: 0,
      rows: null,
      reward: null,
      rolling_return: null,
      steps_per_second: null,
    };
    return message({ ...this.#head(0), ...nothing, payload: { text: why } }, NOTHING);
  }

  [Symbol.dispose](): void {
    this.#changed[Symbol.dispose]();
  }

  #head(n: number) {
    const [run_id, part] = [this.#runId, this.#rest];
    const now = Date.now();
    if (now - this.#runStepAt >= RUN_STEP_MS) {
      this.#runStepAt = now;
      this.#runStep = stepsReached(this.#core.records.summary(run_id)) || null;
    }
    const run_step = this.#runStep;
    return {
      of: run_id + part,
      run_id,
      part,
      source: "ring" as const,
      n,
      at: now,
      ...NO_STEP,
      run_step,
    };
  }
}

/** Names of the existing rings, and why they cannot be read. */
interface Listing {
  names: readonly string[];
  trouble: string;
}

async function listRings(memory: SharedMemory): Promise<Listing> {
  try {
    return { names: await memory.list(RING_PREFIX), trouble: "" };
  } catch (error) {
    if (!(error instanceof MosaicError)) throw error;
    const names = (await shellOutputLater("ls /dev/shm"))?.split("\n") ?? [];
    return { names, trouble: `${error.message}\n${error.hint}` };
  }
}

class Watched implements Disposable {
  readonly #core: FrameSources;
  readonly #runId: string;
  readonly #memory: SharedMemory;
  readonly #rings = new Map<string, Ring>();
  #pollAt = 0;
  #isLive = true;
  readonly #shown: Record<FrameKind, number>;
  #recordsAt = 0;

  constructor(core: FrameSources, runId: string, memory: SharedMemory) {
    this.#core = core;
    this.#memory = memory;
    this.#runId = runId;
    const before = (kind: FrameKind) => Math.max(0, core.records.head(runId, kind) - 1);
    this.#shown = { steps: before("steps"), episodes: before("episodes") };
  }

  get environments(): number {
    return Math.max(1, this.#rings.size);
  }

  async *next(now: number, rings: () => Promise<Listing>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    if (now >= this.#pollAt) {
      this.#pollAt = now + POLL_MS;
      const row = this.#core.runs.get(this.#runId);
      this.#isLive = row !== undefined && !isEnded(row.state);
      yield* this.#updateRings(this.#isLive ? await rings() : { names: [], trouble: "" });
    }
    if (!this.#isLive) return;
    for (const ring of this.#rings.values()) {
      const frame = await ring.next();
      if (frame !== undefined) yield frame;
    }
    if ([...this.#rings.values()].some((ring) => !ring.spoilt)) return;
    if (now < this.#recordsAt) return;
    for (const kind of FRAME_KINDS) {
      const frame = this.#ofRecords(kind);
      if (frame === undefined) continue;
      this.#recordsAt = now + 1000 / RECORDS_FRAMES_PER_SECOND;
      yield frame;
    }
  }

  /** Opens new rings, and again those that could not be read; drops removed ones. */
  *#updateRings({ names, trouble }: Listing): Generator<Uint8Array<ArrayBuffer>> {
    const rests = ringsOf(this.#runId, names).slice(0, MAX_WATCHED);
    for (const rest of this.#rings.keys()) if (!rests.includes(rest)) this.#forget(rest);
    for (const rest of rests) {
      const before = this.#rings.get(rest);
      if (before !== undefined && (!before.spoilt || trouble !== "")) continue;
      this.#forget(rest);
      const ring = new Ring(this.#core, this.#runId, rest, this.#memory);
      this.#rings.set(rest, ring);
      if (trouble === "") continue;
      ring.spoilt = true;
      yield ring.unreadable(trouble);
    }
  }

  #forget(rest: string): void {
    this.#rings.get(rest)?.[Symbol.dispose]();
    this.#rings.delete(rest);
  }

  [Symbol.dispose](): void {
    for (const rest of this.#rings.keys()) this.#forget(rest);
  }

  /** The newest stored record that has a payload. */
  #ofRecords(kind: FrameKind): Uint8Array<ArrayBuffer> | undefined {
    const { records } = this.#core;
    const newest = records.head(this.#runId, kind);
    if (newest <= this.#shown[kind]) return undefined;
    const from = Math.max(this.#shown[kind], newest - NEWEST_RECORDS);
    const record = records.read(this.#runId, kind, from, NEWEST_RECORDS).findLast((one) =>
      renderPayloadOf(one) !== ""
    );
    this.#shown[kind] = newest;
    if (record === undefined) return undefined;
    const payload = renderPayloadOf(record);
    const picture: Picture | undefined = pictureOfPayload(payload);
    if (picture === undefined && payload.length > MAX_PAYLOAD) return undefined;
    const { width, height, channels, pixels } = picture ??
      { width: 0, height: 0, channels: 0, pixels: NOTHING };
    const head: LiveFrame = {
      ...{ of: this.#runId, run_id: this.#runId, part: "", source: kind, n: record.seq },
      ...{ at: Number(BigInt(record.tsNs) / 1_000_000n), width, height, channels, rows: null },
      ...{ episode: record.episode, agent: record.agentId, ...placeOf(record), run_step: null },
      ...{
        rolling_return: null,
        steps_per_second: null,
        payload: picture === undefined ? parsed(payload) : null,
      },
    };
    return message(head, pixels);
  }
}

/** The messages of these runs until the reader leaves. */
export async function* framesLive(
  core: FrameSources,
  runIds: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using memory = new SharedMemory();
  using all = new DisposableStack();
  const watched = [...new Set(runIds)].map((runId) => all.use(new Watched(core, runId, memory)));
  let quietSince = performance.now();
  // An empty message tells the page that it is connected.
  yield new Uint8Array([0, 0, 0, 0]);
  for (let at = performance.now(); !signal.aborted;) {
    let rings: Promise<Listing> | undefined;
    for (const one of watched) {
      for await (const frame of one.next(at, () => rings ??= listRings(memory))) {
        quietSince = at;
        yield frame;
      }
    }
    const environments = watched.reduce((n, one) => n + one.environments, 0);
    const everyMs = 1000 / Math.min(FRAMES_PER_SECOND, FRAMES_IN_ALL / environments);
    const now = performance.now();
    const wait = now - quietSince > POLL_MS ? IDLE_MS : everyMs;
    // After a late timer, send at most one frame more.
    at = Math.max(at + wait, now - everyMs);
    await pause(Math.max(1, at - now), signal);
  }
}
