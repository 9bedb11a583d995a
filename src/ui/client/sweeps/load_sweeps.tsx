/** The views of sweeps are a script of their own, which the page loads with the first of them. */
import { Charts } from "../charts/charts.tsx";
import { heardTime, listRuns, live } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { render, useEffect, useRef } from "../parts/preact.ts";

type Script = typeof import("./sweeps_view.tsx");

/** A variable, so that the bundler leaves it a script of its own. */
const SCRIPT = "/assets/sweeps.js";

/** The charts are this script's. */
const drawCurves: Parameters<Script["show"]>[2] = (element, runs, metric, changes) =>
  render(runs === null ? null : <Charts runs={runs} changes={changes} only={metric} />, element);

/** @param name of one sweep; "": all */
export function SweepsView({ name }: { name: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let close = () => {};
    let disconnect = () => {};
    let mounted = true;
    attempt(async () => {
      const { show }: Script = await import(SCRIPT);
      if (mounted) close = show(place.current!, name, drawCurves);
      // Says how the connection stands.
      const { head } = await listRuns({ limit: "1" });
      if (mounted) {
        disconnect = live("/api/live", head, { tick: ({ at }: { at: number }) => heardTime(at) });
      }
    });
    return () => {
      mounted = false;
      disconnect();
      close();
    };
  }, [name]);
  return <div class="compare" ref={place} />;
}

/** Parameters and results, which comparisons show below everything else. */
export function LoadedInsight(props: Parameters<Script["showInsight"]>[1]) {
  const place = useRef<HTMLDivElement>(null);
  const close = useRef(() => {});
  useEffect(() =>
    void attempt(async () => {
      const { showInsight }: Script = await import(SCRIPT);
      if (place.current) close.current = showInsight(place.current, props);
    }), [props.runs, props.groups]);
  useEffect(() => () => close.current(), []);
  return <div ref={place} />;
}
