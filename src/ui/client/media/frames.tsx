/**
 * Pictures of the environment, from the render payloads of steps and episodes: played, followed,
 * scrubbed.
 */
import type { Frame } from "../../api/page_json.ts";
import { answer, param, runApi } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { figure, whole } from "../parts/format.ts";
import { Icon } from "../parts/parts.tsx";
import { useEffect, useLayoutEffect, useRef, useState } from "../parts/preact.ts";

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

const isList = (v: unknown): v is unknown[] => Array.isArray(v) && v.length > 0;

type Pixel = number | number[];
type Picture = { type: "rgb"; rows: Pixel[][] } | { type: "grid"; rows: unknown[][] } | {
  type: "text";
  text: string;
};

/**
 * What to draw for a payload: pixels (rows of columns of 1, 3 or 4 numbers), cells of a grid, or
 * text.
 */
// deno-lint-ignore no-explicit-any
export function pictureOf(payload: any): Picture | undefined {
  if (typeof payload === "string") return { type: "text", text: payload };
  if (payload === null || typeof payload !== "object") return undefined;
  const rgb = payload.rgb ?? payload.RGB ?? payload.frame;
  if (isList(rgb) && isList(rgb[0])) return { type: "rgb", rows: rgb as Pixel[][] };
  const grid = payload.grid ?? payload.cells ?? payload.board;
  if (isList(grid) && (isList(grid[0]) || typeof grid[0] === "string")) {
    return {
      type: "grid",
      rows: grid.map((row) => typeof row === "string" ? [...row] : row as unknown[]),
    };
  }
  const text = payload.ansi ?? payload.text ?? payload.fen;
  return typeof text === "string" ? { type: "text", text } : undefined;
}

function drawPixels(canvas: HTMLCanvasElement, rows: Pixel[][]): void {
  const height = rows.length;
  const width = rows[0]?.length ?? 0;
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext("2d")!;
  const image = ctx.createImageData(width, height);
  let at = 0;
  for (const row of rows) {
    for (const pixel of row) {
      const [first = 0, second, third, alpha] = typeof pixel === "number" ? [pixel] : pixel;
      const color = third !== undefined;
      image.data.set([
        first,
        color ? second! : first,
        color ? third : first,
        color ? alpha ?? 255 : 255,
      ], at);
      at += 4;
    }
  }
  ctx.putImageData(image, 0, 0);
}

