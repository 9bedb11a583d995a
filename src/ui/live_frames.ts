/**
 * Frames of running environments, while a client reads them: the newest frame of each run, from its shared-memory rings or,
 * if it has none, from the payloads of its stored steps and episodes. Frames that arrive faster than the client reads are skipped.
 *
 * A message: its length after these 4 bytes (u32, little endian), length of a JSON text (u32), the text, the pixels.
 */
import type { Core } from "../dispatch/core/core.ts";
import { isEnded } from "../registry/lifecycle/lifecycle.ts";
import { openRegular, type RegularFile } from "../os/untrusted.ts";
import {
  type Picture,
  pictureOfPayload,
  RING_DIRECTORY,
  type RingFrame,
  ringName,
  RingReader,
  ringsOf,
} from "../wire/fastlane.ts";
import { pause } from "../wire/waiting.ts";
import { FRAME_KINDS, type FrameKind, renderPayloadOf } from "../telemetry/render_payload.ts";
import { finiteOrText, type LiveFrame, parsed } from "./page_json.ts";
import { placeOf } from "./pictures.ts";

export const MAX_WATCHED = 64;
const FRAMES_PER_SECOND = 30;
/** Of all environments of one connection together: beyond, each has fewer. */
const FRAMES_IN_ALL = 240;
/** Payloads of records are parsed for each frame. */
const RECORDS_FRAMES_PER_SECOND = 10;
/** How often new rings, and runs that have ended, are looked for. */
const LOOK_MS = 2000;
const IDLE_MS = 250;
/** Of these newest records one may have a picture: several agents take turns. */
const NEWEST_RECORDS = 8;
/** A payload that is no picture is sent as it is. */
const MAX_PAYLOAD = 64 << 10;

const encoder = new TextEncoder();

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
class Ring {
  readonly #of: string;
  readonly #runId: string;
  readonly #rest: string;
  readonly #file: RegularFile;
  readonly #reader: RingReader;
  readonly inode: number;
  spoilt = false;

  constructor(runId: string, rest: string, file: RegularFile) {
    this.#runId = runId;
    this.#rest = rest;
    this.#of = runId + rest;
    this.#file = file;
    this.inode = file.stat().ino;
    this.#reader = new RingReader(file);
  }

  next(): Uint8Array<ArrayBuffer> | undefined {
    let frame: RingFrame | undefined;
    try {
      frame = this.spoilt ? undefined : this.#reader.next();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.spoilt = true;
    }
    if (frame === undefined) return undefined;
    const { n, width, height, channels, reward, rollingReturn, stepsPerSecond } = frame;
    const head: LiveFrame = {
      ...{ of: this.#of, run_id: this.#runId, part: this.#rest, source: "ring", n, at: Date.now() },
      ...{ width, height, channels, ...NO_STEP, payload: null },
      reward: finiteOrText(reward),
      rolling_return: finiteOrText(rollingReturn),
      steps_per_second: finiteOrText(stepsPerSecond),
    };
    return message(head, frame.pixels);
  }

  close(): void {
    this.#file.close();
  }
}

class Watched {
  readonly #core: Core;
  readonly #runId: string;
  readonly #rings = new Map<string, Ring>();
  #lookAt = 0;
  #isLive = true;
  readonly #shown: Record<FrameKind, number>;
  #recordsAt = 0;

  constructor(core: Core, runId: string) {
    this.#core = core;
    this.#runId = runId;
    const before = (kind: FrameKind) => Math.max(0, core.records.head(runId, kind) - 1);
    this.#shown = { steps: before("steps"), episodes: before("episodes") };
  }

