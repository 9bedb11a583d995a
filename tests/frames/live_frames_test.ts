/**
 * Frames of running environments: a ring that a process writes, payloads of steps, and the wall in
 * a real browser.
 */
import assert from "node:assert/strict";
import { PageLiveFrame } from "../../src/registry/contract.ts";
import { createApp } from "../../src/ui/app.ts";
import { ringName } from "../../src/frames/fastlane.ts";
import { PlayedEngine } from "../harness/played_engine.ts";
import { until } from "../harness/wait.ts";
import { chromiumPath, launch, openPage } from "../ui/chromium.ts";
import { servePage } from "../ui/served_page.ts";

const [WIDTH, HEIGHT, CAPACITY] = [16, 8, 4];
const FRAME = WIDTH * HEIGHT * 3;
const SLOT = 16 + FRAME;

/** A ring of frames of one colour. */
class RingOf implements Disposable {
  readonly path: string;
  readonly #file: Deno.FsFile;
  #n = 0;

  constructor(id: string) {
    this.path = `/dev/shm/${ringName(id)}`;
    this.#file = Deno.openSync(this.path, {
      createNew: true,
      read: true,
      write: true,
      mode: 0o600,
    });
    const bytes = new Uint8Array(80 + CAPACITY * SLOT);
    bytes.set(new TextEncoder().encode("FLAN"));
    const view = new DataView(bytes.buffer);
    [1, 0, CAPACITY, SLOT, FRAME, WIDTH, HEIGHT, 3].forEach((value, i) =>
      view.setUint32(4 + i * 4, value, true)
    );
    this.#write(0, bytes);
  }

  /** @param row of another colour than the rest */
  paint(color: number, row?: { at: number; color: number }): void {
    const n = ++this.#n;
    const slot = new Uint8Array(SLOT).fill(color);
    if (row !== undefined) {
      slot.fill(row.color, 16 + row.at * WIDTH * 3, 16 + (row.at + 1) * WIDTH * 3);
    }
    const view = new DataView(slot.buffer);
    view.setBigUint64(0, BigInt(2 * n + 2), true);
    view.setUint32(8, FRAME, true);
    view.setUint32(12, 0, true);
    this.#write(80 + ((n - 1) % CAPACITY) * SLOT, slot);
    this.#write(40, new Uint8Array(new BigUint64Array([BigInt(n)]).buffer));
  }

  #write(position: number, bytes: Uint8Array): void {
    this.#file.seekSync(position, Deno.SeekMode.Start);
    this.#file.writeSync(bytes);
  }

  [Symbol.dispose](): void {
    this.#file.close();
    Deno.removeSync(this.path);
  }
}

/** The messages of `/api/frames/live`, without the empty first one. */
async function* frameMessages(body: ReadableStream<Uint8Array>) {
  let have = new Uint8Array(0);
  for await (const part of body) {
    const all = new Uint8Array(have.length + part.length);
    all.set(have);
    all.set(part, have.length);
    have = all;
    for (;;) {
      const view = new DataView(have.buffer, have.byteOffset, have.length);
      const end = have.length < 4 ? Infinity : 4 + view.getUint32(0, true);
      if (have.length < end) break;
      if (end > 4) {
        const text = 8 + view.getUint32(4, true);
        const head = PageLiveFrame.parse(
          JSON.parse(new TextDecoder().decode(have.subarray(8, text))),
        );
        yield { head, pixels: have.slice(text, end) };
      }
      have = have.subarray(end);
    }
  }
}

/** A run id that no other test has: rings of all tests are in one directory. */
const own = () =>
  `01HZZZ${crypto.randomUUID().replaceAll("-", "").slice(0, 20).toUpperCase()}`.replace(
    /[ILOU]/g,
    "0",
  );

