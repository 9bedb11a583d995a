/**
 * A run's videos, pictures, sounds, texts and histograms, by step: files from its artifacts, texts
 * and histograms from its events.
 */
import type { MediaEvent, RunPage } from "../../api/page_json.ts";
import { msOf } from "../../../runs/fields/run_texts.ts";
import { answer, param, runApi } from "../parts/api.ts";
import { artifactPath, NotShown } from "./save_link.tsx";
import type { CurvePoint } from "../charts/chart.ts";
import { attempt, notice } from "../parts/dialog.tsx";
import type { Sought } from "./frames.tsx";
import { figure, moment, whole } from "../parts/format.ts";
import { bytes } from "../../../base/text/format.ts";
import { type Artifact, mediaOf, type Medium, type Moment, nearestTo } from "./media_entries.ts";
import { useEffect, useMemo, useState } from "../parts/preact.ts";
import { ScrollTable } from "../parts/parts.tsx";
import { showTab } from "../parts/tabs.tsx";

/** Searches the events until this many answers have come; a person can continue. */
const ANSWERS_AT_ONCE = 25;
/** For a histogram. */
const BARS = 40;

export interface MediaProps {
  run: RunPage;
  /** The clicked point of a curve; a new object for each click. */
  sought: Moment | undefined;
  inSight: boolean;
}

export function Media({ run, sought, inSight }: MediaProps) {
  const [searched, setSearched] = useState<{ list: MediaEvent[]; from: number; to: number }>({
    list: [],
    from: 0,
    to: 0,
  });
  const [searching, setSearching] = useState(false);
  const [step, setStep] = useState<number>();
  const { events } = run.heads;

  /** From the newest event back; a second search reads only newer or older events. */
  const search = (back: boolean) =>
    attempt(async () => {
      if (searching) return;
      setSearching(true);
      try {
        let before = back ? searched.from : events + 1;
        const until = back ? 1 : searched.to + 1;
        let list: MediaEvent[] = [];
        for (let n = 0; n < ANSWERS_AT_ONCE && before > until; n++) {
          const got = await answer(
            runApi.media_events.$get({ ...param(run.run_id), query: { before: String(before) } }),
          );
          list = [...list, ...got.events.filter((one) => one.seq >= until)];
          before = got.from;
        }
        setSearched((was) => ({
          list: [...was.list, ...list],
          from: back || was.to === 0 ? before : was.from,
          to: Math.max(was.to, events),
        }));
      } finally {
        setSearching(false);
      }
    });
  useEffect(() => {
    if (inSight && !searching && events > searched.to) search(false);
  }, [inSight, searching, events]);

  const tags = useMemo(() => mediaOf(run.artifacts, searched.list), [run.artifacts, searched]);
  const steps = useMemo(
    () =>
      [...new Set(tags.flatMap(([, media]) => media.flatMap((m) => m.step ?? [])))].sort((a, b) =>
        a - b
      ),
    [tags],
  );
  useEffect(() => setStep(undefined), [sought]);
  const goal = useMemo(
    () => step === undefined ? sought : { step: steps[step] ?? null, episode: null, at: null },
    [step, sought],
  );
  if (tags.length === 0) {
    return (
      <p class="empty">
        {searching
          ? "Looking …"
          : "No videos, pictures, sounds, texts or histograms yet: files under videos, and what trackers' files hold, appear here."}
      </p>
    );
  }
  const at = step ?? steps.length - 1;
  return (
    <div>
      <div class="log-tools">
        {steps.length > 1 && (
          <label class="grow media-step">
            Step{" "}
            <input
              type="range"
              min="0"
              max={steps.length - 1}
              value={at}
              aria-valuetext={`step ${whole(steps[at])}`}
              onInput={(e) => setStep(Number(e.currentTarget.value))}
            />{" "}
            <output>{whole(steps[at])}</output>
          </label>
        )}
        {searched.from > 1 && (
          <button
            type="button"
            disabled={searching}
            onClick={() => search(true)}
          >
            {`Look through ${whole(searched.from - 1)} earlier events`}
          </button>
        )}
      </div>
      <div class="media">
        {tags.map(([tag, media]) => (
          <Card
            key={`${tag} ${media[0]!.kind}`}
            runId={run.run_id}
            tag={tag}
            media={media}
            goal={goal}
          />
        ))}
      </div>
    </div>
  );
}

