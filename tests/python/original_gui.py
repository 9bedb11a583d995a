"""Calls a daemon in the pattern of the original's GUI (asyncio, one channel, streams without a deadline)."""

import asyncio
import json
import sys

import grpc

import stubs

pb, rpc = stubs.load()
ALL_STATES = list(range(1, 8))
STEPS = 300


def config(name, *argv):
    return json.dumps({
        "run_name": name,
        "entry_point": sys.executable,
        "arguments": [],
        "environment": {},
        "resources": {"cpus": 1, "memory_mb": 256, "gpus": {"requested": 0, "mandatory": False}},
        "artifacts": {"output_prefix": name},
        "metadata": {"worker": {"script": argv[0], "arguments": list(argv[1:]), "use_grpc": False}},
    })


class Tab:
    """One run's tab: both streams, again with the last seq after any end, as the GUI does."""

    def __init__(self, stub, run_id):
        self.steps, self.episodes = [], []
        self.tasks = [
            asyncio.create_task(self.follow(stub.StreamRunSteps, pb.StreamStepsRequest, run_id, self.steps)),
            asyncio.create_task(self.follow(stub.StreamRunEpisodes, pb.StreamEpisodesRequest, run_id, self.episodes)),
        ]

    async def follow(self, method, request, run_id, seen):
        while True:
            since = seen[-1].seq_id if seen else 0
            try:
                async for message in method(request(run_id=run_id, since_seq=since)):
                    seen.append(message)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.2)

    def close(self):
        for task in self.tasks:
            task.cancel()


async def until(what, condition):
    for _ in range(1200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


async def expect(code, call, text=""):
    try:
        await call
    except grpc.aio.AioRpcError as error:
        assert error.code() == code and text in error.details(), (error.code(), error.details())
        return error.details()
    raise AssertionError(f"expected {code}")


async def main(target, worker):
    async with grpc.aio.insecure_channel(target, options=stubs.CHANNEL_OPTIONS) as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)
        stub = rpc.TrainerServiceStub(channel)

        records = {}

        async def watch():
            async for record in stub.WatchRuns(pb.WatchRunsRequest(status_filter=ALL_STATES, since_seq=0)):
                records.setdefault(record.run_id, []).append(record)

        watching = asyncio.create_task(watch())

        # A config with two mistakes: both are named in the text that the GUI shows.
        broken = json.loads(config("broken", worker))
        del broken["run_name"]
        broken["resources"]["cpus"] = 0
        details = await expect(
            grpc.StatusCode.INVALID_ARGUMENT, stub.SubmitRun(pb.SubmitRunRequest(config_json=json.dumps(broken)))
        )
        assert "run_name" in details and "cpus" in details and "; " in details, details
        await expect(grpc.StatusCode.INVALID_ARGUMENT, stub.SubmitRun(pb.SubmitRunRequest(config_json="[]")))

        answer = await stub.SubmitRun(pb.SubmitRunRequest(config_json=config("gui", "/bin/sh", worker, str(STEPS), "0", "0")), timeout=60)
        assert len(answer.run_id) == 26 and len(answer.digest) == 64, answer
        tab = Tab(stub, answer.run_id)
        await until("TERM", lambda: any(r.status == pb.RUN_STATUS_TERM for r in records.get(answer.run_id, [])))
        await until("all steps and the episode", lambda: len(tab.steps) == STEPS and len(tab.episodes) == 1)
        assert [m.seq_id for m in tab.steps] == list(range(1, STEPS + 1))
        assert [m.step_index for m in tab.steps] == sorted({m.step_index for m in tab.steps})
        assert all(m.run_id == answer.run_id and m.timestamp.seconds > 0 for m in tab.steps)
        assert not any(r.HasField("failure_reason") for r in records[answer.run_id])
        statuses = [r.status for r in records[answer.run_id]]
        assert statuses == sorted(statuses) and statuses[-1] == pb.RUN_STATUS_TERM, statuses
        live = [r.seq_id for r in records[answer.run_id] if r.seq_id]
        assert live == sorted(set(live)), live

        # Both streams stay open at the end of the run: a clean end would make the GUI subscribe for ever.
        resumed = stub.StreamRunSteps(pb.StreamStepsRequest(run_id=answer.run_id, since_seq=STEPS - 2))
        assert [(await resumed.read()).seq_id, (await resumed.read()).seq_id] == [STEPS - 1, STEPS]
        try:
            message = await asyncio.wait_for(resumed.read(), 0.3)
            raise AssertionError(f"the stream gave {message} at the head")
        except asyncio.TimeoutError:
            resumed.cancel()

        # A long run, submitted twice (a double click) and cancelled within the GUI's five seconds.
        request = pb.SubmitRunRequest(config_json=config("long", "/bin/sh", worker, "100000", "0.05", "0"))
        first, second = await stub.SubmitRun(request, timeout=60), await stub.SubmitRun(request, timeout=60)
        assert first.run_id == second.run_id and first.digest == second.digest
        await until("EXEC", lambda: any(r.status == pb.RUN_STATUS_EXEC for r in records.get(first.run_id, [])))
        await stub.CancelRun(pb.CancelRunRequest(run_id=first.run_id), timeout=5)
        await until("cancelled", lambda: records[first.run_id][-1].status == pb.RUN_STATUS_TERM)
        assert records[first.run_id][-1].failure_reason == "user_cancel"
        await expect(grpc.StatusCode.NOT_FOUND, stub.CancelRun(pb.CancelRunRequest(run_id="nope"), timeout=5))

        runs = (await stub.ListRuns(pb.ListRunsRequest(status_filter=ALL_STATES), timeout=3)).runs
        assert [r.run_id for r in runs] == [answer.run_id, first.run_id]
        health = await stub.GetHealth(pb.HealthCheckRequest(), timeout=10)
        assert health.healthy and health.listen_address == target and health.pid > 1

        tab.close()
        watching.cancel()
    print("ok")


asyncio.run(main(*sys.argv[1:]))
