/** Every reader of text and bytes of others, as a target. */
import { DatabaseSync } from "node:sqlite";
import { gunzipSync } from "node:zlib";
import { createHash } from "node:crypto";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { RunFile } from "../../src/state/archive/run_file.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";
import { Layout } from "../../src/base/layout.ts";
import { isTooDeep } from "../../src/base/text/json_text.ts";
import { tokensOf } from "../../src/base/text/notes_tokens.ts";
import { escapeControlLines, TerminalFilter } from "../../src/base/text/terminal_text.ts";
import { markdown } from "../../src/runs/report/markdown.ts";
import { readConfig } from "../../src/config/config.ts";
import { parametersOf } from "../../src/config/parameters.ts";
import { planOf } from "../../src/config/plan.ts";
import { prepareRun } from "../../src/config/prepare.ts";
import { presentConfig } from "../../src/config/present_config.ts";
import * as amd from "../../src/os/gpus/amd_smi.ts";
import * as nvidia from "../../src/os/gpus/nvidia_smi.ts";
import * as rocm from "../../src/os/gpus/rocm_smi.ts";
import { maskCode } from "../../src/base/text/secrets.ts";
import { checkedCode, checkedEnvironment } from "../../src/provenance/code_record.ts";
import { pairsOf } from "../../src/provenance/collect.ts";
import { differingLines } from "../../src/provenance/compared_diffs.ts";
import { bytesText, partsOf } from "../../src/provenance/diff_parts.ts";
import { packagesOf } from "../../src/provenance/packages.ts";
import { chooseUntracked, untrackedOf } from "../../src/provenance/untracked.ts";
import { pointAt, trialCount } from "../../src/sweeps/points.ts";
import { specFrom } from "../../src/sweeps/spec.ts";
import { sweepFile } from "../../src/sweeps/files/sweep_file.ts";
import { shellLine } from "../../src/base/text/terminal_text.ts";
import { commandOf, trialConfig } from "../../src/sweeps/trial_config.ts";
import {
  arrayWords,
  budgetOf,
  gridAxis,
  metricOf,
  rowsOf,
  spaceOf,
  stopOf,
  wholeAxis,
} from "../../src/sweeps/words.ts";
import type { Core } from "../../src/dispatch/core/core.ts";
import { conditionsOf, orderOf, type Searched } from "../../src/mlflow/search.ts";
import {
  addRun,
  metricKey,
  type MlflowRun,
  prefixesOf,
  trackedOf,
  typedParameter,
} from "../../src/mlflow/tracked.ts";
import { buildBatch } from "../../src/proxy/delivery/batches.ts";
import { recordsOf } from "../../src/readers/files/source_records.ts";
import { Budget, fits, parseExpression } from "../../src/runs/query/expression.ts";
import type { RunRow } from "../../src/registry/row_types.ts";
import { Lines } from "../../src/readers/lines/lines.ts";
import type { FormatName } from "../../src/readers/format/format_reader.ts";
import { formatOfContent } from "../../src/readers/content.ts";
import { openFormat } from "../../src/readers/formats.ts";
import { CHUNK, chunkCrc } from "../../src/readers/wandb/leveldb_log.ts";
import { frame } from "../../src/readers/tensorboard/tfrecord.ts";
import { WANDB_HEADER } from "../../src/readers/wandb/wandb_file.ts";
import { groupsOf } from "../../src/telemetry/series/groups.ts";
import { flatParameters } from "../../src/records/parameters.ts";
import { linesWith, readLog, readLogBefore } from "../../src/ui/api/run_log.ts";
import { configOf } from "../harness/configs.ts";
import type { Target } from "./hunt.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const bytesOf = (text: string) => encoder.encode(text);
const CONTEXT = { agentId: "agent", workerId: "worker" };
const FORMATS = new URL("../readers/formats/fixtures/", import.meta.url);
const DIALECTS = new URL("../readers/lines/fixtures/", import.meta.url);
const fixture = (name: string) => Deno.readFileSync(new URL(name, FORMATS));

