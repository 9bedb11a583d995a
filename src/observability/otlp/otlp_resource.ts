/**
 * The exporter's identity: `service.name` is mosaic unless OTEL_SERVICE_NAME or
 * OTEL_RESOURCE_ATTRIBUTES set it.
 */
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import { VERSION } from "../../base/version.ts";

export function resourceOfDaemon(): Resource {
  return defaultResource()
    .merge(resourceFromAttributes({ "service.name": "mosaic", "service.version": VERSION }))
    .merge(detectResources({ detectors: [envDetector] }));
}
