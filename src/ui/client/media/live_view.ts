/**
 * One live environment: its newest frame on a canvas, its state, and its last seconds for stepping
 * back.
 */
import { completed } from "../../../frames/changed_rows.ts";
import { sizedMessages } from "../../http/sized_messages.ts";
import type { LiveFrame } from "../../api/page_json.ts";
import { now } from "../parts/api.ts";
import { h, iconButton } from "../parts/dom.ts";
import { figure, whole } from "../parts/format.ts";
import { drawGrid, pictureOf } from "./frames.tsx";

export interface Frame {
  head: LiveFrame;
  pixels: Uint8Array;
  /** Milliseconds from the frame's origin to this page. */
  latency: number;
}

/** How much of the past is kept for stepping back. */
const PAST_MS = 10_000;
/** Interval at which the age of the newest frame is written while no other comes. */
const AGE_MS = 1000;
const agoText = (ms: number) =>
  ms < 1000 ? `${Math.round(ms)}\u00a0ms\u00a0ago` : `${Math.round(ms / 1000)}\u00a0s\u00a0ago`;
/** For all environments of the page together. */
const PAST_BYTES = 192 << 20;

export class LiveView {
  readonly element: HTMLElement;
  readonly canvas = h("canvas", { class: "frame", role: "img", "aria-label": "No frame yet" });
  paused = false;
  #past: (Frame & { heard: number })[] = [];
  #bytes = 0;
  /** How many frames back from the newest. */
  #back = 0;
  #caption = h("p", { class: "sub" });
  #text = h("pre", { class: "frame-text", hidden: true });
  #pause: HTMLButtonElement;
  #slider = h("input", {
    type: "range",
    min: "0",
    max: "0",
    value: "0",
    oninput: () => this.#goTo(Number(this.#slider.value)),
  });
  #wanted = 0;
  #aging: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param views number of environments on the page @param onpause called when it is paused or
   * continued
   */
  constructor(
    readonly of: string,
    title: Node | string,
    readonly views: () => number,
    readonly onpause: () => void,
  ) {
    this.#pause = iconButton("pause", "Pause", () => this.pause(!this.paused));
    this.#slider.setAttribute("aria-label", "Which of the last frames");
    this.element = h(
      "figure",
      { class: "medium live", "data-of": of },
      h("figcaption", {}, title),
      this.canvas,
      this.#text,
      this.#caption,
      h("div", { class: "live-tools" }, this.#pause, this.#slider),
    );
  }

  pause(on: boolean): void {
    if (this.paused === on) return;
    this.paused = on;
    const button = iconButton(
      on ? "play" : "pause",
      on ? "Go on" : "Pause",
      () => this.pause(!this.paused),
    );
    const hadFocus = document.activeElement === this.#pause;
    this.#pause.replaceWith(button);
    this.#pause = button;
    if (hadFocus) button.focus();
    this.#back = 0;
    this.#slider.max = String(Math.max(0, this.#past.length - 1));
    this.#slider.value = this.#slider.max;
    this.onpause();
  }

  #goTo(at: number): void {
    this.pause(true);
    this.#back = this.#past.length - 1 - at;
    this.#slider.value = String(at);
    this.#draw();
  }

  show(head: LiveFrame, pixels: Uint8Array): void {
    if (this.paused) return;
    const heard = performance.now();
    this.#past.push({ head, pixels, heard, latency: Math.max(0, now() - head.at) });
    this.#bytes += pixels.length;
    const most = PAST_BYTES / Math.max(1, this.views());
    while (
      this.#past.length > 1 && (heard - this.#past[0]!.heard > PAST_MS || this.#bytes > most)
    ) {
      this.#bytes -= this.#past.shift()!.pixels.length;
    }
    this.#slider.max = String(this.#past.length - 1);
    this.#slider.value = this.#slider.max;
    // Its age goes on if no other comes.
    clearTimeout(this.#aging);
    this.#aging = setTimeout(() => this.#grow(), AGE_MS);
    // Draw at most one frame per screen refresh.
    this.#wanted ||= requestAnimationFrame(() => {
      this.#wanted = 0;
      this.#draw();
    });
  }

  #grow(): void {
    if (!this.element.isConnected || this.paused) return;
    this.#draw();
    this.#aging = setTimeout(() => this.#grow(), AGE_MS);
  }

  #draw(): void {
    const frame = this.#past[this.#past.length - 1 - this.#back];
    if (frame === undefined) return;
    const { head, pixels, latency, heard } = frame;
    const picture = head.payload === null ? undefined : pictureOf(head.payload);
    const text = picture?.type === "text" ? picture.text : undefined;
    this.#text.hidden = text === undefined;
    this.canvas.hidden = text !== undefined;
    if (text !== undefined) this.#text.textContent = text;
    else if (picture?.type === "grid") drawGrid(this.canvas, picture.rows);
    else if (head.width > 0) drawPicture(this.canvas, head, pixels);
    const brief = (value: unknown) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return text.length > 24 ? `${text.slice(0, 23)}…` : text;
    };
    const caption = [
      head.episode !== null && `episode ${whole(head.episode)}, step ${whole(head.step)}`,
      head.run_step !== null && `run at step ${whole(head.run_step)}`,
      head.agent,
      head.action !== null && `action ${brief(head.action)}`,
      head.reward !== null && `reward ${figure(head.reward)}`,
      head.rolling_return !== null && `return ${figure(head.rolling_return)}`,
      typeof head.steps_per_second === "number" && head.steps_per_second > 0 &&
      `${figure(head.steps_per_second)} steps/s`,
      this.paused
        ? `${
          ((this.#past.at(-1)!.heard - this.#past[this.#past.length - 1 - this.#back]!.heard) /
            1000).toFixed(1)
        }\u00a0s\u00a0back`
        : agoText(latency + performance.now() - heard),
    ].filter(Boolean).join(" · ");
    this.#caption.textContent = caption;
    this.canvas.setAttribute("aria-label", caption);
    this.element.dataset.frame = String(head.n);
  }
}

