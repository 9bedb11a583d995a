/** An episode line of any dialect (episode, episode_done, episode_end) as an EpisodeRecord. */
import { withNamedNonFinite } from "../../base/text/json_text.ts";
import { episodeOfLine, type LineContext } from "../../gen/records/line_fields.ts";
import type { EpisodeRecord } from "../../gen/records/record_types.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import { parsedMetadata, TAKE } from "./take.ts";

/**
 * The worker's metadata object as written, with the record's further fields added; metadata
 * overrides them.
 */
function takeMetadata(
  fields: Fields,
  metadata: Record<string, unknown> | undefined,
  slot: number,
): string {
  if (metadata === undefined) return `{${fields.leftovers()}}`;
  fields.take(slot);
  const value = fields.value(slot);
  const text = typeof value === "string"
    ? withNamedNonFinite(value).trim()
    : fields.textOfMetrics(slot);
  const leftovers = fields.leftovers(metadata);
  if (leftovers === "") return text;
  return Object.keys(metadata).length === 0
    ? `{${leftovers}}`
    : `${text.slice(0, text.lastIndexOf("}"))},${leftovers}}`;
}

/** @returns the record, or why the line is malformed. */
export function readEpisode(fields: Fields, context: LineContext): EpisodeRecord | string {
  fields.take(SLOT.run_id);
  const encoded = parsedMetadata(fields.value(SLOT.metadata_json));
  const metadata = encoded ?? parsedMetadata(fields.value(SLOT.metadata));
  const record = episodeOfLine(fields, TAKE, context, metadata);
  if (typeof record === "string") return record;
  record.metadataJson = takeMetadata(
    fields,
    metadata,
    encoded === undefined ? SLOT.metadata : SLOT.metadata_json,
  );
  return record;
}
