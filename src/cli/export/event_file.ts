/**
 * TensorBoard's event file: TFRecord frames (length, its masked CRC-32C, data, its masked CRC-32C)
 * that each hold a `tensorflow.Event`. Encodes only the four fields that scalars need.
 */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { frame } from "../../readers/tensorboard/tfrecord.ts";

export interface Scalar {
  tag: string;
  value: number;
  /** The x axis. */
  step: number;
  /** Unix seconds. */
  wallTime: number;
}

/** A file name that TensorBoard recognizes. */
export function eventFileName(unixSeconds: number, host: string): string {
  return `events.out.tfevents.${Math.floor(unixSeconds)}.${host}`;
}

/**
 * The first frame of every event file. @param writer the program that writes it, as
 * `source_metadata`; "": not said
 */
export function versionFrame(wallTime: number, writer = ""): Uint8Array {
  const event = new BinaryWriter();
  event.tag(1, WireType.Bit64).double(wallTime);
  event.tag(3, WireType.LengthDelimited).string("brain.Event:2");
  if (writer !== "") {
    event.tag(10, WireType.LengthDelimited).fork().tag(1, WireType.LengthDelimited).string(writer)
      .join();
  }
  return frame(event.finish());
}

export function scalarFrame({ tag, value, step, wallTime }: Scalar): Uint8Array {
  const event = new BinaryWriter();
  event.tag(1, WireType.Bit64).double(wallTime);
  event.tag(2, WireType.Varint).int64(step);
  event.tag(5, WireType.LengthDelimited).fork(); // summary
  event.tag(1, WireType.LengthDelimited).fork(); // value
  event.tag(1, WireType.LengthDelimited).string(tag);
  event.tag(2, WireType.Bit32).float(Math.fround(value));
  event.join().join();
  return frame(event.finish());
}

/** The scalars of an episode or metric record; omits values that are not finite. */
export function scalarsOf(kind: "episodes" | "metrics", record: Record<string, unknown>): Scalar[] {
  const wallTime = Date.parse(String(record["timestamp"])) / 1000;
  const step = Number(kind === "metrics" ? record["step"] : record["seq"]);
  const values: [string, unknown][] = kind === "metrics"
    ? [[String(record["name"]), record["value"]]]
    : [["episode/reward", record["total_reward"]], ["episode/length", record["steps"]]];
  return values.flatMap(([tag, value]) =>
    typeof value === "number" && Number.isFinite(value) ? [{ tag, value, step, wallTime }] : []
  );
}
