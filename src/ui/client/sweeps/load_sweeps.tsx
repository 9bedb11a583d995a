/** The views of sweeps are a script of their own, which the page loads with the first of them. */
import { heardTime, listRuns, live } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { useEffect, useRef } from "../parts/preact.ts";

type Script = typeof import("./sweeps_view.tsx");

/** A variable, so that the bundler leaves it a script of its own. */
const SCRIPT = "/assets/sweeps.js";

/** @param name of one sweep; "": all */
export function SweepsView({ name }: { name: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let close = () => {};
    let disconnect = () => {};
    let mounted = true;
    attempt(async () => {
      const { show }: Script = await import(SCRIPT);
      if (mounted) close = show(place.current!, name);
      // Says how the connection stands.
      const { head } = await listRuns({ limit: "1" });
      if (mounted) disconnect = live("/api/live", head, { tick: ({ at }: { at: number }) => heardTime(at) });
    });
    return () => {
      mounted = false;
      disconnect();
      close();
    };
  }, [name]);
  return <div class="compare" ref={place} />;
}

/** The plot of parameters and results, which comparisons show below everything else. */
export function LoadedScatter(props: Parameters<Script["showScatter"]>[1]) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() =>
    void attempt(async () => {
      const { showScatter }: Script = await import(SCRIPT);
      if (place.current) showScatter(place.current, props);
    }), [props.runs, props.groups]);
  return <div ref={place} />;
}
