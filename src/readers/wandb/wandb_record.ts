/**
 * Converts one `wandb_internal.Record` to records. Field numbers are those of W&B's published
 * `wandb_internal.proto`, which promises not to change their meaning in files. History, summary,
 * metrics' definitions, config, run, exit, files and console output are read; system metrics are
 * not, because mosaic measures these itself.
 */
import { MAX_JSON_DEPTH } from "../../base/text/json_text.ts";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { isObject } from "../format/flat.ts";
import { jsonOf, numberOfText } from "../format/literal.ts";
import type { WandbAxes } from "./wandb_axes.ts";
import { stepOf, timeOf } from "../format/step_column.ts";
import type {
  HistogramRecord,
  MediaRecord,
  ParamsRecord,
  ParamValue,
  RunRecord,
  SourceRecord,
} from "../format/tracker_records.ts";

type Fields = { [key: string]: ParamValue };
/** A message by its fields; each handler reads its field's value. */
type Handlers = { [field: number]: (reader: BinaryReader) => void };

function readMessage(bytes: Uint8Array, handlers: Handlers): void {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    const handle = handlers[field];
    if (handle === undefined) reader.skip(wire, field);
    else handle(reader);
  }
}

/**
 * Adds the record's content to `records`. @returns why it cannot be read; then nothing was added
 */
export function readWandbRecord(
  bytes: Uint8Array,
  axes: WandbAxes,
  records: SourceRecord[],
): string | undefined {
  const found: SourceRecord[] = [];
  try {
    readMessage(bytes, {
      2: (r) => readHistory(r.bytes(), axes, found),
      3: (r) => readSummary(r.bytes(), axes),
      4: (r) => readOutput(r.bytes(), found),
      5: (r) => found.push(...readConfig(r.bytes(), undefined)),
      6: (r) => readFiles(r.bytes(), found),
      12: (r) => readDefinition(r.bytes(), axes),
      13: (r) => readOutput(r.bytes(), found),
      17: (r) => readRun(r.bytes(), found),
      18: (r) => {
        takeResults(axes, found);
        readExit(r.bytes(), found);
      },
    });
  } catch (error) {
    return `no wandb_internal.Record: ${error instanceof Error ? error.message : error}`;
  }
  records.push(...found);
  return undefined;
}

interface Item {
  path: string[];
  value: ParamValue | undefined;
}

/** `HistoryItem` and `ConfigItem`: key 1 or nested_key 2, value_json 16. */
function readItem(bytes: Uint8Array): Item {
  let key = "";
  const nested: string[] = [];
  let json = "";
  readMessage(bytes, {
    1: (r) => key = r.string(),
    2: (r) => nested.push(r.string()),
    16: (r) => json = r.string(),
  });
  if (nested.length > MAX_JSON_DEPTH) throw new RangeError(`a key of ${nested.length} parts`);
  return { path: nested.length > 0 ? nested : [key], value: numberOfText(json) ?? jsonOf(json) };
}

/** Objects without a prototype, because a key may have any name. */
function emptyFields(): Fields {
  return Object.create(null) as Fields;
}

function place(tree: Fields, path: readonly string[], value: ParamValue): void {
  let node = tree;
  for (const key of path.slice(0, -1)) {
    const next = node[key];
    node = isObject(next) ? next : node[key] = emptyFields();
  }
  node[path.at(-1)!] = value;
}

function treeOf(items: readonly Item[]): Fields {
  const tree = emptyFields();
  for (const { path, value } of items) if (value !== undefined) place(tree, path, value);
  return tree;
}

interface At {
  step: number | undefined;
  wallTime: number | undefined;
}

const OWN = new Set(["_step", "_timestamp", "_runtime", "_wandb"]);

