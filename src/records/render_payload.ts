/** A record's frame: a field of a step, part of an episode's metadata. */
import { parsedObject, repairedJson } from "../base/text/json_text.ts";

export const FRAME_KINDS = ["steps", "episodes"] as const;
export type FrameKind = typeof FRAME_KINDS[number];

type Framed = { renderPayloadJson: string } | { metadataJson: string };

/** JSON text of the render payload; "" if the record has none, or an empty one. */
export function renderPayloadOf(record: Framed): string {
  const json = "renderPayloadJson" in record
    ? record.renderPayloadJson
    : inMetadata(record.metadataJson);
  return json.length > 2 ? json : "";
}

/** Whether an episode may have a frame, without parsing its metadata. */
export function hasRenderPayload({ metadataJson }: { metadataJson: string }): boolean {
  return metadataJson.includes('"render_payload');
}

function inMetadata(metadataJson: string): string {
  if (!hasRenderPayload({ metadataJson })) return "";
  const { render_payload: plain, render_payload_json: encoded } = parsedObject(metadataJson) ?? {};
  const payload = encoded ?? plain ?? "";
  return typeof payload === "string"
    ? repairedJson(payload) ?? JSON.stringify(payload)
    : JSON.stringify(payload);
}

/** The record without its frame, which may be larger than everything else together. */
export function withoutRenderPayload<T extends Framed>(record: T): T {
  if ("renderPayloadJson" in record) return { ...record, renderPayloadJson: "" };
  if (renderPayloadOf(record) === "") return record;
  const { render_payload: _, render_payload_json: __, ...rest } =
    parsedObject(record.metadataJson) ?? {};
  return { ...record, metadataJson: JSON.stringify(rest) };
}
