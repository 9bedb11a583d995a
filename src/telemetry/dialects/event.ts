/** A lifecycle line (`run_started`, `heartbeat`, `checkpoint_saved`, `artifact`, …) as a WorkerEventRecord. */
import type { WorkerEventRecord } from "../batch.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import { takeTime } from "./step.ts";

/** The payload's fields and those beside it make one object; the payload wins. */
export function readEvent(fields: Fields, name: string): WorkerEventRecord {
  fields.take(SLOT.run_id);
  const tsNs = takeTime(fields);
  const payload = fields.value(SLOT.payload);
  let dataJson: string;
  if (typeof payload === "object" && payload !== null && !Array.isArray(payload)) {
    fields.take(SLOT.payload);
    const text = fields.text(SLOT.payload);
    const beside = fields.leftovers(payload as Record<string, unknown>);
    const empty = Object.keys(payload).length === 0;
    dataJson = beside === "" ? text : empty ? `{${beside}}` : `${text.slice(0, -1)},${beside}}`;
  } else {
    dataJson = `{${fields.leftovers()}}`;
  }
  return { kind: name, dataJson, tsNs };
}
