// @ts-check
/** Pictures of the environment, from the render payloads of steps: played, followed, scrubbed. */
import { get, runPath } from "./api.js";
import { attempt } from "./dialog.js";
import { fill, h, icon, setText } from "./dom.js";
import { figure, whole } from "./format.js";

/** @typedef {{seq: number, episode: number, step: number, reward: number | string, action: unknown, payload: any}} Frame */

const CHUNK = 32;
const GRID_COLORS = [
  "#e8eaee",
  "#4b5563",
  "#2f6fd6",
  "#1f9d76",
  "#c2410c",
  "#7a5ad0",
  "#b8860b",
  "#be185d",
  "#0e7490",
  "#3f6212",
];

/** @param {unknown} v @returns {v is unknown[]} */
const isList = (v) => Array.isArray(v) && v.length > 0;

/**
 * What to draw of a payload: pixels (rows of columns of 1, 3 or 4 numbers), cells of a grid, or text.
 * @param {any} payload
 * @returns {{type: "rgb", rows: any[][]} | {type: "grid", rows: any[][]} | {type: "text", text: string} | undefined}
 */
export function pictureOf(payload) {
  if (typeof payload === "string") return { type: "text", text: payload };
  if (payload === null || typeof payload !== "object") return undefined;
  const rgb = payload.rgb ?? payload.RGB ?? payload.frame;
  if (isList(rgb) && isList(rgb[0])) return { type: "rgb", rows: /** @type {any} */ (rgb) };
  const grid = payload.grid ?? payload.cells ?? payload.board;
  if (isList(grid) && (isList(grid[0]) || typeof grid[0] === "string")) {
    return { type: "grid", rows: grid.map((/** @type {any} */ row) => typeof row === "string" ? [...row] : row) };
  }
  const text = payload.ansi ?? payload.text ?? payload.fen;
  return typeof text === "string" ? { type: "text", text } : undefined;
}

/** @param {HTMLCanvasElement} canvas @param {any[][]} rows */
function drawPixels(canvas, rows) {
  const height = rows.length;
  const width = rows[0]?.length ?? 0;
  canvas.width = width;
  canvas.height = height;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = ctx.createImageData(width, height);
  let at = 0;
  for (const row of rows) {
    for (const pixel of row) {
      const grey = typeof pixel === "number" ? pixel : pixel[0];
      const color = typeof pixel !== "number" && pixel.length >= 3;
      image.data[at] = grey;
      image.data[at + 1] = color ? pixel[1] : grey;
      image.data[at + 2] = color ? pixel[2] : grey;
      image.data[at + 3] = color && pixel.length === 4 ? pixel[3] : 255;
      at += 4;
    }
  }
  ctx.putImageData(image, 0, 0);
}

/** @param {HTMLCanvasElement} canvas @param {any[][]} rows */
function drawGrid(canvas, rows) {
  const cell = Math.max(6, Math.floor(480 / Math.max(rows.length, rows[0]?.length ?? 1)));
  canvas.width = cell * (rows[0]?.length ?? 0);
  canvas.height = cell * rows.length;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.font = `${Math.floor(cell * 0.6)}px monospace`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  rows.forEach((row, y) =>
    row.forEach((value, x) => {
      const kind = Array.isArray(value) ? value[0] : value;
      const number = typeof kind === "number" ? Math.abs(Math.trunc(kind)) : 0;
      ctx.fillStyle = GRID_COLORS[number % GRID_COLORS.length] ?? "#888";
      ctx.fillRect(x * cell, y * cell, cell - 1, cell - 1);
      if (typeof kind !== "string") return;
      ctx.fillStyle = "#1b1f24";
      ctx.fillText(kind.slice(0, 2), x * cell + cell / 2, y * cell + cell / 2);
    })
  );
}

