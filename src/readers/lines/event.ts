/**
 * A lifecycle line (`run_started`, `heartbeat`, `checkpoint_saved`, `artifact`, …) as a
 * WorkerEventRecord.
 */
import { parseKeepingNumbers } from "../../base/text/exact_numbers.ts";
import { isJson } from "../../base/text/json_text.ts";
import { withoutSecrets } from "../../base/text/secrets.ts";
import { workerEventOfLine } from "../../gen/records/line_fields.ts";
import type { WorkerEventRecord } from "../../gen/records/record_types.ts";
import type { Fields } from "./fields.ts";
import { SLOT } from "./slots.ts";
import { TAKE } from "./take.ts";

/**
 * Joins the payload's fields and the record's other fields into one object; the payload overrides.
 */
export function readEvent(fields: Fields, name: string): WorkerEventRecord {
  fields.take(SLOT.run_id);
  const record = workerEventOfLine(fields, TAKE, name);
  const payload = fields.value(SLOT.payload);
  if (typeof payload === "object" && payload !== null && !Array.isArray(payload)) {
    fields.take(SLOT.payload);
    const text = fields.textOfMetrics(SLOT.payload);
    const beside = fields.leftovers(payload as Record<string, unknown>);
    const empty = Object.keys(payload).length === 0;
    record.dataJson = beside === ""
      ? text
      : empty
      ? `{${beside}}`
      : `${text.slice(0, -1)},${beside}}`;
  } else {
    record.dataJson = `{${fields.leftovers()}}`;
  }
  if (name === "parameters") record.dataJson = withHiddenSecrets(record.dataJson);
  return record;
}

/** Parameters without their secrets; if there are none, the text as it was written. */
function withHiddenSecrets(dataJson: string): string {
  if (!isJson(dataJson)) return dataJson;
  const parameters = parseKeepingNumbers(dataJson);
  const shown = JSON.stringify(withoutSecrets("", parameters));
  return shown === JSON.stringify(parameters) ? dataJson : shown;
}
