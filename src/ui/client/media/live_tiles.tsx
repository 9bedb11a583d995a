/** Live environments: tiles beside a run's curve, and a wall of all of them. */
import "../parts/common.ts";
import type { LiveFrame } from "../../api/page_json.ts";
import { heardTime, listRuns, live } from "../parts/api.ts";
import { attempt } from "../parts/dialog.tsx";
import { h } from "../parts/dom.ts";
import { plural } from "../parts/format.ts";
import { LiveView, watchFrames } from "./live_view.ts";
import { useEffect, useRef, useState } from "../parts/preact.ts";

const MOST_WATCHED = 64;

interface Shown {
  run_id: string;
  name: string;
}

/** One tile per environment with frames; only visible tiles are requested. */
export function LiveTiles(
  { runs, titled, onchange }: { runs: Shown[]; titled: boolean; onchange?: (n: number) => void },
) {
  const place = useRef<HTMLDivElement>(null);
  const wanted = useRef(() => {});
  const names = useRef(new Map<string, string>());
  names.current = new Map(runs.map((r) => [r.run_id, r.name]));
  useEffect(() => {
    const views = new Map<string, LiveView & { runId: string }>();
    const away = new Set<string>();
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const of = (target as HTMLElement).dataset.of!;
        isIntersecting ? away.delete(of) : away.add(of);
      }
      wanted.current();
    }, { rootMargin: "100px" });
    const add = ({ of, run_id: runId, part }: LiveFrame) => {
      const title = titled
        ? h(
          "a",
          { href: `/runs/${encodeURIComponent(runId)}` },
          (names.current.get(runId) ?? runId) + part,
        )
        : `Live${part}`;
      const view = Object.assign(
        new LiveView(of, title, () => views.size, () => wanted.current()),
        { runId },
      );
      views.set(of, view);
      place.current!.append(view.element);
      observer.observe(view.element);
      onchange?.(views.size);
      return view;
    };
    const stream = watchFrames((head, pixels) => {
      if (!views.has(head.of) && views.size >= MOST_WATCHED) return;
      (views.get(head.of) ?? add(head)).show(head, pixels);
    });
    let timer: ReturnType<typeof setTimeout> | undefined;
    wanted.current = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        // A run without known tiles may have one, so it is requested; a run whose tiles are all out
        // of sight or paused is not.
        const known = [...views.values()];
        const isWanted = (id: string) => {
          const its = known.filter((v) => v.runId === id);
          return its.length === 0 || its.some((v) => !v.paused && !away.has(v.of));
        };
        stream.want([...names.current.keys()].filter(isWanted).slice(0, MOST_WATCHED));
      }, 100);
    };
    wanted.current();
    return () => {
      clearTimeout(timer);
      wanted.current = () => {};
      stream.close();
      observer.disconnect();
    };
  }, []);
  useEffect(() => wanted.current(), [runs.map((r) => r.run_id).join()]);
  return <div class={titled ? "wall" : "live-tiles"} ref={place} />;
}

/** All live runs, up to 64 environments. */
export function Wall() {
  const [runs, setRuns] = useState<Shown[]>([]);
  const [total, setTotal] = useState(0);
  const [tiles, setTiles] = useState(0);
  useEffect(() => {
    document.title = "Wall · mosaic";
    let close = () => {};
    let mounted = true;
    const read = () =>
      attempt(async () => {
        const list = await listRuns({ state: "ready,executing", limit: String(MOST_WATCHED) });
        if (!mounted) return list.head;
        setRuns(list.runs);
        setTotal(list.total);
        return list.head;
      });
    read().then(async () => {
      const { head } = await listRuns({ limit: "1" });
      if (mounted) {
        close = live("/api/live", head, {
          tick: ({ at }) => heardTime(at),
          runs: () => void read(),
        });
      }
    });
    return () => {
      mounted = false;
      close();
    };
  }, []);
  const left = total > MOST_WATCHED ? `; the newest ${MOST_WATCHED} are watched` : "";
  return (
    <div>
      <h1 class="unseen">Wall</h1>
      <p class="sub" role="status">
        {`${plural(total, "run")} at work${left}, ${plural(tiles, "environment")}`}
      </p>
      <LiveTiles runs={runs} titled onchange={setTiles} />
      {tiles === 0 && (
        <p class="empty">
          No frames yet. A run that prints render_payload, or fills its shared-memory ring, appears
          here.
        </p>
      )}
    </div>
  );
}
