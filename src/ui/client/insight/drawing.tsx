/** A drawing as wide as its place, so that its texts keep their size. */
import { type ComponentChildren, useLayoutEffect, useRef, useState } from "../parts/preact.ts";

const USUAL = 720;
const MOST = 1100;

/** @param least width in pixels; a narrower place scrolls @param of draws within this width */
export function Drawing(
  { label, kind, height, least = 280, of }: {
    label: string;
    kind?: string;
    height: number;
    least?: number;
    of: (width: number) => ComponentChildren;
  },
) {
  const place = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(USUAL);
  useLayoutEffect(() => {
    const measure = () => setRoom(place.current!.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  const width = Math.max(least, Math.min(MOST, room));
  return (
    <div
      class="drawing"
      ref={place}
      {...(width > room ? { tabIndex: 0, role: "region", "aria-label": label } : {})}
    >
      <svg
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="img"
        aria-label={label}
        class={kind}
      >
        {of(width)}
      </svg>
    </div>
  );
}
