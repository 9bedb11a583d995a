/**
 * The one JSON of events, artifacts and the host: from what the daemon knows, and from its
 * messages.
 */
import type { Artifact, Event, HostResponse } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { FieldJson, type Properties } from "./field_json.ts";
import { ARTIFACT_FIELDS, EVENT_FIELDS, HOST_FIELDS } from "./host_fields.ts";
import type { JsonOf, Properties as PropertiesOf } from "./run_types.ts";

export type EventJson = Omit<JsonOf<(typeof EVENT_FIELDS)[number]>, "data"> & {
  data: Record<string, unknown>;
};
export type ArtifactJson = JsonOf<(typeof ARTIFACT_FIELDS)[number]>;
export type HostJson = JsonOf<(typeof HOST_FIELDS)[number]>;
export type HostInfo = PropertiesOf<(typeof HOST_FIELDS)[number]>;

const EVENT = new FieldJson(EVENT_FIELDS);
const ARTIFACT = new FieldJson(ARTIFACT_FIELDS);
const HOST = new FieldJson(HOST_FIELDS);

type EventSource = Omit<PropertiesOf<(typeof EVENT_FIELDS)[number]>, "data"> & { dataJson: string };
type ArtifactSource = PropertiesOf<(typeof ARTIFACT_FIELDS)[number]>;

const withData = ({ dataJson, ...event }: EventSource) => ({ ...event, data: dataJson });
const orEmpty = (event: EventJson): EventJson => ({ ...event, data: event.data ?? {} });

export const eventJson = (event: EventSource): EventJson => orEmpty(EVENT.json(withData(event)));
export const eventMessage = (event: EventSource): Properties => EVENT.message(withData(event));
export const eventJsonOf = (event: Event): EventJson => orEmpty(EVENT.parsed(event));

export const artifactJson = (artifact: ArtifactSource): ArtifactJson => ARTIFACT.json(artifact);
export const artifactMessage = (artifact: ArtifactSource): Properties => ARTIFACT.message(artifact);
export const artifactJsonOf = (artifact: Artifact): ArtifactJson => ARTIFACT.parsed(artifact);

export const hostJson = (host: HostInfo): HostJson => HOST.json(host);
export const hostMessage = (host: HostInfo): Properties => HOST.message(host);
export const hostJsonOf = (host: HostResponse): HostJson => HOST.parsed(host);
