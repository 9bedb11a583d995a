/** Steps and episodes between the original's messages and the store's records. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { RunEpisode, RunEpisodeSchema, RunStep, RunStepSchema } from "../gen/gymgui/trainer_pb.ts";
import type { EpisodeRecord, StepRecord } from "../telemetry/batch.ts";
import type { StoredEpisode, StoredStep } from "../telemetry/types.ts";
import { nsOfTimestamp, timestampOfNs } from "../wire/time.ts";

export function stepMessage(runId: string, step: StoredStep): MessageInitShape<typeof RunStepSchema> {
  return {
    runId,
    episodeIndex: BigInt(step.episode),
    stepIndex: BigInt(step.step),
    actionJson: step.actionJson,
    observationJson: step.observationJson,
    reward: step.reward,
    terminated: step.terminated,
    truncated: step.truncated,
    timestamp: timestampOfNs(step.tsNs),
    policyLabel: step.policyLabel,
    backend: step.backend,
    seqId: BigInt(step.seq),
    agentId: step.agentId,
    renderHintJson: step.renderHintJson,
    frameRef: step.frameRef,
    payloadVersion: step.payloadVersion,
    renderPayloadJson: step.renderPayloadJson,
    episodeSeed: BigInt(step.episodeSeed),
    workerId: step.workerId,
  };
}

export function episodeMessage(runId: string, episode: StoredEpisode): MessageInitShape<typeof RunEpisodeSchema> {
  return {
    runId,
    episodeIndex: BigInt(episode.episode),
    totalReward: episode.totalReward,
    steps: BigInt(episode.steps),
    terminated: episode.terminated,
    truncated: episode.truncated,
    metadataJson: episode.metadataJson,
    timestamp: timestampOfNs(episode.tsNs),
    seqId: BigInt(episode.seq),
    agentId: episode.agentId,
    workerId: episode.workerId,
  };
}

export function stepRecord(message: RunStep): StepRecord {
  return {
    episode: Number(message.episodeIndex),
    step: Number(message.stepIndex),
    reward: message.reward,
    terminated: message.terminated,
    truncated: message.truncated,
    tsNs: nsOfTimestamp(message.timestamp),
    agentId: message.agentId,
    workerId: message.workerId,
    policyLabel: message.policyLabel,
    backend: message.backend,
    actionJson: message.actionJson,
    observationJson: message.observationJson,
    renderHintJson: message.renderHintJson,
    renderPayloadJson: message.renderPayloadJson,
    frameRef: message.frameRef,
    payloadVersion: message.payloadVersion,
    episodeSeed: Number(message.episodeSeed),
    infoJson: "",
  };
}

export function episodeRecord(message: RunEpisode): EpisodeRecord {
  return {
    episode: Number(message.episodeIndex),
    totalReward: Number.isFinite(message.totalReward) ? message.totalReward : String(message.totalReward),
    steps: Number(message.steps),
    terminated: message.terminated,
    truncated: message.truncated,
    metadataJson: message.metadataJson,
    tsNs: nsOfTimestamp(message.timestamp),
    agentId: message.agentId,
    workerId: message.workerId,
  };
}
