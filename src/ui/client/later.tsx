/** A view that is loaded when it is first shown. */
import { attempt } from "./parts/dialog.tsx";
import { useEffect, useRef } from "./parts/preact.ts";

type Further = typeof import("./further_views.tsx");
type Views = Further["VIEWS"];

/** A variable, so that the bundler leaves it a script of its own. */
const SCRIPT = "/assets/further.js";

/** @param view of further_views.tsx, with its props */
export function Later<V extends keyof Views>({ view, props }: { view: V; props: Parameters<Views[V]>[0] }) {
  const place = useRef<HTMLDivElement>(null);
  const newest = useRef(props);
  newest.current = props;
  const loaded = useRef<Further["draw"]>(undefined);
  useEffect(() => {
    const element = place.current!;
    let mounted = true;
    attempt(async () => {
      const { draw }: Further = await import(SCRIPT);
      if (!mounted) return;
      loaded.current = draw;
      draw(element, view, newest.current);
    });
    return () => {
      mounted = false;
      loaded.current?.(element, view, null);
    };
  }, []);
  useEffect(() => loaded.current?.(place.current!, view, props));
  return <div ref={place} class="island" />;
}
