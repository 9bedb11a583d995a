/** The logs of a run as a view. */
import { Island } from "../parts/parts.tsx";
import { useEffect, useMemo } from "../parts/preact.ts";
import { Logs } from "./logs.ts";

export interface LogPaneProps {
  runId: string;
  /** Sizes of the logs at the last tick. */
  sizes?: Record<string, number>;
  /** The newest attempt. */
  attempt: number;
  inSight: boolean;
}

export function LogPane({ runId, sizes, attempt: number, inSight }: LogPaneProps) {
  const logs = useMemo(() => new Logs(runId), []);
  useEffect(() => logs.attempts(number), [number]);
  useEffect(() => {
    if (inSight && sizes) logs.update(sizes, number);
  }, [sizes, inSight]);
  return <Island of={logs.element} />;
}
