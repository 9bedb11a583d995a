/** The views of sweeps are a script of their own, which the page loads with the first of them. */
import { heardTime, listRuns, live } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { useEffect, useRef } from "../parts/preact.ts";

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
      const { show }: typeof import("./sweeps_view.tsx") = await import(SCRIPT);
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