function readHistory(bytes: Uint8Array, axes: WandbAxes, records: SourceRecord[]): void {
  const items: Item[] = [];
  let step: number | undefined;
  readMessage(bytes, {
    1: (r) => items.push(readItem(r.bytes())),
    2: (r) => {
      step = 0; // proto3 leaves out a zero
      readMessage(r.bytes(), { 1: (s) => step = Number(s.int64()) });
    },
  });
  const tree = treeOf(items);
  const number = (value: ParamValue | undefined) => typeof value === "number" ? value : undefined;
  const at: At = {
    step: stepOf(number(tree["_step"])) ?? step,
    wallTime: timeOf(number(tree["_timestamp"])),
  };
  axes.row((name) => valueAt(tree, name));
  for (const key of Object.keys(tree)) if (!OWN.has(key)) axes.logged(key);
  takeResults(axes, records);
  for (const [key, value] of Object.entries(tree)) {
    if (OWN.has(key)) continue;
    const found: SourceRecord[] = [];
    historyValue(key, value, at, found);
    for (const record of found) {
      const own = "tag" in record ? axes.stepOf(record.tag) : undefined;
      records.push(own === undefined ? record : { ...record, step: own } as SourceRecord);
    }
  }
}

/** A key may be of parts. */
function valueAt(tree: Fields, name: string): ParamValue | undefined {
  if (name in tree) return tree[name];
  let node: ParamValue | undefined = tree;
  for (const part of name.split(".")) node = isObject(node) ? node[part] : undefined;
  return node;
}

/** `MetricRecord`: name 1 or glob_name 2, step_metric 4. */
function readDefinition(bytes: Uint8Array, axes: WandbAxes): void {
  let name = "";
  let step = "";
  readMessage(bytes, {
    1: (r) => name ||= r.string(),
    2: (r) => name = r.string() || name,
    4: (r) => step = r.string(),
  });
  axes.define(name, step);
}

/** `SummaryRecord`: update 1. */
function readSummary(bytes: Uint8Array, axes: WandbAxes): void {
  const items: Item[] = [];
  readMessage(bytes, { 1: (r) => items.push(readItem(r.bytes())) });
  for (const [key, value] of Object.entries(treeOf(items))) {
    if (!OWN.has(key)) takeSummary(key, value, axes);
  }
}

/** `define_metric(summary="min")` makes `{"min": …}` of a metric. */
function takeSummary(key: string, value: ParamValue, axes: WandbAxes): void {
  if (typeof value === "number" || typeof value === "string") axes.result(key, value);
  else if (isObject(value) && typeof value["_type"] !== "string") {
    for (const [inner, one] of Object.entries(value)) takeSummary(`${key}.${inner}`, one, axes);
  }
}

/** What a program itself wrote into the summary is a result. */
function takeResults(axes: WandbAxes, records: SourceRecord[]): void {
  const at: At = { step: undefined, wallTime: undefined };
  for (const [key, value] of axes.takeResults()) historyValue(`summary/${key}`, value, at, records);
}

function historyValue(tag: string, value: ParamValue, at: At, records: SourceRecord[]): void {
  if (typeof value === "number") records.push({ kind: "scalar", tag, ...at, value });
  else if (typeof value === "string") records.push({ kind: "text", tag, ...at, text: value });
  else if (!isObject(value)) return;
  else if (typeof value["_type"] === "string") typedValue(value["_type"], tag, value, at, records);
  else {for (const [key, inner] of Object.entries(value)) {
      historyValue(`${tag}.${key}`, inner, at, records);
    }}
}

function typedValue(
  type: string,
  tag: string,
  value: Fields,
  at: At,
  records: SourceRecord[],
): void {
  if (type === "histogram") {
    const histogram = histogramOf(tag, value, at);
    if (histogram !== undefined) records.push(histogram);
    return;
  }
  const paths = Array.isArray(value["filenames"]) ? value["filenames"] : [value["path"]];
  const captions = Array.isArray(value["captions"]) ? value["captions"] : [value["caption"]];
  paths.forEach((path, index) => {
    if (typeof path === "string") {
      records.push(mediaOf(type, tag, value, path, captions[index], index, at));
    }
  });
}

function mediaOf(
  type: string,
  tag: string,
  value: Fields,
  path: string,
  caption: ParamValue | undefined,
  index: number,
  at: At,
): MediaRecord {
  const kind = /^(image|audio|video|table)s?(?:-file|\/|$)/.exec(type)?.[1] as
    | "image"
    | "audio"
    | "video"
    | "table"
    | undefined;
  const format = value["format"];
  const size = (name: string) => typeof value[name] === "number" ? value[name] : undefined;
  return {
    kind: "media",
    media: kind ?? "file",
    tag,
    ...at,
    index,
    type: kind !== undefined && kind !== "table" && typeof format === "string"
      ? `${kind}/${format}`
      : "",
    width: size("width"),
    height: size("height"),
    bytes: undefined,
    path,
    caption: typeof caption === "string" ? caption : "",
  };
}

