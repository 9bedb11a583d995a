import assert from "node:assert/strict";
import { scalarFrame, versionFrame } from "../../../src/cli/export/event_file.ts";
import { csvCells, fieldNames } from "../../../src/cli/text/records.ts";
import { csv } from "../../../src/base/text/csv_text.ts";
import { metricLine, workerEventLine } from "../../../src/gen/records/public_lines.ts";
import {
  EXPORT_HEAD_BYTES,
  EXPORT_WRITER,
  isExported,
} from "../../../src/readers/tensorboard/exported.ts";
import type { FormatName } from "../../../src/readers/format/format_reader.ts";
import { TELEMETRY_KINDS } from "../../../src/records/record_fields.ts";

const RUN = '"01KB00000000000000000000A0"';
const bytesOf = (text: string) => new TextEncoder().encode(text).subarray(0, EXPORT_HEAD_BYTES);
const metric = metricLine(RUN, { seq: 7, name: "é".repeat(900), value: NaN, step: 3, tsMs: 1e12 });
const event = workerEventLine(RUN, {
  seq: 1,
  attempt: 2,
  kind: "heartbeat",
  tsNs: "1",
  dataJson: "",
});
const point = scalarFrame({ tag: "loss", value: 1, step: 1, wallTime: 1 });
const eventFile = (writer?: string) => new Uint8Array([...versionFrame(1, writer), ...point]);

Deno.test("exported: tables, lines and event files that mosaic has written, of each kind", () => {
  for (const kind of TELEMETRY_KINDS) {
    assert.ok(isExported("csv", bytesOf(csv(fieldNames(kind), []))), kind);
    const row = csvCells(kind, { seq: 1, run_id: "01" });
    assert.ok(isExported("csv", bytesOf(csv(fieldNames(kind), [row]))), kind);
  }
  for (const line of [metric, event, `${event}\n${event}\n`]) {
    assert.ok(isExported("jsonl", bytesOf(line)), line);
  }
  assert.ok(isExported("tfevents", eventFile(EXPORT_WRITER)));
});

Deno.test("exported: files of programs, and beginnings that are too short to tell", () => {
  const header = csv(fieldNames("metrics"), []);
  const marked = eventFile(EXPORT_WRITER);
  const damaged = marked.with(20, 0);
  const cases: [format: FormatName, head: Uint8Array][] = [
    ["csv", bytesOf("")],
    ["csv", bytesOf(header.trimEnd())],
    ["csv", bytesOf(`my_${header}`)],
    ["csv", bytesOf(header.replace("\n", ",loss\n"))],
    ["csv", bytesOf(`step,loss\n1,5\n${header}`)],
    ["jsonl", bytesOf("")],
    ["jsonl", bytesOf('{"seq":1,"run_id":"mine","name":"loss"}\n')],
    ["jsonl", bytesOf('{"step": 1, "loss": 2}\n' + event)],
    ["jsonl", bytesOf(event.slice(0, 30))],
    ["tfevents", bytesOf("")],
    ["tfevents", eventFile()],
    ["tfevents", eventFile("tensorboard.summary.writer.event_file_writer")],
    ["tfevents", marked.subarray(0, 40)],
    ["tfevents", damaged],
    ["tfevents", bytesOf("no event file at all")],
    ["wandb", bytesOf(":W&B")],
  ];
  for (const [format, head] of cases) {
    assert.equal(isExported(format, head), false, `${format} ${head}`);
  }
});
