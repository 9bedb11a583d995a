/**
 * What happened to a run, from the daemon's event log: states, checkpoints, artifacts, failures,
 * commands.
 */
import { NOT_READ_KINDS, NotReadLines } from "../../../runs/fields/not_read_text.ts";
import type { EventJson } from "../../../runs/fields/host_json.ts";
import { answer, api } from "./api.ts";
import { attempt } from "./dialog.tsx";
import { timeText } from "../../../runs/fields/run_texts.ts";
import { words } from "./format.ts";
import { ScrollTable, useRedraw } from "./parts.tsx";
import { useEffect, useRef, useState } from "./preact.ts";

const PAGE = 500;
/** The document keeps this many of the newest. */
const MOST = 2000;

function dataText(data: unknown): string {
  if (data === null || typeof data !== "object") return String(data ?? "");
  return Object.entries(data).filter(([, v]) => v !== null && v !== "")
    .map(([k, v]) => `${words(k)}: ${typeof v === "string" ? v : JSON.stringify(v)}`).join(", ");
}

/**
 * @param changes grows with every new event: then everything after the last shown event is read, so
 * that none is missed
 */
export function Events({ runId, changes }: { runId: string; changes: number }) {
  const shown = useRef<EventJson[]>([]);
  const reading = useRef({ busy: false, again: false });
  const redraw = useRedraw();
  useEffect(() => {
    const state = reading.current;
    state.again = true;
    if (state.busy) return;
    state.busy = true;
    attempt(async () => {
      while (state.again) {
        state.again = false;
        const since = String(shown.current[0]?.seq ?? 0);
        const { events } = await answer(
          api.events.$get({ query: { run: runId, since, limit: String(PAGE) } }),
        );
        state.again ||= events.length === PAGE;
        shown.current = [...(events as EventJson[]).reverse(), ...shown.current].slice(0, MOST);
        redraw();
      }
    }).finally(() => state.busy = false);
  }, [changes]);
  const left = shown.current.length === MOST
    ? `The newest ${MOST}; mosaic events ${runId} tells all.`
    : "";
  return (
    <>
      {left && <p class="sub">{left}</p>}
      <ScrollTable label="Events" kind="events" headings={["Time", "Event", "Attempt", "What"]}>
        {shown.current.map((e) => (
          <tr key={e.seq}>
            <td>{timeText(e.at)}</td>
            <td>{words(e.kind)}</td>
            <td>{e.attempt}</td>
            <td class="wide">{dataText(e.data)}</td>
          </tr>
        ))}
      </ScrollTable>
    </>
  );
}

/** @param data of an event `alert`: the rule, what happened, what the daemon did */
export function alertText(data: unknown): string {
  const { alert, what, then } = data as { alert?: string; what?: string; then?: string };
  const done = then === "pause"
    ? "; the run was paused"
    : then === "cancel"
    ? "; the run was cancelled"
    : "";
  return `${what ?? "a rule is broken"}${done} (rule ${alert ?? "without a name"})`;
}

/** Rules that have alerted: each alerts once per attempt. */
export function Alerts({ runId, changes }: { runId: string; changes: number }) {
  const [alerts, setAlerts] = useState<EventJson[]>([]);
  useEffect(() => {
    attempt(async () => {
      const { events } = await answer(
        api.events.$get({ query: { run: runId, kinds: "alert", limit: String(PAGE) } }),
      );
      setAlerts(events as EventJson[]);
    });
  }, [changes]);
  if (alerts.length === 0) return null;
  return (
    <section class="alerts" aria-label="Alerts">
      {alerts.map(({ seq, at, attempt: nth, data }) => (
        <p key={seq}>
          <b>Alert</b> {alertText(data)}
          <span class="sub">{` ${timeText(at)}, attempt ${nth}`}</span>
        </p>
      ))}
    </section>
  );
}

/**
 * Why curves may be missing: files that were left out, which otherwise only the run's events show.
 */
export function LeftOut({ runId, changes }: { runId: string; changes: number }) {
  const [details, setDetails] = useState<string[]>([]);
  useEffect(() => {
    attempt(async () => {
      const { events } = await answer(
        api.events.$get({ query: { run: runId, kinds: NOT_READ_KINDS.join(","), limit: "100" } }),
      );
      const notRead = new NotReadLines();
      for (const { kind, data } of events as EventJson[]) {
        notRead.add(kind, data as Parameters<NotReadLines["add"]>[1]);
      }
      setDetails(notRead.lines);
    });
  }, [changes]);
  if (details.length === 0) return null;
  return (
    <section class="left-out" aria-label="Files that are not read">
      {details.map((detail) => <p key={detail}>{detail}</p>)}
    </section>
  );
}