const JSON_TOKENS = [
  '{"a":',
  '"a":1,',
  '"reward":',
  '"type":"step",',
  "[1,",
  "1.5,",
  "{},",
  "[],",
  '"\\u0041",',
  "-Infinity,",
];
const PYTHON_TOKENS = [
  "'a':",
  "np.float32(",
  "array([",
  "tensor(",
  "dtype=",
  "True,",
  "None,",
  "1_0",
  "<a ",
  "==",
];

/** Fails for a record whose texts nest deeper than text of others may, with what encloses them. */
function requireShallow(json: string): void {
  if (isTooDeep(json) && isTooDeep(json.slice(json.indexOf("[") + 1))) {
    throw new Error("a record nests too deep");
  }
  JSON.stringify(JSON.parse(json));
}

/** Reads a file as a proxy does, in pieces, and converts its records. */
function readFile(format: FormatName, bytes: Uint8Array): void {
  const reader = openFormat(format);
  for (let turns = 0; turns < 10_000; turns++) {
    const { records, problems, again } = reader.read(bytes.subarray(reader.offset), {
      end: true,
      maxRecords: 2000,
    });
    const failed = problems.find(({ detail }) => detail.startsWith("not readable"));
    if (failed !== undefined) throw new Error(failed.detail);
    const { events, episodes } = recordsOf(records, "file", CONTEXT, {
      keep: () => "media/file",
      look: () => ({ bytes: 1, changedAt: 0 }),
    });
    for (const { kind, dataJson } of events) {
      requireShallow(dataJson);
      if (kind === "source_problem") throw new Error(dataJson);
    }
    for (const { metadataJson } of episodes) requireShallow(metadataJson);
    JSON.stringify(reader.state());
    if (!again) return;
  }
  throw new Error("the reader does not end");
}

const { LengthDelimited, Bit32, Varint } = WireType;

/** An event with one summary, as torch and TensorFlow write it. */
function eventFile(tag: string, put: (value: BinaryWriter) => void): Uint8Array {
  const event = new BinaryWriter().tag(2, Varint).int64(7).tag(5, LengthDelimited).fork();
  event.tag(1, LengthDelimited).fork().tag(1, LengthDelimited).string(tag.toWellFormed());
  put(event);
  return frame(event.join().join().finish());
}

const textTensor = (text: string) => (value: BinaryWriter) =>
  value.tag(8, LengthDelimited).fork().tag(1, Varint).int32(7).tag(8, LengthDelimited).string(
    text.toWellFormed(),
  )
    .join();

function wandbFile(field: number, put: (record: BinaryWriter) => void): Uint8Array {
  const record = new BinaryWriter().tag(field, LengthDelimited).fork();
  put(record);
  const data = record.join().finish();
  const parts: Uint8Array[] = [WANDB_HEADER];
  for (let at = 0, left = 32_768 - WANDB_HEADER.length; at < data.length || at === 0;) {
    const piece = data.subarray(at, at + left - 7);
    at += piece.length;
    const type = at === data.length
      ? (piece.length === data.length ? CHUNK.FULL : CHUNK.LAST)
      : (at === piece.length ? CHUNK.FIRST : CHUNK.MIDDLE);
    const head = new DataView(new ArrayBuffer(7));
    head.setUint32(0, chunkCrc(type, piece), true);
    head.setUint16(4, piece.length, true);
    head.setUint8(6, type);
    parts.push(new Uint8Array(head.buffer), piece);
    left = 32_768;
  }
  return joinedBytes(parts);
}

const item = (key: string, json: string) => (record: BinaryWriter) =>
  record.tag(1, LengthDelimited).fork().tag(1, LengthDelimited).string(key.toWellFormed())
    .tag(16, LengthDelimited).string(json.toWellFormed()).join();

const nestedItem = (text: string) => (record: BinaryWriter) => {
  record.tag(1, LengthDelimited).fork();
  for (const key of text.toWellFormed()) record.tag(2, LengthDelimited).string(key);
  record.tag(16, LengthDelimited).string("1").join();
};

/** A message of one length-delimited field within another, as deep as the text is long. */
function nestedMessage(text: string): Uint8Array {
  let bytes = bytesOf("x");
  for (let i = 0; i < Math.min(2000, text.length); i++) {
    bytes = new BinaryWriter().tag(1 + text.charCodeAt(i) % 20, LengthDelimited).bytes(bytes)
      .finish() as typeof bytes;
  }
  return bytes;
}