function drawPicture(
  canvas: HTMLCanvasElement,
  { width, height, channels }: LiveFrame,
  pixels: Uint8Array,
): void {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const ctx = canvas.getContext("2d")!;
  const image = ctx.createImageData(width, height);
  const out = image.data;
  if (channels === 4) out.set(pixels.subarray(0, out.length));
  else {
    for (let from = 0, to = 0; to < out.length; from += 3, to += 4) {
      out[to] = pixels[from]!;
      out[to + 1] = pixels[from + 1]!;
      out[to + 2] = pixels[from + 2]!;
      out[to + 3] = 255;
    }
  }
  ctx.putImageData(image, 0, 0);
}

/** Wait before a lost connection is opened again. */
const AGAIN_MS = 1500;

/**
 * Reads the frames of runs: nothing is requested while the page is hidden or no run is wanted.
 * @returns sets which runs are wanted
 */
export function watchFrames(
  onframe: (head: LiveFrame, pixels: Uint8Array) => void,
): { want: (runIds: string[]) => void; close: () => void } {
  let wanted: string[] = [];
  let open = new AbortController();
  let requested = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const update = () => {
    const ids = document.hidden ? [] : wanted;
    if (ids.join() === requested) return;
    requested = ids.join();
    clearTimeout(timer);
    open.abort();
    open = new AbortController();
    if (ids.length > 0) read(ids, open.signal);
  };
  const read = async (ids: string[], signal: AbortSignal) => {
    try {
      const query = ids.map((id) => `of=${encodeURIComponent(id)}`).join("&");
      const { ok, body } = await fetch(`/api/frames/live?${query}`, { signal });
      if (ok) await readMessages(body!, onframe);
    } catch {
      // The page already shows the state of the connection.
    }
    if (signal.aborted) return;
    timer = setTimeout(() => {
      requested = "";
      update();
    }, AGAIN_MS);
  };
  document.addEventListener("visibilitychange", update);
  return {
    want: (runIds) => {
      wanted = runIds;
      update();
    },
    close() {
      wanted = [];
      update();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", update);
    },
  };
}

async function readMessages(
  body: ReadableStream<Uint8Array>,
  onframe: (head: LiveFrame, pixels: Uint8Array) => void,
): Promise<void> {
  const decoder = new TextDecoder();
  /** The last picture of each environment. */
  const last = new Map<string, Uint8Array>();
  for await (const message of sizedMessages(body)) {
    if (message.length === 0) continue;
    const end = 4 + new DataView(message.buffer, message.byteOffset).getUint32(0, true);
    const head: LiveFrame = JSON.parse(decoder.decode(message.subarray(4, end)));
    const whole = completed(last.get(head.of), head, head.rows, message.slice(end));
    // A picture whose earlier rows were lost is not shown; the next connection begins with a whole
    // one.
    if (whole === undefined) {
      throw new RangeError(`frame ${head.n} of ${head.of} does not fit the one before`);
    }
    last.set(head.of, whole);
    onframe(head, whole);
  }
}
