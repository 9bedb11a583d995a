/** Times on the wire. */
import { create } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { TimestampSchema } from "../base/proto_file.ts";

/** @param ms Unix milliseconds. */
export function timestampOfMs(ms: number): Timestamp {
  const seconds = Math.floor(ms / 1000);
  return create(TimestampSchema, {
    seconds: BigInt(seconds),
    nanos: Math.round((ms - seconds * 1000) * 1e6),
  });
}

export function optionalTimestamp(ms: number | null): Timestamp | undefined {
  return ms === null ? undefined : timestampOfMs(ms);
}

/** Unix nanoseconds as decimal text; "" for an unset time. */
export function nsOfTimestamp(time: Timestamp | undefined): string {
  if (time === undefined) return "";
  if (time.seconds > 0n && time.nanos >= 0) {
    return `${time.seconds}${String(time.nanos).padStart(9, "0")}`;
  }
  return String(time.seconds * 1_000_000_000n + BigInt(time.nanos));
}

export function msOfTimestamp(time: Timestamp): number {
  return Number(time.seconds) * 1000 + time.nanos / 1e6;
}