const groups = (text: string) => new Uint8Array(text.length).fill(0x0b);

const events: Target = {
  name: "events",
  tokens: ["|param|value|\n", "|-|-|\n", "|a|", " |", ":-:", ...JSON_TOKENS],
  forms: [
    (text) => eventFile("config/text_summary", textTensor(`|param|value|\n|-|-|\n${text}`)),
    (text) => eventFile("config", textTensor(text)),
    (text) => eventFile("args", textTensor(`a|b\n${text}`)),
    (text) => eventFile(text, (value) => value.tag(2, Bit32).float(1)),
    (text) =>
      joinedBytes(
        text.split("a", 4000).map((tag) => eventFile(tag, (value) => value.tag(2, Bit32).float(1))),
      ),
    (text) => frame(nestedMessage(text)),
    (text) => frame(groups(text)),
    (text) => frame(bytesOf(text)),
    bytesOf,
  ],
  samples: [
    joinedBytes([
      ...Array.from(
        { length: 20 },
        (_, i) => eventFile(`loss/${i}`, (value) => value.tag(2, Bit32).float(i)),
      ),
      eventFile("config", textTensor("|param|value|\n|-|-|\n|lr|0.1|\n")),
    ]),
  ],
  read: (bytes) => readFile("tfevents", bytes),
};

const wandb: Target = {
  name: "wandb",
  tokens: JSON_TOKENS,
  forms: [
    (text) => wandbFile(2, item("loss", text)),
    (text) => wandbFile(2, item(text, "1")),
    (text) => wandbFile(2, item("a", `{"_type":"histogram","values":${text},"bins":${text}}`)),
    (text) => wandbFile(5, item("lr", text)),
    (text) => wandbFile(5, nestedItem(text)),
    (text) => wandbFile(2, nestedItem(text)),
    (text) => wandbFile(2, (record) => record.raw(nestedMessage(text))),
    (text) => wandbFile(2, (record) => record.raw(groups(text))),
    (text) => joinedBytes([WANDB_HEADER, bytesOf(text)]),
    bytesOf,
  ],
  samples: [gunzipSync(fixture("offline.wandb.gz"))],
  read: (bytes) => readFile("wandb", bytes),
};

const csv: Target = {
  name: "csv",
  tokens: ["1,", '"', '""', ",,", "\n1,2", "step,", "config/a,", "#{", "r,l,t\n"],
  forms: [
    bytesOf,
    (text) => bytesOf(`step,loss,config/x\n${text}\n`),
    (text) => bytesOf(`${text}\n1,2,3\n`),
    (text) => bytesOf(`#${text}\nr,l,t\n1,2,3\n`),
    (text) => bytesOf(`step,loss\n1,"${text}"\n2,${text}\n`),
    (text) => bytesOf(`step;loss\n${text}\n1;0,5\n`),
    (text) => bytesOf(`step,loss\n0,1\nstep,loss,${text}\n1,2\n`),
    // Thousands of columns above thousands of rows of texts.
    (text) =>
      bytesOf(`step${",a".repeat(text.length >> 2)}\n${"r,l\n".repeat(text.length >> 3)}${text}\n`),
  ],
  samples: ["sb3.monitor.csv", "sb3.progress.csv", "tune.progress.csv"].map(fixture),
  read: (bytes) => readFile("csv", bytes),
};

const textFile: Target = {
  name: "text-file",
  tokens: [
    ...[
      "loss: 0.3 ",
      "step 200 ",
      "Epoch 3/10 - ",
      "10%|## | 1/10 [",
      "\r",
      "[INFO] ",
      "acc=71% ",
      "1,000 ",
      "(0.3) ",
    ],
    ...[
      "- ",
      "━━",
      "=",
      "\x1b[31m",
      "2026-01-01 12:00:00,123 ",
      "[rank0]:",
      "/",
      "± 0.1 ",
      "| a | 1 |\n",
      "--------\n",
    ],
  ],
  forms: [
    bytesOf,
    (text) => bytesOf(`step 1 ${text} loss 0.5\n`),
    (text) => bytesOf(`${text}: loss: 0.5\r`),
    (text) => bytesOf(`10%|##${text}| 1/10 [${text}]\r`),
    (text) => bytesOf(`10/10 [====] ${text} - loss: 0.5\n`),
    (text) => bytesOf(`loss=${text} ${text}=1\n`),
  ],
  samples: [fixture("sb3.stdout.txt"), fixture("transformers.stdout.txt")],
  read: (bytes) => {
    formatOfContent(bytes);
    readFile("text", bytes);
  },
};