interface CardProps {
  runId: string;
  tag: string;
  media: Medium[];
  goal: Moment | undefined;
}

/** All media of one tag; shows the newest unless another is chosen. */
function Card({ runId, tag, media, goal }: CardProps) {
  const [chosen, setChosen] = useState<Medium["source"]>();
  useEffect(() => {
    const found = goal === undefined ? -1 : nearestTo(media, goal);
    if (found >= 0) setChosen(media[found]!.source);
  }, [goal]);
  const same = (a: Medium["source"], b: Medium["source"]) => a === b || keyOf(a) === keyOf(b);
  const found = chosen === undefined ? -1 : media.findIndex((m) => same(m.source, chosen));
  const at = found < 0 ? media.length - 1 : found;
  const medium = media[at]!;
  const { step, episode, source } = medium;
  const caption = [
    step !== null && `step ${whole(step)}`,
    episode !== null && `episode ${whole(episode)}`,
    typeof source === "object" && `${bytes(source.bytes)}, ${moment(msOf(source.at))}`,
  ].filter(Boolean).join(" · ");
  return (
    <figure class="medium" data-tag={tag}>
      <figcaption>
        <b>{tag}</b> <span class="sub">{caption}</span>
      </figcaption>
      {typeof source === "object"
        ? <File runId={runId} medium={medium} file={source} />
        : <Event runId={runId} medium={medium} seq={source} />}
      {media.length > 1 && (
        <input
          type="range"
          min="0"
          max={media.length - 1}
          value={at}
          aria-label={`Which of ${media.length} of ${tag}`}
          aria-valuetext={caption}
          onInput={(e) => setChosen(media[Number(e.currentTarget.value)]!.source)}
        />
      )}
    </figure>
  );
}

const keyOf = (source: Medium["source"]) => typeof source === "object" ? source.path : source;

function File(
  { runId, medium: { kind, tag }, file }: { runId: string; medium: Medium; file: Artifact },
) {
  // A file that was rewritten counts as another file.
  const url = `${artifactPath(runId, file.path)}?at=${file.at}`;
  const [failed, setFailed] = useState<string>();
  if (failed === url) return <NotShown url={url} path={file.path} />;
  const onError = () => setFailed(url);
  if (kind === "video") {
    return (
      <video controls loop muted preload="metadata" src={url} aria-label={tag} onError={onError} />
    );
  }
  if (kind === "table") return <Table url={url} tag={tag} onError={onError} />;
  if (kind === "audio") {
    return <audio controls preload="none" src={url} aria-label={tag} onError={onError} />;
  }
  return <img loading="lazy" src={url} alt={tag} onError={onError} />;
}

interface Cells {
  columns?: unknown;
  data?: unknown;
}

/** Rows that are shown. */
const MOST_ROWS = 100;

/** A table of W&B; of pictures in it, the name of their file. */
function Table({ url, tag, onError }: { url: string; tag: string; onError: () => void }) {
  const [{ columns, data }, setCells] = useState<Cells>({});
  useEffect(() => {
    let wanted = true;
    fetch(url).then(async (response) => {
      if (!response.ok) throw new Error(response.statusText);
      const cells = await response.json();
      if (!Array.isArray(cells?.columns) || !Array.isArray(cells.data)) throw new Error("no table");
      if (wanted) setCells(cells);
    }).catch(() => wanted && onError());
    return () => {
      wanted = false;
    };
  }, [url]);
  if (!Array.isArray(columns) || !Array.isArray(data)) return <p class="empty">…</p>;
  return (
    <div>
      <ScrollTable label={tag} kind="records" headings={columns.map(String)}>
        {data.slice(0, MOST_ROWS).map((row, i) => (
          <tr key={i}>{[row].flat().map((cell, j) => <td key={j}>{textOf(cell)}</td>)}</tr>
        ))}
      </ScrollTable>
      {data.length > MOST_ROWS && (
        <p class="sub">{`${whole(data.length)} rows; the first ${MOST_ROWS} are shown`}</p>
      )}
    </div>
  );
}

