/** What a message says: of one event all that helps, of many how many of which. Pure. */
import type { EventRow } from "../../registry/row_types.ts";
import { isUrgent, type Notice, oneLine, reasonOf, textOf } from "../webhooks/messages.ts";

/** Of a run, when the message is written; undefined: it was deleted. */
export interface RunFacts {
  tags: readonly string[];
  /** Such as "12m, reward 480"; "" if there is nothing to say. */
  result: string;
  /** What a person can do about its failure; "" if nothing is known. */
  hint: string;
}

/**
 * Telegram takes 1024 characters with a picture; of Discord's and others' bounds none is smaller.
 */
const LONGEST = 1000;
const LONGEST_TITLE = 100;
/** Names in one line of a digest. */
const NAMES = 5;
const LINES = 12;

/** @param events at least one, oldest first @param page the page's address; "" for no links */
export function noticeOf(
  events: readonly EventRow[],
  page: string,
  factsOf: (runId: string) => RunFacts | undefined,
): Notice {
  const urgent = events.some(({ kind }) => isUrgent(kind));
  const [first] = events;
  if (first !== undefined && events.length === 1) {
    const facts = factsOf(first.runId);
    const lines = [textOf(first), facts?.hint ?? "", facts?.result ?? ""].filter((line) =>
      line !== ""
    );
    const link = page === "" ? "" : `\n${page}/runs/${first.runId}`;
    return {
      title: titleOf(`${first.runName} ${wordOf(first.kind)}`),
      text: cut(lines.join("\n"), link),
      urgent,
    };
  }
  const groups = Map.groupBy(events, (event) => groupOf(event, factsOf(event.runId)));
  const kinds = Map.groupBy(events, ({ kind }) => kind);
  const counts = [...kinds].map(([kind, of]) => `${of.length} ${wordOf(kind)}`).join(", ");
  const lines = [...groups].sort(([, a], [, b]) => b.length - a.length).map(([what, of]) =>
    lineOf(what, of)
  );
  const left = lines.length - LINES;
  const shown = left > 0 ? [...lines.slice(0, LINES), `and ${left} more groups`] : lines;
  return {
    title: titleOf(counts),
    text: cut([`${counts}:`, ...shown].join("\n"), page === "" ? "" : `\n${page}/`),
    urgent,
  };
}

/** Trials of a sweep that end in one way, or runs that do, are one line. */
function groupOf(event: EventRow, facts: RunFacts | undefined): string {
  const sweep = facts?.tags.find((tag) => tag.startsWith("sweep:"));
  const reason = oneLine(reasonOf(event));
  return `${sweep === undefined ? "" : `${sweep.replace(":", " ")}: `}${wordOf(event.kind)}${
    reason === "" ? "" : `: ${reason}`
  }`;
}

function lineOf(what: string, events: readonly EventRow[]): string {
  const names = [...new Set(events.map(({ runName }) => oneLine(runName)))];
  const more = names.length - NAMES;
  return `${events.length} × ${what} (${names.slice(0, NAMES).join(", ")}${
    more > 0 ? ` and ${more} more` : ""
  })`;
}

const wordOf = (kind: string) => kind.replaceAll("_", " ");
const titleOf = (text: string) => oneLine(text).slice(0, LONGEST_TITLE);

/** The end, a link, always stays. */
function cut(text: string, end: string): string {
  const room = LONGEST - end.length;
  return `${text.length > room ? `${text.slice(0, room - 1)}…` : text}${end}`;
}
