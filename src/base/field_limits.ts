/**
 * The bound of every field that somebody outside sends: of API messages, of configs, of the page's
 * and MLflow's requests. A field that has no line gets the default of its kind, so none is without
 * a bound; tests/rpc/field_limits_test.ts compares the table with all messages. Bytes are of UTF-8.
 */

const KIB = 1 << 10;
const MIB = 1 << 20;

/**
 * A text's or a byte string's bytes; of a list or a map, the bytes of all its texts and the number
 * of its entries.
 */
export interface FieldLimit {
  bytes: number;
  entries?: number;
}

/** Ids, names, versions and other words that are stored with a run and read for every list. */
const NAME: FieldLimit = { bytes: KIB };
/** A worker's record as JSON: what fits in a message, and what a proxy delivers of one line. */
const RECORD: FieldLimit = { bytes: 63 * MIB };

export const CONFIG_BYTES = 8 * MIB;
export const LONGEST_TAG = 100;
export const MOST_TAGS = 100;
/** Characters. */
export const LONGEST_NOTES = 64 * KIB;
export const LONGEST_FILTER = 4 * KIB;

/** For fields of these kinds without a line. */
export const DEFAULT_LIMITS = {
  /** A path. */
  string: { bytes: 4 * KIB },
  bytes: { bytes: 256 * KIB },
  list: { bytes: 256 * KIB, entries: 1000 },
  map: { bytes: MIB, entries: 10_000 },
} as const satisfies Record<string, FieldLimit>;

/** By `package.Message.field`. */
export const FIELD_LIMITS: Readonly<Record<string, FieldLimit>> = {
  "gymgui.trainer.SubmitRunRequest.config_json": { bytes: CONFIG_BYTES },
  "gymgui.trainer.SubmitRunRequest.run_id": NAME,
  "gymgui.trainer.RegisterWorkerRequest.run_id": NAME,
  "gymgui.trainer.RegisterWorkerRequest.worker_id": NAME,
  "gymgui.trainer.RegisterWorkerRequest.worker_kind": NAME,
  "gymgui.trainer.RegisterWorkerRequest.proto_version": NAME,
  "gymgui.trainer.RegisterWorkerRequest.schema_id": NAME,
  "gymgui.trainer.RunStep.action_json": RECORD,
  "gymgui.trainer.RunStep.observation_json": RECORD,
  "gymgui.trainer.RunStep.render_hint_json": RECORD,
  "gymgui.trainer.RunStep.render_payload_json": RECORD,
  "gymgui.trainer.RunEpisode.metadata_json": RECORD,

  "mosaic.v1.RunRef.run": NAME,
  "mosaic.v1.ValidateRequest.config_json": { bytes: CONFIG_BYTES },
  "mosaic.v1.ListRequest.where": { bytes: 4 * LONGEST_FILTER },
  // Contains the filter and the order.
  "mosaic.v1.ListRequest.page_token": { bytes: 64 * KIB },
  "mosaic.v1.EditRequest.name": NAME,
  "mosaic.v1.EditRequest.notes": { bytes: 4 * LONGEST_NOTES },
  "mosaic.v1.EditRequest.add_tags": { bytes: 4 * LONGEST_TAG * MOST_TAGS, entries: MOST_TAGS },

  "mosaic.v1.Hello.run_id": NAME,
  "mosaic.v1.Hello.proxy_identity": NAME,
  "mosaic.v1.Hello.worker_identity": NAME,
  "mosaic.v1.Hello.host": NAME,
  "mosaic.v1.Hello.job": NAME,
  "mosaic.v1.WorkerStarted.identity": NAME,
  "mosaic.v1.Batch.steps_json": RECORD,
  "mosaic.v1.Batch.episodes_json": RECORD,
  "mosaic.v1.Batch.events_json": RECORD,
  "mosaic.v1.SourceBatch.episodes_json": RECORD,
  "mosaic.v1.SourceBatch.events_json": RECORD,
  "mosaic.v1.SealedSteps.head": RECORD,
  "mosaic.v1.SealedSteps.hot": RECORD,
  "mosaic.v1.SealedSteps.body": RECORD,
  // What a worker has printed: a proxy whose batch is refused could never go on.
  "mosaic.v1.SealedSteps.agent_id": RECORD,
  "mosaic.v1.SealedSteps.worker_id": RECORD,
  "mosaic.v1.SealedSteps.policy_label": RECORD,
  "mosaic.v1.SealedSteps.backend": RECORD,
  "mosaic.v1.Batch.malformed_samples": { bytes: 256 * KIB, entries: 1000 },
  "mosaic.v1.Batch.violation_samples": RECORD,
  "mosaic.v1.Batch.violations": { ...RECORD, entries: 1_000_000 },
  "mosaic.v1.SourceCursor.name": { bytes: 16 * KIB },
  "mosaic.v1.SourceCursor.label": { bytes: 16 * KIB },
  // JSON of a proxy about one observed file.
  "mosaic.v1.SourceCursor.state": { bytes: 4 * MIB },
  // 64 KiB of any bytes, of which each that is no UTF-8 becomes three.
  "mosaic.v1.Exit.stderr_tail": { bytes: 256 * KIB, entries: 64 * KIB },
  "mosaic.v1.Exit.spawn_error": { bytes: 16 * KIB },
  // src/provenance/bounds.ts.
  "mosaic.v1.RecordCodeRequest.run_id": NAME,
  "mosaic.v1.RecordCodeRequest.code_json": { bytes: 4 * MIB },
  "mosaic.v1.RecordCodeRequest.environment_json": { bytes: 4 * MIB },
  "mosaic.v1.RecordCodeRequest.diff": { bytes: 8 * MIB },
  "mosaic.v1.AttemptCode.run_id": NAME,
  "mosaic.v1.AttemptCode.code_json": { bytes: 4 * MIB },
  "mosaic.v1.AttemptCode.environment_json": { bytes: 4 * MIB },
  "mosaic.v1.AttemptCode.diff": { bytes: 8 * MIB },
  // MOST_SPEC_TEXT of src/sweeps/spec.ts.
  "mosaic.v1.CreateSweepRequest.spec_json": { bytes: 4 * MIB },
  "mosaic.v1.CreateSweepRequest.sweep_id": NAME,
  "mosaic.v1.ChangeSweepRequest.sweep": NAME,
  "mosaic.v1.ChangeSweepRequest.action": NAME,
  "mosaic.v1.ChangeSweepRequest.extension_json": { bytes: 4 * MIB },
  "mosaic.v1.FetchRequest.have": { bytes: 0, entries: 20_000 },
};

