// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.

import type { RunEpisode, RunStep } from "../gymgui/trainer_pb.ts";
import { numberOnWire } from "./step_columns.ts";
import type { EpisodeRecord, StepRecord, StoredEpisode, StoredStep } from "./record_types.ts";

/** Writes a framed message field by field, in the order of their numbers; defaults are left out. */
export interface FrameFields {
  begin(): void;
  end(): void;
  uint(field: number, value: number): void;
  bool(field: number, value: boolean): void;
  double(field: number, value: number): void;
  text(field: number, text: string): void;
  timestamp(field: number, ns: string): void;
}

/** The original's RunStep. */
export function writeStep(frames: FrameFields, runId: string, r: StoredStep): void {
  frames.begin();
  frames.text(1, runId);
  frames.uint(2, r.episode);
  frames.uint(3, r.step);
  frames.text(4, r.actionJson);
  frames.text(5, r.observationJson);
  frames.double(6, r.reward);
  frames.bool(7, r.terminated);
  frames.bool(8, r.truncated);
  frames.timestamp(9, r.tsNs);
  frames.text(10, r.policyLabel);
  frames.text(11, r.backend);
  frames.uint(12, r.seq);
  frames.text(13, r.agentId);
  frames.text(14, r.renderHintJson);
  frames.text(15, r.frameRef);
  frames.uint(16, r.payloadVersion);
  frames.text(17, r.renderPayloadJson);
  frames.uint(18, r.episodeSeed);
  frames.text(19, r.workerId);
  frames.end();
}

/** The original's RunEpisode. */
export function writeEpisode(frames: FrameFields, runId: string, r: StoredEpisode): void {
  frames.begin();
  frames.text(1, runId);
  frames.uint(2, r.episode);
  frames.double(3, r.totalReward);
  frames.uint(4, r.steps);
  frames.bool(5, r.terminated);
  frames.bool(6, r.truncated);
  frames.text(7, r.metadataJson);
  frames.timestamp(8, r.tsNs);
  frames.uint(9, r.seq);
  frames.text(10, r.agentId);
  frames.text(11, r.workerId);
  frames.end();
}

export function stepOfMessage(message: RunStep, nsOf: (time: RunStep["timestamp"]) => string): StepRecord {
  return {
    episode: Number(message.episodeIndex),
    step: Number(message.stepIndex),
    actionJson: message.actionJson,
    observationJson: message.observationJson,
    reward: message.reward,
    terminated: message.terminated,
    truncated: message.truncated,
    tsNs: nsOf(message.timestamp),
    agentId: message.agentId,
    workerId: message.workerId,
    policyLabel: message.policyLabel,
    backend: message.backend,
    renderHintJson: message.renderHintJson,
    renderPayloadJson: message.renderPayloadJson,
    frameRef: message.frameRef,
    payloadVersion: Number(message.payloadVersion),
    episodeSeed: Number(message.episodeSeed),
    infoJson: "",
  };
}

export function episodeOfMessage(message: RunEpisode, nsOf: (time: RunEpisode["timestamp"]) => string): EpisodeRecord {
  return {
    episode: Number(message.episodeIndex),
    totalReward: numberOnWire(message.totalReward),
    steps: Number(message.steps),
    terminated: message.terminated,
    truncated: message.truncated,
    tsNs: nsOf(message.timestamp),
    agentId: message.agentId,
    workerId: message.workerId,
    metadataJson: message.metadataJson,
  };
}
