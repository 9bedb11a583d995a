/**
 * The border between list and charts: dragged, or moved by arrow keys. Its place is kept in this
 * browser.
 */
import { stored } from "../parts/early.ts";
import { useLayoutEffect, useState } from "../parts/preact.ts";

const KEY = "mosaic-list-width";
const [LEAST, MOST, STEP] = [260, 1400, 24];

/** Width of the list in pixels; undefined: what the style sheet gives it. */
export function Splitter() {
  const [width, setWidth] = useState(() => stored<number | null>(KEY, null));
  const set = (next: number) => {
    const bounded = Math.round(Math.min(MOST, innerWidth - 400, Math.max(LEAST, next)));
    localStorage.setItem(KEY, JSON.stringify(bounded));
    setWidth(bounded);
  };
  useLayoutEffect(() => {
    const style = document.documentElement.style;
    if (width === null) style.removeProperty("--list-width");
    else style.setProperty("--list-width", `${width}px`);
  }, [width]);
  const [measured, setMeasured] = useState(LEAST);
  useLayoutEffect(() => setMeasured(shown()), [width]);
  const shown = () =>
    width ?? document.querySelector<HTMLElement>(".runs-pane")?.offsetWidth ?? LEAST;
  return (
    <div
      class="splitter"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the list"
      aria-valuenow={measured}
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      tabIndex={0}
      onKeyDown={(e) => {
        const moves: Record<string, number> = { ArrowLeft: -STEP, ArrowRight: STEP };
        const move = moves[e.key];
        if (move === undefined) return;
        e.preventDefault();
        set(shown() + move);
      }}
      onPointerDown={(e) => {
        const bar = e.currentTarget;
        const from = shown() - e.clientX;
        bar.setPointerCapture(e.pointerId);
        bar.onpointermove = (moved) => set(from + moved.clientX);
        bar.onpointerup = bar.onpointercancel = () => bar.onpointermove = null;
        e.preventDefault();
      }}
      onDblClick={() => {
        localStorage.removeItem(KEY);
        setWidth(null);
      }}
    />
  );
}
