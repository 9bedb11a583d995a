/** Lists a run's videos, pictures, sounds, texts and histograms, by tag and in order. Pure. */
import type { MediaEvent, RunPage } from "../../api/page_json.ts";
import { msOf } from "../../../runs/fields/run_texts.ts";
import { natural } from "../../../base/text/natural_order.ts";

export type Artifact = RunPage["artifacts"][number];
export type MediumKind = "video" | "image" | "audio" | "table" | "text" | "histogram";

export interface Medium {
  kind: MediumKind;
  tag: string;
  step: number | null;
  episode: number | null;
  /**
   * Unix milliseconds; null for texts and histograms, whose time is known only after reading them.
   */
  at: number | null;
  /** A file, or the seq of an event. */
  source: Artifact | number;
}

const KIND_OF_EXTENSION: Record<string, MediumKind> = {
  ...{ mp4: "video", webm: "video" },
  ...{ gif: "image", png: "image", jpg: "image", jpeg: "image", webp: "image" },
  ...{ wav: "audio", ogg: "audio", mp3: "audio" },
};

/** As W&B writes them. */
const TABLE = ".table.json";

function ofArtifact(source: Artifact): Medium | undefined {
  const [directory = "", name = ""] = source.path.split("/").slice(-2);
  const isTable = name.endsWith(TABLE);
  const kind = isTable
    ? "table"
    : KIND_OF_EXTENSION[/\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? ""];
  if (kind === undefined) return undefined;
  const stem = name.slice(0, isTable ? -TABLE.length : name.lastIndexOf("."));
  // Names of media that mosaic extracted from event files, then W&B's names, then any other.
  const [, tag, step] =
    (source.path.startsWith("media/") ? /^(.*)-(\d+)-\d+$/ : /^(.*)_(\d+)_[0-9a-f]{16,}$/).exec(
      stem,
    ) ??
      [];
  const episode = /(?<![a-z])ep(?:isode)?[-_=]?(\d+)/i.exec(stem)?.[1];
  return {
    kind,
    tag: tag ??
      (stem.replace(/[-_]?(?<![a-z])(?:ep(?:isode)?|steps?)[-_=]?\d+|[-_]?\d+[-_]?steps?/gi, "") ||
        directory),
    step: source.step ?? (step === undefined ? null : Number(step)),
    episode: episode === undefined ? null : Number(episode),
    at: msOf(source.at),
    source,
  };
}

/** By tag; within a tag in the order of steps, else episodes, else times. */
export function mediaOf(
  artifacts: readonly Artifact[],
  events: readonly MediaEvent[],
): [tag: string, media: Medium[]][] {
  const all = [
    ...artifacts.flatMap((a) => ofArtifact(a) ?? []),
    ...events.map(({ seq, kind, tag, step }): Medium => ({
      kind: kind as MediumKind,
      tag,
      step,
      episode: null,
      at: null,
      source: seq,
    })),
  ];
  const byTag = Map.groupBy(all, ({ kind, tag }) => `${tag} ${kind}`);
  const place = ({ step, episode, at, source }: Medium) =>
    step ?? episode ?? at ?? (typeof source === "number" ? source : 0);
  return [...byTag.values()]
    .map((media): [string, Medium[]] => [media[0]!.tag, media.sort((a, b) => place(a) - place(b))])
    .sort(([a], [b]) => natural(a, b));
}

/** What is searched: the known ones of episode, step and time. */
export interface Moment {
  episode: number | null;
  step: number | null;
  at: number | null;
}

/** The one of the episode, else the nearest by step, else by time; -1 if none of these is known. */
export function nearestTo(media: readonly Medium[], { episode, step, at }: Moment): number {
  if (episode !== null && media.some((m) => m.episode !== null)) {
    return media.findIndex((m) => m.episode === episode);
  }
  const by = (of: (m: Medium) => number | null, value: number): number => {
    let best = -1;
    media.forEach((m, i) => {
      const is = of(m);
      if (is === null) return;
      if (best < 0 || Math.abs(is - value) < Math.abs(of(media[best]!)! - value)) best = i;
    });
    return best;
  };
  const byStep = step === null ? -1 : by((m) => m.step, step);
  return byStep >= 0 || at === null ? byStep : by((m) => m.at, at);
}