Deno.test({
  name: "wall: rings and payloads of what runs are drawn; while nobody looks, nothing is read",
  ignore: chromiumPath() === undefined,
  sanitizeOps: false,
  sanitizeResources: false,
}, async () => {
  await using core = new PlayedEngine();
  const server = servePage(core);
  const browser = await launch(chromiumPath()!);
  const watchers = () =>
    core.activity.subscribers.following().find((c) => c.stream === "frames")?.subscribers ?? 0;
  try {
    const { page, errors } = await openPage(browser);
    const films = core.begun(core.add("films", { runId: own() }).runId);
    const prints = core.addExecuting("prints");
    const ends = core.addExecuting("ends");
    const silent = core.ready(core.add("silent", { runId: own() }).runId);
    const hostile = core.begun(core.add("hostile", { runId: own() }).runId);
    using ring = new RingOf(films.runId);
    using part = new RingOf(`${films.runId}-w1`);
    using quiet = new RingOf(silent.runId);
    using bad = new RingOf(hostile.runId);
    Deno.writeTextFileSync(bad.path, "x".repeat(200));
    Deno.symlinkSync("/etc/passwd", `/dev/shm/${ringName(`${hostile.runId}-w1`)}`);
    try {
      await page.goto(`http://${server.address}/wall`);
      await until(() => watchers() === 1, { what: "the wall to watch" });
      let color = 0;
      const pixel = (of: string) =>
        page.locator(`[data-of="${of}"] canvas`).evaluate((e) =>
          [...(e as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, 1, 1).data].join()
        );
      const paint = () => {
        color = color % 200 + 1;
        ring.paint(color);
        part.paint(color);
        quiet.paint(color);
        core.addEpisode(prints.runId, 1, () => '{"rgb":[[[9,8,7],[1,2,3]]]}');
        core.addEpisode(
          ends.runId,
          1,
          undefined,
          Date.now(),
          '{"render_payload":{"rgb":[[[3,2,1]]]}}',
        );
      };
      await until(async () => {
        paint();
        return await page.locator(".wall .live").count() === 5;
      }, {
        what: "five environments, one of a run that has printed nothing",
        state: () => page.locator(".wall").innerHTML(),
      });
      await until(async () => await pixel(prints.runId) === "9,8,7,255", {
        what: "a payload to be drawn",
      });
      await until(async () => await pixel(ends.runId) === "3,2,1,255", {
        what: "an episode's payload to be drawn",
      });
      for (const ring of [films.runId, `${films.runId}-w1`]) {
        await until(async () => await pixel(ring) === `${color},${color},${color},255`, {
          what: `${ring} to be drawn`,
        });
      }
      const told = page.locator(`[data-of="${prints.runId}"] .sub`);
      assert.match(
        await told.textContent() ?? "",
        /episode \d+, step 0 · agent_1 · action 0 · reward 1 · \d+\sms\sago/,
      );

      // Only a row changes: the others stay as they were.
      const rows = (of: string) =>
        page.locator(`[data-of="${of}"] canvas`).evaluate((e) =>
          [0, 2, 3].map((y) =>
            (e as HTMLCanvasElement).getContext("2d")!.getImageData(0, y, 1, 1).data[0]
          ).join()
        );
      ring.paint(color, { at: 2, color: 250 });
      await until(async () => await rows(films.runId) === `${color},250,${color}`, {
        what: "one row to change",
      });

      // Steps back through what came, while nothing more comes.
      const tile = page.locator(`[data-of="${films.runId}"]`);
      await until(async () => {
        paint();
        return Number(await tile.locator("input").getAttribute("max")) > 1;
      }, { what: "some frames to step through" });
      await tile.getByRole("button", { name: "Pause" }).click();
      const newest = await tile.getAttribute("data-frame");
      paint();
      await tile.locator("input").fill("0");
      await until(async () => await tile.getAttribute("data-frame") !== newest, {
        what: "an earlier frame",
      });
      assert.match(await tile.locator(".sub").textContent() ?? "", /s\sback$/);
      await page.locator("nav a", { hasText: "Runs" }).click();
      await until(() => watchers() === 0, { what: "nobody to watch" });
      assert.deepEqual(errors, []);
    } finally {
      Deno.removeSync(`/dev/shm/${ringName(`${hostile.runId}-w1`)}`);
    }
  } finally {
    await browser.close();
    await server.stop();
  }
});

Deno.test("frames: of a ring only the rows that have changed are sent", async () => {
  await using core = new PlayedEngine();
  const app = createApp(core, { log: core.log, bound: "127.0.0.1" });
  const run = core.begun(core.add("films", { runId: own() }).runId);
  using ring = new RingOf(run.runId);
  ring.paint(1);
  const answer = await app.fetch(
    new Request(`http://127.0.0.1:8055/api/frames/live?of=${run.runId}`),
  );
  const messages = frameMessages(answer.body!);
  const next = async () => (await messages.next()).value!;
  const whole = await next();
  assert.deepEqual([whole.head.rows, whole.pixels.length, whole.pixels[0]], [null, FRAME, 1]);
  ring.paint(1, { at: 5, color: 9 });
  const one = await next();
  assert.deepEqual([one.head.rows, one.pixels], [[[5, 1]], new Uint8Array(WIDTH * 3).fill(9)]);
  ring.paint(1, { at: 5, color: 9 });
  const none = await next();
  assert.deepEqual([none.head.n, none.head.rows, none.pixels.length], [3, [], 0]);
  await messages.return(undefined);
  app.stop();
});

Deno.test("frames: how many runs one connection may name; unknown ones are refused", async () => {
  await using core = new PlayedEngine();
  const app = createApp(core, { log: core.log, bound: "127.0.0.1" });
  const status = async (query: string) => {
    const answer = await app.fetch(new Request(`http://127.0.0.1:8055/api/frames/live${query}`));
    await answer.body?.cancel();
    return answer.status;
  };
  assert.equal(await status(""), 400);
  assert.equal(await status(`?${"of=x&".repeat(65)}`), 400);
  assert.equal(await status("?of=nobody"), 404);
  app.stop();
});