const jsonLines: Target = {
  name: "json-lines",
  tokens: [...JSON_TOKENS, ...PYTHON_TOKENS],
  forms: [
    bytesOf,
    (text) => bytesOf(`{"step":1,"loss":${text}}\n`),
    (text) => bytesOf(`{"step":1,"config":{"a":${text}}}\n`),
    (text) => bytesOf(`{"a":NaN,"b":${text}}\n`),
    (text) => bytesOf(`{"${text}":1}\n`),
  ],
  samples: ["sb3.progress.json", "tune.result.json"].map(fixture),
  read: (bytes) => readFile("jsonl", bytes),
};

function readPrinted(bytes: Uint8Array): void {
  const ends: number[] = [];
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, end + 1)) ends.push(end);
  if (ends.at(-1) !== bytes.length - 1 && bytes.length > 0) ends.push(bytes.length);
  const chunk = { from: 0, to: bytes.length, lines: new Lines(bytes, ends), overlong: 0 };
  const { message } = buildBatch(chunk, { context: CONTEXT });
  const failed = (message.malformedSamples ?? []).find((sample) =>
    sample.startsWith("not readable")
  );
  if (failed !== undefined) throw new Error(failed);
  for (const json of [message.eventsJson!, message.episodesJson!]) {
    if (json.length === 0) continue;
    for (const { dataJson = "{}", metadataJson = "{}" } of JSON.parse(decoder.decode(json))) {
      requireShallow(dataJson);
      requireShallow(metadataJson || "{}");
    }
  }
}

const printed: Target = {
  name: "printed",
  tokens: [
    ...JSON_TOKENS,
    ...PYTHON_TOKENS,
    "| a | 1 |\n",
    "--------\n",
    "loss=1 ",
    "step: ",
    "{'loss':",
    "episodic_return=",
  ],
  forms: [
    bytesOf,
    ...[
      "reward",
      "observation",
      "action",
      "info",
      "parameters",
      "x",
      "render_payload",
      "ts",
      "episode_id",
      "metadata",
    ]
      .map(
        (field) => (text: string) => bytesOf(`{"type":"step","${field}":${text}}\n`),
      ),
    (text) =>
      bytesOf(
        `{"type":"step","reward":1,"observation_json":${JSON.stringify(text.toWellFormed())}}\n`,
      ),
    (text) => bytesOf(`{"type":"step","reward":"${text}"}\n`),
    (text) => bytesOf(`{"type":"parameters","payload":${text}}\n`),
    (text) =>
      bytesOf(`{"type":"parameters","payload":{"a":${JSON.stringify(text.toWellFormed())}}}\n`),
    (text) => bytesOf(`{"type":"episode_end","metadata":${text},"reward":${text}}\n`),
    (text) => bytesOf(`{"type":"artifact","path":${JSON.stringify(text.toWellFormed())}}\n`),
    (text) => bytesOf(`{'loss': ${text}}\n`),
    (text) => bytesOf(`{"loss": ${text}}\n`),
    (text) => bytesOf(`global_step=1, loss=${text}\n`),
    (text) =>
      bytesOf(
        `--------\n| ${text.replaceAll("\n", " ").slice(0, 250)} |\n`.repeat(
          Math.ceil(text.length / 250),
        ),
      ),
  ],
  samples: [
    ...[...Deno.readDirSync(DIALECTS)].map(({ name }) =>
      bytesOf(
        Deno.readTextFileSync(new URL(name, DIALECTS)).split("\n").filter((line) => line !== "")
          .map((line) => (JSON.parse(line) as { line: string }).line).join("\n"),
      )
    ),
    fixture("sb3.stdout.txt"),
    fixture("transformers.stdout.txt"),
  ],
  read: readPrinted,
};

