/** Steps and episodes page by page, by their sequence numbers; each opens as JSON. */
import { answer, param, runApi } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { figure, whole } from "../parts/format.ts";
import { clock } from "../../../base/text/format.ts";
import { ScrollTable } from "../parts/parts.tsx";
import { useEffect, useRef, useState } from "../parts/preact.ts";

const PAGE = 100;

function brief(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

// deno-lint-ignore no-explicit-any
type Row = Record<string, any>;
const END = (r: Row) => r.terminated ? "terminated" : r.truncated ? "truncated" : "";
const TIME = (r: Row) => clock(Number(BigInt(r.ts_ns || "0") / 1000000n));
const COLUMNS: Record<
  "steps" | "episodes",
  [label: string, kind: string, text: (r: Row) => string][]
> = {
  steps: [
    ["Episode", "num", (r) => whole(r.episode_index)],
    ["Step", "num", (r) => whole(r.step_index)],
    ["Reward", "num", (r) => figure(r.reward ?? r.reward_text)],
    ["Action", "mono", (r) => brief(r.action)],
    ["Observation", "mono wide c1", (r) => brief(r.observation)],
    ["End", "", END],
    ["Agent", "c2", (r) => r.agent_id ?? ""],
    ["Time", "c2", TIME],
  ],
  episodes: [
    ["Episode", "num", (r) => whole(r.episode_index)],
    ["Reward", "num", (r) => figure(r.total_reward ?? r.total_reward_text)],
    ["Length", "num", (r) => whole(r.steps)],
    ["End", "", END],
    ["Agent", "c2", (r) => r.agent_id ?? ""],
    ["Metadata", "mono wide c1", (r) => brief(r.metadata)],
    ["Time", "c2", TIME],
  ],
};

interface Page {
  since: number;
  rows: Row[];
  /** There are no other rows up to this seq. */
  to: number;
}

export interface ExplorerProps {
  runId: string;
  kind: "steps" | "episodes";
  /** The newest seq. */
  head: number;
  /** The panel is visible. */
  inSight: boolean;
}

export function Explorer({ runId, kind, head, inSight }: ExplorerProps) {
  const [page, setPage] = useState<Page>({ since: 0, rows: [], to: 0 });
  const [follow, setFollow] = useState(true);
  const [json, setJson] = useState("Choose a row to see the whole record.");
  const busy = useRef(false);
  const jump = useRef<HTMLInputElement>(null);

  const goTo = async (since: number, following = false) => {
    setFollow(following);
    if (busy.current) return;
    busy.current = true;
    await attempt(async () => {
      const from = Math.max(0, Math.min(since, head - PAGE));
      const { id } = param(runId).param;
      const rows: Row[] = [];
      // An answer has fewer rows if they are large.
      for (let at = from; at < head && rows.length < PAGE; at = rows.at(-1)!.seq) {
        const request = {
          param: { id, kind },
          query: { since: String(at), limit: String(PAGE - rows.length) },
        };
        const more: Row[] = (await answer(runApi[":kind"].$get(request)))[kind] ?? [];
        if (more.length === 0) break;
        rows.push(...more);
      }
      setPage({ since: from, rows, to: rows.length < PAGE ? head : rows.at(-1)!.seq });
    });
    busy.current = false;
  };
  useEffect(() => {
    if (inSight && follow && head > 0) goTo(Infinity, true);
  }, [inSight, head, follow]);

  const open = (seq: number) => {
    setFollow(false);
    attempt(async () => {
      const { id } = param(runId).param;
      const record: Row = await answer(
        runApi[":kind"][":seq{[0-9]+}"].$get({ param: { id, kind, seq: String(seq) } }),
      );
      // Pictures are for the view of frames; as digits they would hide everything else.
      for (const part of [record, record.metadata]) {
        if (part?.render_payload) part.render_payload = brief(part.render_payload);
      }
      setJson(JSON.stringify(record, null, 2));
    });
  };
  const { since, rows, to } = page;
  const columns = COLUMNS[kind];
  const gap = (last: number, next: number) =>
    next > last + 1 && (
      <tr key={`gap ${last}`} class="missing">
        <td colSpan={columns.length + 1}>
          {`${whole(last + 1)} to ${whole(next - 1)} (${
            whole(next - last - 1)
          }) are missing or damaged: mosaic doctor`}
        </td>
      </tr>
    );
  return (
    <div class="explorer">
      <form
        class="log-tools"
        onSubmit={(event) => {
          event.preventDefault();
          if (jump.current?.value) goTo(Number(jump.current.value) - 1);
        }}
      >
        <button type="button" onClick={() => goTo(0)}>First</button>
        <button type="button" onClick={() => goTo(since - PAGE)}>Back</button>
        <button type="button" onClick={() => goTo(since + PAGE)}>Next</button>
        <button type="button" onClick={() => goTo(Infinity)}>Last</button>
        <label>
          <input
            type="checkbox"
            checked={follow}
            onChange={(e) => setFollow(e.currentTarget.checked)}
          />{" "}
          Follow
        </label>
        <span class="sub" role="status">
          {head === 0
            ? `No ${kind} yet`
            : `${whole(since + 1)} to ${whole(Math.min(since + PAGE, head))} of ${whole(head)}`}
        </span>
        <span class="grow" />
        <input
          type="number"
          min="1"
          placeholder="seq"
          aria-label="Go to sequence number"
          ref={jump}
        />
        <button type="submit">Go to</button>
      </form>
      <div class="explorer-parts">
        <ScrollTable
          label={`Table of ${kind}`}
          kind="records"
          headings={[["Seq", "num"], ...columns.map(([label, c]) => [label, c] as const)]}
          caption={kind}
        >
          {rows.map((row, i) => [
            gap(rows[i - 1]?.seq ?? since, row.seq),
            <tr key={row.seq} onClick={() => open(row.seq)}>
              <td class="num">
                <button type="button" class="link">{whole(row.seq)}</button>
              </td>
              {columns.map(([label, c, text]) => <td key={label} class={c}>{text(row)}</td>)}
            </tr>,
          ])}
          {gap(rows.at(-1)?.seq ?? since, to + 1)}
        </ScrollTable>
        <pre class="json" tabIndex={0} aria-label="Record as JSON">{json}</pre>
      </div>
    </div>
  );
}