/** Strings, lists and objects anywhere in a config, also where it may have any keys. */
export const CONFIG_LIMITS = {
  /** The kernel takes no longer argument or variable. */
  text: 128 * KIB,
  entries: 10_000,
  /** By path: what every list and every record of the run would carry. */
  named: {
    "metadata.tags": MOST_TAGS,
    "metadata.worker.agent_id": KIB,
    "metadata.worker.config.agent_id": KIB,
    "metadata.worker.config.schema_id": KIB,
  } as Readonly<Record<string, number>>,
} as const;

/** Address with its query, of any request to the page, MLflow's API or the API. */
export const URL_BYTES = 32 * KIB;
/** A text of MLflow's requests, and the entries of one of their lists. */
export const MLFLOW_LIMITS = { text: 64 * KIB, entries: 10_000 } as const;
/**
 * Characters of a text of a run's row, but config and notes; and of all texts of one of its lists.
 * What an earlier version has stored beyond that is read cut, so that it does not make the list of
 * all runs too large to be sent.
 */
export const STORED_LENGTH = { text: 8 * KIB, list: 256 * KIB } as const;
/**
 * The data of one event of the event log, which every stream, webhook and page of events must be
 * able to carry.
 */
export const EVENT_LIMITS = { bytes: MIB, depth: 500 } as const;
/** Bytes of the rows of one page of runs: an answer has 64 MiB at most. */
export const PAGE_BYTES = 32 * MIB;

/** Bytes of a text in UTF-8, without encoding it where its length alone decides. */
export function isLonger(text: string, bytes: number): boolean {
  if (text.length > bytes) return true;
  return text.length * 3 > bytes && bytesOfText(text) > bytes;
}

const encoder = new TextEncoder();

export function bytesOfText(text: string): number {
  return encoder.encode(text).length;
}