const RUN: Omit<Searched, "tags" | "params"> = {
  metrics: new Map([["loss", 1]]),
  attributes: { run_name: "a" },
};
const mlflow: Target = {
  name: "mlflow",
  tokens: [
    "metrics.",
    "params.",
    "`a`",
    " AND ",
    " LIKE ",
    "'%a'",
    " IN (",
    "'a',",
    " DESC",
    "%",
    "_",
    "<= ",
    "NOT ",
  ],
  // Filter, order, a tag's value, and a key, by the first character.
  forms: ["f", "o", "t", "k", "p", "s"].map((what) => (text: string) => bytesOf(what + text)),
  samples: [
    "fmetrics.loss < 1 and tags.t LIKE '%a_b%' AND run_name IN ('a', 'b')",
    "ometrics.`val loss` DESC",
  ].map(
    bytesOf,
  ),
  read: (bytes) => {
    const [what, text] = [decoder.decode(bytes.subarray(0, 1)), decoder.decode(bytes.subarray(1))];
    try {
      if (what === "f") conditionsOf(text)({ ...RUN, tags: { t: text }, params: { [text]: text } });
      else if (what === "o") orderOf([text]);
      else if (what === "t") {
        const like = `tags.t LIKE '${
          text.slice(0, 100).replaceAll("'", "")
        }' AND tags.t LIKE '%a%b_c%'`;
        conditionsOf(like)({ ...RUN, tags: { t: text }, params: {} });
      } else if (what === "p") typedParameter(text);
      else if (what === "s") trackedOf(text);
      else {
        const names = text.split("a");
        const of = { ...trackedOf(undefined).runs[0], attempt: 1 } as MlflowRun;
        const tracked = {
          experiments: [],
          models: [],
          runs: names.map((name) => ({ ...of, prefix: `${name}/` })),
        };
        addRun(
          tracked,
          {
            experiment: "0",
            user: "",
            start: 1,
            attempt: 1,
            tags: {},
            name: names[0]!,
          },
          "run",
          () => undefined,
        );
        const prefixes = prefixesOf(tracked.runs);
        for (const name of text.split("0")) metricKey(prefixes, name.slice(0, 250));
      }
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
    }
  },
};

const filters: Target = {
  name: "filters",
  tokens: [
    "param.lr",
    "metric.loss",
    " and ",
    " or ",
    "not ",
    "(",
    "~",
    "'a'",
    ">= ",
    "state=",
    "in ",
  ],
  forms: [bytesOf, (text) => bytesOf(`name ~ "${text}"`), (text) => bytesOf(`metric.${text} > 1`)],
  samples: [bytesOf(`state = 'failed' and (param.lr > 0.1 or name ~ "a") and not tags = x`)],
  read: (bytes) => {
    try {
      fits(parseExpression(decoder.decode(bytes)), () => "a", new Budget());
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
    }
  },
};

const field = (name: string) => (text: string) => {
  const config = JSON.parse(configOf({ command: ["sh", "-c", "true"] }));
  config.metadata[name] = text.toWellFormed();
  return bytesOf(JSON.stringify(config));
};
const configs: Target = {
  name: "configs",
  tokens: [
    ...JSON_TOKENS,
    "eyJ",
    "sk-",
    "password=",
    "://",
    "user:",
    "@tcp(",
    "token: ",
    "bearer ",
    "hf_",
    "--a=",
    "seed",
  ],
  forms: [
    bytesOf,
    (text) =>
      bytesOf(configOf({ command: ["sh"], metadata: { x: 1 } }).replace('"x":1', `"x":${text}`)),
    (text) => bytesOf(configOf({ command: ["sh", text.toWellFormed()] })),
    (text) => bytesOf(configOf({ command: ["sh", ...text.toWellFormed().split("a", 2000)] })),
    (text) => bytesOf(configOf({ command: ["sh"], name: text.toWellFormed() })),
    (text) => bytesOf(configOf({ command: ["sh"], environment: { A: text.toWellFormed() } })),
    (text) => bytesOf(configOf({ command: ["sh"], environment: { [text.toWellFormed()]: "" } })),
    ...["notes", "group", "tags", "anything"].map(field),
  ],
  samples: [
    bytesOf(
      configOf({
        command: ["sh", "-c", "echo", "--lr=0.1"],
        environment: { A: "b" },
        metadata: { tags: ["a"] },
      }),
    ),
    Deno.readFileSync(new URL("../../examples/cartpole.json", import.meta.url)),
  ],
  read: (bytes) => {
    try {
      const read = readConfig(decoder.decode(bytes));
      const run = prepareRun(read, {
        runId: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        layout: new Layout("/nowhere"),
      });
      planOf(run.configJson);
      parametersOf(run.configJson);
      presentConfig(run.configJson, false);
      flatParameters(JSON.parse(run.configJson));
      groupsOf([{ name: run.name, tags: run.tags }], "name");
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
    }
  },
};