export function drawGrid(canvas: HTMLCanvasElement, rows: unknown[][]): void {
  const cell = Math.max(6, Math.floor(480 / Math.max(rows.length, rows[0]?.length ?? 1)));
  canvas.width = cell * (rows[0]?.length ?? 0);
  canvas.height = cell * rows.length;
  const ctx = canvas.getContext("2d")!;
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

export interface FramesProps {
  runId: string;
  /** The newest step and episode. */
  heads: Record<FrameKind, number>;
  /** The panel is visible. */
  inSight: boolean;
  /** A record to show; a new object for each request. */
  sought: Sought | undefined;
}

export type FrameKind = "steps" | "episodes";
export interface Sought {
  kind: FrameKind;
  seq: number;
}

export function Frames({ runId, heads, inSight, sought }: FramesProps) {
  const [kind, setKind] = useState<FrameKind>("steps");
  const head = heads[kind];
  const [shown, setShown] = useState<{ frames: Frame[]; at: number; next: number }>({
    frames: [],
    at: 0,
    next: 0,
  });
  const [searched, setSearched] = useState(false);
  const [playing, setPlaying] = useState(false);
  const [follow, setFollow] = useState(false);
  const [speed, setSpeed] = useState(10);
  const busy = useRef(false);
  const canvas = useRef<HTMLCanvasElement>(null);

  /** Frames after seq `since`: reads until one is found or the records end. */
  const load = (since: number, last = false, of = kind) =>
    attempt(async () => {
      if (busy.current) return;
      busy.current = true;
      try {
        let from = since;
        for (let tries = 0; tries < 20; tries++) {
          const query = { kind: of, since: String(from), limit: String(CHUNK) };
          const got = await answer(runApi.frames.$get({ ...param(runId), query }));
          if (got.frames.length > 0) {
            const frames = got.frames as Frame[];
            setShown({ frames, at: last ? frames.length - 1 : 0, next: got.next });
            setKind(of);
            break;
          }
          if (got.next <= from || got.next >= got.head) {
            // Some workers render only the end of an episode.
            if (of === "episodes" || since > 0 || heads.episodes === 0) break;
            of = "episodes";
            from = 0;
            continue;
          }
          from = got.next;
        }
      } finally {
        busy.current = false;
        setSearched(true);
      }
    });
  const { frames, at, next } = shown;
  useEffect(() => {
    if (!inSight) return;
    if (follow) load(Math.max(0, head - CHUNK), true);
    else if (frames.length === 0 && sought === undefined) load(0);
  }, [inSight, follow, head, frames.length === 0 && heads.episodes]);
  useEffect(() => {
    if (sought === undefined) return;
    setFollow(false);
    load(sought.seq - 1, false, sought.kind);
  }, [sought]);
  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      if (at + 1 < frames.length) setShown({ ...shown, at: at + 1 });
      else if (next < head) load(next);
      else if (!follow) setPlaying(false);
    }, 1000 / speed);
    return () => clearTimeout(timer);
  }, [playing, shown, speed, head]);

  const frame = frames[at];
  const picture = frame && pictureOf(frame.payload);
  useLayoutEffect(() => {
    if (picture?.type === "rgb") drawPixels(canvas.current!, picture.rows);
    else if (picture?.type === "grid") drawGrid(canvas.current!, picture.rows);
  }, [frame]);
  const caption = frame === undefined
    ? !searched
      ? ""
      : head === 0
      ? `No ${kind} yet.`
      : `None of the ${kind} looked at carry a render payload.`
    : `Episode ${whole(frame.episode)}, ${kind === "steps" ? "step" : "length"} ${
      whole(frame.step)
    }, reward ${figure(frame.reward)}, seq ${whole(frame.seq)}${
      picture === undefined ? ": this payload has no picture that is known here" : ""
    }`;
  return (
    <div class="frames">
      <div class="log-tools">
        <button type="button" onClick={() => setPlaying(!playing)}>
          <Icon name={playing ? "pause" : "play"} />
          {playing ? "Pause" : "Play"}
        </button>
        <select
          aria-label="Frames per second"
          value={speed}
          onChange={(e) => setSpeed(Number(e.currentTarget.value))}
        >
          {[5, 10, 20, 40].map((n) => <option key={n} value={n}>{`${n} fps`}</option>)}
        </select>
        <label>
          <input
            type="checkbox"
            checked={follow}
            onChange={(e) => setFollow(e.currentTarget.checked)}
          />{" "}
          Follow
        </label>
        <select
          aria-label="Frames of"
          value={kind}
          onChange={(e) => {
            setFollow(false);
            setShown({ frames: [], at: 0, next: 0 });
            setKind(e.currentTarget.value as FrameKind);
            load(0, false, e.currentTarget.value as FrameKind);
          }}
        >
          <option value="steps">of steps</option>
          <option value="episodes">of episodes</option>
        </select>
        <input
          type="range"
          min="1"
          max={Math.max(1, head)}
          value={frame?.seq ?? 1}
          aria-label={kind === "steps" ? "Step" : "Episode"}
          onChange={(e) => {
            setFollow(false);
            load(Number(e.currentTarget.value) - 1);
          }}
        />
      </div>
      <div class="stage">
        <canvas
          class="frame"
          role="img"
          aria-label={frame ? caption : "Frame"}
          ref={canvas}
          hidden={frame !== undefined && picture?.type !== "rgb" && picture?.type !== "grid"}
        />
        <pre
          class="frame-text"
          hidden={picture?.type !== "text"}
        >{picture?.type === "text" ? picture.text : ""}</pre>
      </div>
      <p class="sub">{caption}</p>
    </div>
  );
}
