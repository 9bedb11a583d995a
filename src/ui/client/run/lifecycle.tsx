/** A run's states in order: a bar in proportion to time, and the list with reasons. */
import { shownState, stateWord } from "../../../runs/fields/lifecycle_states.ts";
import type { RunPage } from "../../api/page_json.ts";
import { msOf } from "../../../runs/fields/run_texts.ts";
import { moment } from "../parts/format.ts";
import { clock, duration } from "../../../base/text/format.ts";
import { useNow } from "../parts/parts.tsx";
import { Chip, isEnded, sentence } from "../parts/states.tsx";

export function Lifecycle({ run }: { run: RunPage }) {
  const now = useNow();
  const steps = run.transitions.map((t) => ({ ...t, at: msOf(t.at) }));
  const first = steps[0];
  if (first === undefined) return null;
  const ended = isEnded(run);
  const until = (i: number) => steps[i + 1]?.at ?? (ended ? steps[i]!.at : now);
  const final = (i: number) => ended && i === steps.length - 1;
  return (
    <div>
      <div
        class="lifebar"
        role="img"
        aria-label={`States over ${duration(until(steps.length - 1) - first.at)}`}
      >
        {steps.map((t, i) => {
          const took = Math.max(0, until(i) - t.at);
          return !final(i) && (
            <span
              key={t.seq}
              data-state={t.to}
              title={`${stateWord(shownState({ state: t.to, reason: t.reason }))} for ${
                duration(took)
              } (attempt ${t.attempt})`}
              style={{ flexGrow: String(Math.max(1, took)) }}
            />
          );
        })}
      </div>
      <ol class="lifelist">
        {steps.map((t, i) => {
          const before = steps[i - 1];
          const attempt = before !== undefined && t.attempt !== before.attempt
            ? `attempt ${t.attempt}`
            : "";
          return (
            <li key={t.seq} data-state={t.to}>
              <time title={moment(t.at)}>{clock(t.at)}</time>
              <Chip state={shownState({ state: t.to, reason: t.reason })} />
              <span class="took">{final(i) ? "" : duration(until(i) - t.at)}</span>
              <span class="why">
                {[attempt, sentence(t.reason ?? "")].filter((x) => x !== "").join(": ")}
              </span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}