const LIVE = { state: "EXECUTING", attempt: 1 } as RunRow;

/** Shows a log as the page, the API and the command line do. */
async function readLogs(bytes: Uint8Array): Promise<void> {
  const file = {
    size: bytes.length,
    begin: () => 0,
    read: (from: number, into: Uint8Array) => {
      const part = bytes.subarray(from, from + into.length);
      into.set(part);
      return Promise.resolve(part.length);
    },
    [Symbol.dispose]: () => {},
  };
  const core = { openLog: () => file } as unknown as Core;
  await readLog(core, LIVE, "stdout", -bytes.length);
  await readLogBefore(core, LIVE, "stdout", bytes.length);
  let matches = 0;
  for (const wanted of ["a", " ", "\u0130", "aaaaaaaab"]) {
    for (const _ of linesWith(wanted, bytes)) {
      matches++;
    }
  }
  const text = decoder.decode(bytes);
  const terminal = new TerminalFilter();
  for (let at = 0; at < text.length; at += 4096) terminal.pass(text.slice(at, at + 4096));
  new TerminalFilter().pass(text);
  escapeControlLines(text);
}

const logs: Target = {
  name: "logs",
  tokens: ["\r", "\r\n", "\n\n", "\x1b[0m", "\x1b[38;5;", "10%|", "step "],
  forms: [bytesOf],
  samples: [fixture("sb3.stdout.txt")],
  read: readLogs,
};

const directory = Deno.makeTempDirSync({ prefix: "mosaic-fuzz-" });
globalThis.addEventListener("unload", () => Deno.removeSync(directory, { recursive: true }));
const RUN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

/** A run file whose list of files is this text. */
function runFile(entries: string): Uint8Array {
  const path = `${directory}/made`;
  Deno.removeSync(directory, { recursive: true });
  Deno.mkdirSync(directory);
  const db = new DatabaseSync(path);
  db.exec(`PRAGMA application_id = ${0x6d6f7361}; PRAGMA user_version = 1;
    CREATE TABLE head (format INTEGER, run_id TEXT, entries TEXT, sha256 TEXT);
    CREATE TABLE chunks (entry INTEGER, n INTEGER, data BLOB, PRIMARY KEY (entry, n))`);
  const text = entries.toWellFormed().replaceAll("\0", " ");
  const digest = createHash("sha256").update(RUN_ID + text).digest("hex");
  db.prepare("INSERT INTO head VALUES (1, ?, ?, ?)").run(RUN_ID, text, digest);
  db.close();
  return Deno.readFileSync(path);
}

const entry = (path: string, kind = "directory") => ({
  path,
  kind,
  mode: 0o700,
  mtime: 0,
  bytes: 0,
  content: "",
});
const runFiles: Target = {
  name: "run-files",
  tokens: ["directory/", "directory", "../", "./", "/", "configs/", ".mosaic/", ...JSON_TOKENS],
  forms: [
    runFile,
    (text) =>
      runFile(JSON.stringify([entry("directory"), entry(`directory/${text.toWellFormed()}`)])),
    (text) => runFile(JSON.stringify([entry("directory"), entry(text.toWellFormed())])),
    (text) =>
      runFile(
        JSON.stringify(
          text.toWellFormed().split("a", 3000).map((path) => entry(`directory/${path}`, "file")),
        ),
      ),
    (text) => runFile(JSON.stringify([{ ...entry("directory"), content: text.toWellFormed() }])),
  ],
  samples: [runFile(JSON.stringify([entry("directory"), entry("directory/a")]))],
  read: (bytes) => {
    const path = `${directory}/read`;
    Deno.writeFileSync(path, bytes);
    try {
      using _file = new RunFile(path);
    } catch (error) {
      if (!(error instanceof MosaicError)) throw error;
    }
  },
};