  get environments(): number {
    return Math.max(1, this.#rings.size);
  }

  *next(now: number, names: () => readonly string[]): Generator<Uint8Array<ArrayBuffer>> {
    if (now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
      const row = this.#core.runs.get(this.#runId);
      this.#isLive = row !== undefined && !isEnded(row.state);
      this.#look(this.#isLive ? ringsOf(this.#runId, names()) : []);
    }
    if (!this.#isLive) return;
    for (const ring of this.#rings.values()) {
      const frame = ring.next();
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

  /** Opens rings that are new or were made anew, and closes those that are gone. */
  #look(rests: string[]): void {
    for (const [rest, ring] of this.#rings) {
      if (rests.includes(rest) && inodeOf(this.#runId + rest) === ring.inode) continue;
      ring.close();
      this.#rings.delete(rest);
    }
    for (const rest of rests.slice(0, MAX_WATCHED)) {
      if (this.#rings.has(rest)) continue;
      const file = openRing(this.#runId + rest);
      if (file !== undefined) this.#rings.set(rest, new Ring(this.#runId, rest, file));
    }
  }

  /** The newest stored record that has a payload. */
  #ofRecords(kind: FrameKind): Uint8Array<ArrayBuffer> | undefined {
    const { records } = this.#core;
    const newest = records.head(this.#runId, kind);
    if (newest <= this.#shown[kind]) return undefined;
    const from = Math.max(this.#shown[kind], newest - NEWEST_RECORDS);
    const record = records.read(this.#runId, kind, from, NEWEST_RECORDS).findLast((one) => renderPayloadOf(one) !== "");
    this.#shown[kind] = newest;
    if (record === undefined) return undefined;
    const payload = renderPayloadOf(record);
    const picture: Picture | undefined = pictureOfPayload(payload);
    if (picture === undefined && payload.length > MAX_PAYLOAD) return undefined;
    const { width, height, channels, pixels } = picture ?? { width: 0, height: 0, channels: 0, pixels: NOTHING };
    const head: LiveFrame = {
      ...{ of: this.#runId, run_id: this.#runId, part: "", source: kind, n: record.seq },
      ...{ at: Number(BigInt(record.tsNs) / 1_000_000n), width, height, channels },
      ...{ episode: record.episode, agent: record.agentId, ...placeOf(record) },
      ...{ rolling_return: null, steps_per_second: null, payload: picture === undefined ? parsed(payload) : null },
    };
    return message(head, pixels);
  }

  close(): void {
    for (const ring of this.#rings.values()) ring.close();
  }
}

/** Rings are a file of the worker in a directory that everybody may write to. */
function openRing(id: string): RegularFile | undefined {
  try {
    return openRegular(`${RING_DIRECTORY}/${ringName(id)}`);
  } catch {
    // Ignore anything that is not a plain file of this user.
    return undefined;
  }
}

function inodeOf(id: string): number | null | undefined {
  try {
    return Deno.lstatSync(`${RING_DIRECTORY}/${ringName(id)}`).ino;
  } catch {
    return undefined;
  }
}

/** None where the runtime does not let this daemon look: only `-A` grants it anything below /dev (docs/permissions.md). */
function namesOfRings(): string[] {
  try {
    return [...Deno.readDirSync(RING_DIRECTORY)].map(({ name }) => name);
  } catch {
    return [];
  }
}

/** The messages of these runs until the reader leaves. */
export async function* framesLive(
  core: Core,
  runIds: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const watched = [...new Set(runIds)].map((runId) => new Watched(core, runId));
  let quietSince = performance.now();
  try {
    // An empty message tells the page that it is connected.
    yield new Uint8Array([0, 0, 0, 0]);
    for (let at = performance.now(); !signal.aborted;) {
      let names: string[] | undefined;
      for (const one of watched) {
        for (const frame of one.next(at, () => names ??= namesOfRings())) {
          quietSince = at;
          yield frame;
        }
      }
      const environments = watched.reduce((n, one) => n + one.environments, 0);
      const everyMs = 1000 / Math.min(FRAMES_PER_SECOND, FRAMES_IN_ALL / environments);
      const now = performance.now();
      const wait = now - quietSince > LOOK_MS ? IDLE_MS : everyMs;
      // After a late timer, send at most one frame more.
      at = Math.max(at + wait, now - everyMs);
      await pause(Math.max(1, at - now), signal);
    }
  } finally {
    for (const one of watched) one.close();
  }
}
