/** The version of the ingest stream, spoken by daemon and proxy, and its messages. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ProxyMessageSchema } from "../gen/mosaic/v1/ingest_pb.ts";
import { MosaicError } from "../base/errors.ts";

/** What a proxy sends. */
export type ProxyMessageInit = NonNullable<
  Exclude<MessageInitShape<typeof ProxyMessageSchema>, { $typeName: string }>["message"]
>;

/** MAJOR changes if one side could not understand the other, MINOR if something was added. */
export const INGEST_PROTOCOL = "mosaic-ingest/1.0";

/**
 * @throws MosaicError `failed_precondition` naming both versions if the other side uses another
 * major version.
 */
export function checkIngestProtocol(theirs: string, ours = INGEST_PROTOCOL): void {
  if (majorOf(theirs) !== undefined && majorOf(theirs) === majorOf(ours)) return;
  throw new MosaicError(
    "failed_precondition",
    `the proxy speaks "${theirs}" and the daemon "${ours}"`,
    {
      hint: "Proxy and daemon must be of the same major version: upgrade the older one.",
    },
  );
}

function majorOf(protocol: string): string | undefined {
  return /^mosaic-ingest\/(\d+)\.\d+$/.exec(protocol)?.[1];
}