const notes: Target = {
  name: "notes",
  isShort: true,
  tokens: [
    "**",
    "__",
    "[a](",
    "![a](",
    "](",
    "> ",
    "- ",
    "1. ",
    "```",
    "a@",
    "www.",
    "http://a",
    "<a ",
    "<!--",
    "<? ",
    "<![CDATA[",
    "|a",
    "|-",
    "~~",
  ],
  forms: [
    bytesOf,
    // Runs of asterisks, each longer than the one before it.
    (text) =>
      bytesOf(
        Array.from({ length: Math.sqrt(2 * text.length) }, (_, i) => "*".repeat(i) + text[i]).join(
          "",
        ),
      ),
    (text) => bytesOf(`# a\n\n${text}\n\n| a |\n|---|\n| ${text.replaceAll("\n", " ")} |\n`),
  ],
  samples: [
    bytesOf(
      "# Title\n\nA *word*, **two** and `code`.\n\n- a\n  - b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n",
    ),
  ],
  read: (bytes) => {
    const text = decoder.decode(bytes);
    void String(markdown(text));
    try {
      tokensOf(text);
    } catch {
      // Both users show the text instead of notes that nest too deep.
    }
  },
};

const gpuTools: Target = {
  name: "gpu-tools",
  tokens: [
    ...JSON_TOKENS,
    ...[
      "0, ",
      "GPU-1",
      "[N/A]",
      "GPU 0: ",
      "(UUID: GPU-",
      "  MIG 1g",
      " Device 0: (UUID: MIG-",
      "gb",
      "GPU is lost",
    ],
    ...['"card0":{', '"PID 1":', "Average Power (W)", '"gpu":0,', '"value":', '"process_list":['],
  ],
  forms: [
    bytesOf,
    (text) => bytesOf(`0, GPU-1, ${text}, 1, 1, 1, 1, 1, Enabled\n`),
    (text) => bytesOf(`GPU 0: A (UUID: GPU-1)\n  MIG ${text} Device 0: (UUID: MIG-1)\n`),
    (text) =>
      bytesOf(
        `{"system":{"PID 1":${text}},"card0":{"Unique ID":${text},${JSON.stringify(text)}:1}}`,
      ),
    (text) =>
      bytesOf(
        `[{"gpu":0,"uuid":${text},"mem_usage":{"used_vram":${text}},"process_list":${text}}]`,
      ),
  ],
  samples: [
    bytesOf("0, GPU-1, NVIDIA H100, 81559, 12, 3, 70.1, 35, Enabled\nGPU 0: H (UUID: GPU-1)\n"),
    bytesOf(
      '{"card0":{"Unique ID":"0x1","GPU use (%)":"3"},"system":{"PID 7":"python, 1, 1048576, 0"}}',
    ),
    bytesOf('[{"gpu":0,"mem_usage":{"total_vram":{"value":64,"unit":"GB"}},"process_list":[]}]'),
  ],
  read: (bytes) => {
    const stdout = decoder.decode(bytes);
    for (
      const output of [{ code: 0, stdout, stderr: "" }, { code: 1, stdout: "", stderr: stdout }]
    ) {
      const { cards } = nvidia.parseCards(output, nvidia.cardQuery(new Set()).fields);
      nvidia.withInstances(cards, stdout);
      rocm.parseCards(output);
      amd.parseCards(output, amd.parseKnown(stdout, stdout));
    }
    nvidia.parseProcesses(stdout);
    rocm.parseProcesses(stdout);
    amd.parseProcesses(stdout, amd.parseKnown(stdout, stdout));
  },
};