export class Frames {
  /** @type {Frame[]} */
  #frames = [];
  #at = 0;
  #next = 0;
  #head = 0;
  #busy = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;
  #canvas = h("canvas", { class: "frame", role: "img", "aria-label": "Frame" });
  #text = h("pre", { class: "frame-text", hidden: true });
  #caption = h("p", { class: "sub" }, "");
  #slider = h("input", { type: "range", min: "1", max: "1", value: "1", "aria-label": "Step" });
  #play = h("button", { type: "button", onclick: () => this.#toggle() }, icon("play"), "Play");
  #follow = h("input", { type: "checkbox" });
  #speed = h(
    "select",
    { "aria-label": "Frames per second" },
    [5, 10, 20, 40].map((n) => h("option", { value: n }, `${n} fps`)),
  );

  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    this.#speed.value = "10";
    this.#speed.addEventListener("change", () => this.#timer !== undefined && (this.#stop(), this.#start()));
    this.#slider.addEventListener("change", () => {
      this.#follow.checked = false;
      attempt(() => this.#load(Number(this.#slider.value) - 1));
    });
    this.element = h(
      "div",
      { class: "frames" },
      h("div", { class: "log-tools" }, this.#play, this.#speed, h("label", {}, this.#follow, " Follow"), this.#slider),
      h("div", { class: "stage" }, this.#canvas, this.#text),
      this.#caption,
    );
  }

  /** Called on every tick, with the newest step. @param {number} head */
  update(head) {
    this.#head = head;
    this.#slider.max = String(Math.max(1, head));
    if (this.#follow.checked) attempt(() => this.#load(Math.max(0, head - CHUNK), true));
    else if (this.#frames.length === 0) attempt(() => this.#load(0));
  }

  /** Frames after seq `since`, looked for until one is found or the steps end. @param {number} since @param {boolean} [last] */
  async #load(since, last = false) {
    if (this.#busy) return;
    this.#busy = true;
    try {
      let from = since;
      for (let tries = 0; tries < 20; tries++) {
        const answer = await get(runPath(this.runId, `/frames?since=${from}&limit=${CHUNK}`));
        this.#next = answer.next;
        if (answer.frames.length > 0) {
          this.#frames = answer.frames;
          this.#at = last ? answer.frames.length - 1 : 0;
          return this.#draw();
        }
        if (answer.next <= from || answer.next >= answer.head) break;
        from = answer.next;
      }
      if (this.#frames.length === 0) {
        setText(this.#caption, this.#head === 0 ? "No steps yet." : "No step looked at carries a render payload.");
      }
    } finally {
      this.#busy = false;
    }
  }

  #draw() {
    const frame = this.#frames[this.#at];
    if (frame === undefined) return;
    const picture = pictureOf(frame.payload);
    this.#canvas.hidden = picture === undefined || picture.type === "text";
    this.#text.hidden = picture?.type !== "text";
    if (picture?.type === "rgb") drawPixels(this.#canvas, picture.rows);
    else if (picture?.type === "grid") drawGrid(this.#canvas, picture.rows);
    else if (picture?.type === "text") setText(this.#text, picture.text);
    const told = `Episode ${whole(frame.episode)}, step ${whole(frame.step)}, reward ${figure(frame.reward)}, seq ${
      whole(frame.seq)
    }`;
    setText(this.#caption, picture === undefined ? `${told}: this payload has no picture that is known here` : told);
    this.#canvas.setAttribute("aria-label", told);
    this.#slider.value = String(frame.seq);
  }

  #toggle() {
    this.#timer === undefined ? this.#start() : this.#stop();
  }

  #start() {
    fill(this.#play, icon("pause"), "Pause");
    this.#timer = setInterval(() => this.#advance(), 1000 / Number(this.#speed.value));
  }

  #stop() {
    clearInterval(this.#timer);
    this.#timer = undefined;
    fill(this.#play, icon("play"), "Play");
  }

  #advance() {
    if (this.#busy) return;
    if (this.#at + 1 < this.#frames.length) {
      this.#at++;
      this.#draw();
    } else if (this.#next < this.#head) attempt(() => this.#load(this.#next));
    else if (!this.#follow.checked) this.#stop();
  }

  destroy() {
    clearInterval(this.#timer);
  }
}