function numbers(value: ParamValue | undefined): number[] | undefined {
  return Array.isArray(value) && value.every((v) => typeof v === "number")
    ? value as number[]
    : undefined;
}

function histogramOf(tag: string, value: Fields, at: At): HistogramRecord | undefined {
  const count = numbers(value["values"]);
  let edges = numbers(value["bins"]);
  const packed = value["packedBins"];
  if (edges === undefined && isObject(packed)) {
    const { min, size, count: bins } = packed;
    if (typeof min === "number" && typeof size === "number" && bins === count?.length) {
      edges = Array.from({ length: bins! + 1 }, (_, i) => min + i * size);
    }
  }
  if (count === undefined || edges?.length !== count.length + 1) return undefined;
  return {
    kind: "histogram",
    tag,
    ...at,
    left: edges.slice(0, -1),
    right: edges.slice(1),
    count,
    stats: undefined,
  };
}

/** `ConfigRecord`: update 1, remove 2. */
function readConfig(bytes: Uint8Array, wallTime: number | undefined): ParamsRecord[] {
  const updates: Item[] = [];
  const removed: string[] = [];
  readMessage(bytes, {
    1: (r) => updates.push(readItem(r.bytes())),
    2: (r) => removed.push(readItem(r.bytes()).path.join(".")),
  });
  const { _wandb: _, ...values } = treeOf(updates);
  if (Object.keys(values).length + removed.length === 0) return [];
  return [{ kind: "params", origin: "config", wallTime, values, removed }];
}

/** `google.protobuf.Timestamp` */
function timestamp(bytes: Uint8Array): number | undefined {
  let seconds = 0;
  let nanos = 0;
  readMessage(bytes, { 1: (r) => seconds = Number(r.int64()), 2: (r) => nanos = r.int32() });
  return seconds === 0 ? undefined : seconds + nanos / 1e9;
}

function readRun(bytes: Uint8Array, records: SourceRecord[]): void {
  const run: RunRecord = {
    kind: "run",
    wallTime: undefined,
    id: "",
    name: "",
    project: "",
    group: "",
    tags: [],
  };
  let config: Uint8Array | undefined;
  readMessage(bytes, {
    1: (r) => run.id = r.string(),
    3: (r) => run.project = r.string(),
    4: (r) => config = r.bytes(),
    6: (r) => run.group = r.string(),
    8: (r) => run.name = r.string(),
    10: (r) => run.tags.push(r.string()),
    17: (r) => run.wallTime = timestamp(r.bytes()),
  });
  records.push(run);
  if (config !== undefined) records.push(...readConfig(config, run.wallTime));
}

function readExit(bytes: Uint8Array, records: SourceRecord[]): void {
  let exitCode = 0;
  readMessage(bytes, { 1: (r) => exitCode = r.int32() });
  records.push({
    kind: "status",
    wallTime: undefined,
    status: exitCode === 0 ? "success" : "failure",
    exitCode,
  });
}

/** Files that the run saved; media are also named by the history. */
function readFiles(bytes: Uint8Array, records: SourceRecord[]): void {
  readMessage(bytes, {
    1: (r) => {
      let path = "";
      readMessage(r.bytes(), { 1: (item) => path = item.string() });
      if (path === "" || path.startsWith("media/")) return;
      records.push(
        mediaOf("file", "files", {}, path, undefined, 0, { step: undefined, wallTime: undefined }),
      );
    },
  });
}

function readOutput(bytes: Uint8Array, records: SourceRecord[]): void {
  let wallTime: number | undefined;
  let text = "";
  readMessage(bytes, {
    2: (r) => wallTime = timestamp(r.bytes()),
    3: (r) => text = r.string(),
  });
  records.push({ kind: "output", wallTime, text });
}