const code: Target = {
  name: "code",
  tokens: [
    ...[
      "diff --git a/x b/x\n",
      "+++ b/",
      "--- a/",
      "@@ -1 +1 @@\n",
      "new file mode\n",
      "+token = ",
      '+password="',
      "\\303",
    ],
    ...[
      "-----BEGIN PRIVATE KEY-----",
      "-----END",
      "eyJ",
      "sk-",
      "1 regular file ",
      ".py",
      "-1.0.dist-info",
      "https://a:b@",
    ],
  ],
  forms: [
    bytesOf,
    (text) => bytesOf(`diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n+${text}\n`),
    (text) => bytesOf(`diff --git "a/${text}" "b/${text}"\nnew file mode 100644\n`),
    (text) =>
      bytesOf(
        `{"cwd":${JSON.stringify(text)},"git":${text},"words":[],"problems":[${
          JSON.stringify(text)
        }]}`,
      ),
  ],
  samples: [
    bytesOf(
      "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a = 1\n+a = 2\n",
    ),
  ],
  read: (bytes) => {
    const text = decoder.decode(bytes);
    for (const part of partsOf(bytesText(bytes))) maskCode(part.text);
    differingLines(bytes, bytes.subarray(bytes.length >> 1));
    chooseUntracked(text.split("\0").flatMap((line) => untrackedOf(line) ?? []));
    pairsOf(text);
    const names = text.slice(0, 1 << 16).split("\n").map((name) => name.slice(0, 255));
    packagesOf(names, names, names.map((name) => `a-1.dist-info ${name}`));
    for (const check of [checkedCode, checkedEnvironment]) {
      try {
        check(text);
      } catch (error) {
        if (!(error instanceof MosaicError)) throw error;
      }
    }
  },
};

const sweeps: Target = {
  name: "sweeps",
  tokens: [
    ...JSON_TOKENS,
    "{lr}",
    "{{lr}}",
    "1..9",
    "choice(",
    "log(1,2)",
    "seed",
    "grid:\n",
    "  lr: ",
    "- ",
    "%8",
    "&a ",
    "*a",
  ],
  forms: [
    bytesOf,
    (text) => bytesOf(`grid:\n  lr: ${text}\ncommand: [sh, "{lr}"]\n`),
    (text) => bytesOf(`method: random\nparameters:\n  lr: ${text}\nprogram: a.py\n`),
    ...['"config":', '"config":{"arguments":["{lr}"]},"parts":'].map((before) => (text: string) =>
      bytesOf(`{"name":"a","pass":"flags","budget":{},${before}${text}}`)
    ),
    (text) =>
      bytesOf(JSON.stringify({
        ...{
          name: "a",
          pass: "flags",
          budget: {},
          config: { arguments: [text, ...text.split("a", 1000)] },
        },
        parts: [{ axes: [{ name: "lr", values: [text] }] }],
      })),
  ],
  samples: [
    bytesOf(
      "name: a\ncommand: [python, t.py, --lr, '{lr}']\ngrid: {lr: [1, 2]}\nseeds: 1..4\nstop: asha(min=1,max=9)\n",
    ),
    bytesOf(
      '{"name":"a","pass":"flags","budget":{},"config":{},"parts":[{"axes":[{"name":"lr","values":[1]}]}]}',
    ),
  ],
  read: (bytes) => {
    const text = decoder.decode(bytes);
    const words = [
      // A person's own file: the library needs some 17 µs for a byte of a text that is full of
      // errors.
      () => sweepFile(text.slice(0, 4096), "a.yaml", () => text.slice(0, 4096)),
      () => {
        const spec = specFrom(text);
        for (const trial of [0, trialCount(spec) - 1]) {
          shellLine(commandOf(trialConfig(spec, RUN_ID, trial)));
        }
        pointAt(spec, 0);
      },
      ...[gridAxis, arrayWords, spaceOf, metricOf].map((read) => () => read(text)),
      () => wholeAxis("seed", text),
      () => rowsOf(text, "a.csv"),
      () => budgetOf([text]),
      () => stopOf(text, {}),
    ];
    for (const read of words) {
      try {
        read();
      } catch (error) {
        if (!(error instanceof MosaicError)) throw error;
      }
    }
  },
};

export const TARGETS: readonly Target[] = [
  ...[events, wandb, csv, textFile, jsonLines, printed],
  ...[mlflow, filters, configs, logs, runFiles, notes],
  ...[gpuTools, code, sweeps],
];
