"""Publishes to a daemon as the original's telemetry proxy does. Run as the worker of a run: RUN_ID names it."""

import json
import os
import sys

import grpc

import stubs

pb, rpc = stubs.load()
RUN_ID = os.environ["RUN_ID"]
STEPS, AGENTS = 200, ["predator", "prey"]


def register(stub, **fields):
    return stub.RegisterWorker(
        pb.RegisterWorkerRequest(run_id=RUN_ID, schema_id="jsonl.telemetry", schema_version=1, **fields), timeout=30
    )


def steps():
    for step in range(STEPS):
        for agent in AGENTS:
            message = pb.RunStep(
                run_id=RUN_ID, episode_index=step // 50, step_index=step, action_json=json.dumps({"move": step}),
                observation_json=json.dumps("näher"), reward=0.5, agent_id=agent, policy_label="p", backend="b",
                payload_version=1, episode_seed=7, worker_id="w-1", terminated=step % 50 == 49,
            )
            message.timestamp.FromNanoseconds(1_700_000_000_000_000_000 + step)
            yield message


def episodes():
    for episode in range(STEPS // 50):
        for agent in AGENTS:
            yield pb.RunEpisode(
                run_id=RUN_ID, episode_index=episode, total_reward=25.0, steps=50, terminated=True,
                metadata_json=json.dumps({"game_id": "tag"}), agent_id=agent,
            )


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def main(target):
    with grpc.insecure_channel(target, options=stubs.CHANNEL_OPTIONS) as channel:
        stub = rpc.TrainerServiceStub(channel)
        proxy = register(
            stub, worker_kind="telemetry_proxy", worker_id=f"proxy-{os.getpid()}", proto_version="MOSAIC/1.0"
        )
        # CleanRL registers by itself besides; neither invalidates the other.
        worker = register(stub, worker_kind="cleanrl", worker_id="cleanrl_worker", proto_version="MOSAIC/1.0")
        assert proxy.accepted_version == worker.accepted_version == "MOSAIC/1.0"
        assert proxy.session_token and worker.session_token
        assert code_of(lambda: register(stub, proto_version="MOSAIC/9.0")) == grpc.StatusCode.FAILED_PRECONDITION

        published = stub.PublishRunSteps(steps())
        assert (published.accepted, published.dropped) == (STEPS * len(AGENTS), 0), published
        assert stub.PublishRunEpisodes(episodes()).accepted == STEPS // 50 * len(AGENTS)
        assert stub.PublishRunSteps(iter(())).accepted == 0
        stub.Heartbeat(pb.HeartbeatRequest(run_id=RUN_ID), timeout=10)

        unknown = pb.RunStep(run_id="unknown")
        assert code_of(lambda: stub.PublishRunSteps(iter([unknown]))) == grpc.StatusCode.NOT_FOUND
        assert code_of(lambda: stub.PublishRunSteps(iter([pb.RunStep()]))) == grpc.StatusCode.INVALID_ARGUMENT
        mixed = [pb.RunEpisode(run_id=RUN_ID, episode_index=99, agent_id="x"), pb.RunEpisode(run_id="unknown")]
        assert code_of(lambda: stub.PublishRunEpisodes(iter(mixed))) == grpc.StatusCode.INVALID_ARGUMENT
        # 48 MB in one record, as a large frame makes it.
        frame = pb.RunStep(run_id=RUN_ID, step_index=STEPS, agent_id="camera", render_payload_json=json.dumps("x" * 48_000_000))
        assert stub.PublishRunSteps(iter([frame])).accepted == 1


main(*sys.argv[1:])
