/**
 * Cost for the daemon of showing live environments: streams of 160×210 frames, 30 a second, each
 * read by one client.
 */
import {
  ringFrame,
  ringName,
  type RingPart,
  ringShape,
  ringStart,
} from "../../src/frames/fastlane.ts";
import { DaemonUnderTest } from "../daemon_under_test.ts";
import { pause, processFigures } from "../measure.ts";
import type { Figure } from "../report.ts";
import type { BenchOptions } from "../run.ts";

const [WIDTH, HEIGHT, RATE] = [160, 210, 30];

/**
 * A ring in which a ball moves over a field of bricks, as in many Atari games: most rows do not
 * change.
 */
class Game implements Disposable {
  readonly #path: string;
  readonly #file: Deno.FsFile;
  readonly #shape = ringShape(WIDTH, HEIGHT, 3);
  readonly #pixels = new Uint8Array(WIDTH * HEIGHT * 3);
  #frames = 0;

  constructor(runId: string) {
    this.#path = `/dev/shm/${ringName(runId)}`;
    this.#file = Deno.openSync(this.#path, {
      createNew: true,
      read: true,
      write: true,
      mode: 0o600,
    });
    this.#file.truncateSync(this.#shape.bytes);
    this.#write(ringStart(this.#shape));
    for (let y = 57; y < 93; y++) for (let x = 0; x < WIDTH; x++) this.#paint(x, y, y * 2);
  }

  draw(): void {
    const n = ++this.#frames;
    this.#ball(n - 1, 0);
    this.#ball(n, 255);
    const values = { reward: n % 2, rollingReturn: n, stepsPerSecond: RATE };
    this.#write(ringFrame(this.#shape, n, this.#pixels, values));
  }

  /** A ball of 2×4 pixels and a bat of 16×4. */
  #ball(n: number, color: number): void {
    const [left, top] = [n * 3 % (WIDTH - 2), 93 + n * 2 % 90];
    for (let y = 0; y < 4; y++) {
      for (let x = 0; x < 2; x++) this.#paint(left + x, top + y, color);
      for (let x = 0; x < 16; x++) this.#paint(n * 2 % (WIDTH - 16) + x, 189 + y, color);
    }
  }

  #paint(x: number, y: number, color: number): void {
    this.#pixels.fill(color, (y * WIDTH + x) * 3, (y * WIDTH + x) * 3 + 3);
  }

  #write(parts: RingPart[]): void {
    for (const { at, bytes } of parts) {
      this.#file.seekSync(at, Deno.SeekMode.Start);
      this.#file.writeSync(bytes);
    }
  }

  [Symbol.dispose](): void {
    this.#file.close();
    Deno.removeSync(this.#path);
  }
}

/** The processes started by this one, with their processor time. */
function childSeconds(pid: number): number {
  const children = Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`).trim().split(/\s+/)
    .filter(Boolean);
  return children.reduce((sum, child) => sum + (processFigures(Number(child))?.cpuSeconds ?? 0), 0);
}

export async function frames(options: BenchOptions): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const streams of options.pick([1, 16], [1], [1])) {
    figures.push(await watched(streams, options));
  }
  return figures;
}

async function watched(streams: number, options: BenchOptions): Promise<Figure> {
  await using bench = await DaemonUnderTest.start(["--max-runs", "32"]);
  using games = new DisposableStack();
  const runIds: string[] = [];
  for (let i = 0; i < streams; i++) runIds.push(await bench.submitCommand(["/bin/sleep", "600"]));
  await bench.ready(runIds);
  const all = runIds.map((id) => games.use(new Game(id)));
  const drawing = setInterval(() => all.forEach((game) => game.draw()), 1000 / RATE);
  games.defer(() => clearInterval(drawing));
  const windowMs = options.pick(20_000, 5000, 500);
  const cost = async () => {
    const before = {
      daemon: bench.figures().cpuSeconds,
      children: childSeconds(bench.daemon.pid),
      at: performance.now(),
    };
    await pause(windowMs);
    const seconds = (performance.now() - before.at) / 1000;
    return {
      daemon: (bench.figures().cpuSeconds - before.daemon) / seconds,
      children: Math.max(0, childSeconds(bench.daemon.pid) - before.children) / seconds,
    };
  };
  const warmUpMs = options.pick(10_000, 1000, 0);
  await pause(warmUpMs);
  const idle = await cost();
  let bytes = 0;
  let messages = 0;
  const query = runIds.map((id) => `of=${id}`).join("&");
  const { body } = await fetch(`http://${bench.daemon.http}/api/frames/live?${query}`);
  const reader = body!.getReader();
  const reading = (async () => {
    let need = 0;
    let header: number[] = [];
    for (;;) {
      const { value: part, done } = await reader.read();
      if (done) return;
      bytes += part.length;
      for (let at = 0; at < part.length;) {
        if (need > 0) {
          const taken = Math.min(need, part.length - at);
          [need, at] = [need - taken, at + taken];
          continue;
        }
        header.push(part[at++]!);
        if (header.length < 4) continue;
        need = new DataView(new Uint8Array(header).buffer).getUint32(0, true);
        if (need > 0) messages++;
        header = [];
      }
    }
  })();
  while (messages < streams) await pause(20);
  await pause(warmUpMs);
  const before = { bytes, messages, at: performance.now() };
  const live = await cost();
  const seconds = (performance.now() - before.at) / 1000;
  const sent = messages - before.messages;
  const perFrame = (bytes - before.bytes) / sent;
  await reader.cancel();
  await reading;
  return {
    ...{
      part: "frames",
      name: `${streams} watched stream${streams > 1 ? "s" : ""} of ${WIDTH}×${HEIGHT}`,
      unit: "%",
    },
    value: 100 * (live.daemon - idle.daemon + live.children - idle.children) / streams,
    detail: {
      "of it the reader of /dev/shm": 100 * (live.children - idle.children) / streams,
      "the daemon without a watcher": 100 * idle.daemon,
      "frames/s of each": sent / seconds / streams,
      "bytes a frame": perFrame,
    },
  };
}