function textOf(cell: unknown): string {
  if (typeof cell === "object" && cell !== null) {
    return "path" in cell ? String(cell.path) : JSON.stringify(cell);
  }
  return String(cell ?? "");
}

interface Content {
  text?: string;
  left?: number[];
  right?: number[];
  count?: number[];
}

function Event(
  { runId, medium: { kind, tag }, seq }: { runId: string; medium: Medium; seq: number },
) {
  const [content, setContent] = useState<Content>();
  useEffect(() => {
    let wanted = true;
    attempt(async () => {
      const { id } = param(runId).param;
      const request = { param: { id, kind: "events", seq: String(seq) } };
      const { payload } = await answer(runApi[":kind"][":seq{[0-9]+}"].$get(request)) as {
        payload: Content;
      };
      if (wanted) setContent(payload);
    });
    return () => {
      wanted = false;
    };
  }, [seq]);
  if (content === undefined) return <p class="empty">…</p>;
  if (kind === "text") {
    return <pre class="told" tabIndex={0} aria-label={tag}>{String(content.text ?? "")}</pre>;
  }
  return <Histogram tag={tag} {...content} />;
}

function Histogram({ tag, left = [], right = [], count = [] }: Content & { tag: string }) {
  const [from = 0] = left;
  const to = right.at(-1) ?? 0;
  if (!(to > from)) {
    return <p class="empty">{`${whole(count[0] ?? 0)} values of ${figure(from)}`}</p>;
  }
  const width = (to - from) / BARS;
  // Buckets differ in width: distribute their counts over bars of equal width.
  const bars = new Array<number>(BARS).fill(0);
  count.forEach((n, i) => {
    const [low, high] = [left[i]!, right[i]!];
    const first = Math.min(BARS - 1, Math.max(0, Math.floor((low - from) / width)));
    const last = Math.min(BARS - 1, Math.max(first, Math.ceil((high - from) / width) - 1));
    for (let bar = first; bar <= last; bar++) {
      const shared = Math.min(high, from + (bar + 1) * width) - Math.max(low, from + bar * width);
      bars[bar]! += first === last ? n : n * shared / (high - low);
    }
  });
  const highest = Math.max(...bars);
  const path = bars.map((n, i) => `M${i * 10} 100v${(-n / highest * 100).toFixed(1)}h9V100`);
  const total = count.reduce((a, b) => a + b, 0);
  return (
    <div>
      <svg
        class="histogram"
        viewBox={`0 0 ${BARS * 10} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${tag}: ${whole(total)} values from ${figure(from)} to ${figure(to)}`}
      >
        <path d={path.join("")} />
      </svg>
      <p class="sub ends">
        <span>{figure(from)}</span>
        <span>{`${whole(total)} values`}</span>
        <span>{figure(to)}</span>
      </p>
    </div>
  );
}

/**
 * After a click on a curve: shows the video of that episode or step, else its frames. @param show
 * called with what to show
 */
export async function pick(
  run: RunPage,
  { unit, x, step, at }: CurvePoint,
  show: { clip: (moment: Moment) => void; frame: (sought: Sought) => void },
): Promise<void> {
  const isEpisode = unit === "episode";
  const query = isEpisode ? { episode: String(x) } : { at: String(at) };
  const { episode, step_seq: seq } = await answer(
    runApi.moment.$get({ ...param(run.run_id), query }),
  );
  const sought: Moment = { episode, step, at };
  const clips = mediaOf(run.artifacts, []).filter(([, media]) => media[0]!.kind !== "audio");
  if (clips.some(([, media]) => nearestTo(media, sought) >= 0)) {
    show.clip(sought);
    return showTab("media");
  }
  const places: Sought[] = [{ kind: "steps", seq: seq ?? 0 }, {
    kind: "episodes",
    seq: isEpisode ? x : 0,
  }];
  for (const place of places.filter(({ seq }) => seq > 0)) {
    const request = { kind: place.kind, since: String(place.seq - 1), limit: "1" };
    if (
      (await answer(runApi.frames.$get({ ...param(run.run_id), query: request }))).frames.length ===
        0
    ) continue;
    show.frame(place);
    return showTab("frames");
  }
  notice(
    isEpisode
      ? `Episode ${whole(episode)} has no clip and no frames.`
      : "There is no clip and no frame near it.",
  );
}
