/**
 * Hyperparameters in event files: messages of the hparams plugin, and the Markdown tables that
 * other programs write as text.
 */
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { scalarOfText } from "../format/literal.ts";
import type {
  ParamsRecord,
  ParamValue,
  SourceRecord,
  StatusRecord,
} from "../format/tracker_records.ts";

const MAX_DEPTH = 32;

/** `google.protobuf.Value`. */
function readValue(bytes: Uint8Array, depth: number): ParamValue {
  if (depth > MAX_DEPTH) return null;
  const reader = new BinaryReader(bytes);
  let value: ParamValue = null;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 2) value = reader.double();
    else if (field === 3) value = reader.string();
    else if (field === 4) value = reader.bool();
    else if (field === 5) value = readMap(reader.bytes(), 1, depth + 1);
    else if (field === 6) value = readList(reader.bytes(), depth + 1);
    else reader.skip(wire, field);
  }
  return value;
}

function readList(bytes: Uint8Array, depth: number): ParamValue[] {
  const reader = new BinaryReader(bytes);
  const list: ParamValue[] = [];
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) list.push(readValue(reader.bytes(), depth));
    else reader.skip(wire, field);
  }
  return list;
}

/** The entries of a map field of a message. */
function readMap(bytes: Uint8Array, field: number, depth: number): { [name: string]: ParamValue } {
  const reader = new BinaryReader(bytes);
  const entries: [string, ParamValue][] = [];
  while (reader.pos < reader.len) {
    const [no, wire] = reader.tag();
    if (no !== field) {
      reader.skip(wire, no);
      continue;
    }
    const entry = new BinaryReader(reader.bytes());
    let key = "";
    let value: ParamValue = null;
    while (entry.pos < entry.len) {
      const [name, type] = entry.tag();
      if (name === 1) key = entry.string();
      else if (name === 2) value = readValue(entry.bytes(), depth);
      else entry.skip(type, name);
    }
    entries.push([key, value]);
  }
  return Object.fromEntries(entries);
}

function doubleField(bytes: Uint8Array, wanted: number): number | undefined {
  const reader = new BinaryReader(bytes);
  let value: number | undefined;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === wanted) value = reader.double();
    else reader.skip(wire, field);
  }
  return value;
}

const STATUS = ["unknown", "success", "failure", "running"] as const;

function readEnd(bytes: Uint8Array): StatusRecord {
  const reader = new BinaryReader(bytes);
  let status: StatusRecord["status"] = "unknown";
  let wallTime: number | undefined;
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) status = STATUS[reader.int32()] ?? "unknown";
    else if (field === 2) wallTime = reader.double();
    else reader.skip(wire, field);
  }
  return { kind: "status", wallTime, status, exitCode: undefined };
}

/** @param content `HParamsPluginData` @throws if it is invalid */
export function readHparams(content: Uint8Array, wallTime: number | undefined): SourceRecord[] {
  const reader = new BinaryReader(content);
  const records: SourceRecord[] = [];
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 3) {
      const info = reader.bytes();
      const started = doubleField(info, 5);
      records.push({
        kind: "params",
        origin: "hparams",
        wallTime: started === undefined || started === 0 ? wallTime : started,
        values: readMap(info, 1, 0),
        removed: [],
      });
    } else if (field === 4) {
      const ended = readEnd(reader.bytes());
      records.push({ ...ended, wallTime: ended.wallTime ?? wallTime });
    } else reader.skip(wire, field);
  }
  return records;
}

/**
 * The table of CleanRL and others: `|param|value|`, a rule, one line per parameter. Undefined if
 * the text is no such table.
 */
export function paramsOfTable(
  tag: string,
  text: string,
  wallTime: number | undefined,
): ParamsRecord | undefined {
  if (!/(?:^|\/)(?:hyper-?param(?:eter)?s|hparams|args|config)(?:\/text_summary)?$/i.test(tag)) {
    return undefined;
  }
  const [header, rule, ...rows] = text.split("\n");
  if (cellsOf(header ?? "")?.every((cell) => cell !== "") !== true) return undefined;
  if (cellsOf(rule ?? "")?.every((cell) => /^:?-+:?$/.test(cell)) !== true) return undefined;
  const values: [string, ParamValue][] = [];
  for (const row of rows) {
    // The value may contain bars: only the first, the second and the last belong to the table.
    const line = row.trim();
    const bar = line.indexOf("|", 1);
    const isRow = line.startsWith("|") && line.endsWith("|") && bar > 1 && bar < line.length - 1;
    if (isRow) {
      values.push([line.slice(1, bar).trim(), scalarOfText(line.slice(bar + 1, -1).trim())]);
    }
  }
  if (values.length === 0) return undefined;
  return {
    kind: "params",
    origin: "text_summary",
    wallTime,
    values: Object.fromEntries(values),
    removed: [],
  };
}

/**
 * Both cells of a line; bars at its ends may be missing. Undefined if it has another number of
 * cells.
 */
function cellsOf(line: string): string[] | undefined {
  const text = line.trim();
  const cells = text.slice(
    text.startsWith("|") ? 1 : 0,
    text.length > 1 && text.endsWith("|") ? -1 : undefined,
  ).split(
    "|",
    3,
  );
  return cells.length === 2 ? cells.map((cell) => cell.trim()) : undefined;
}
