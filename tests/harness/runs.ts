/** Queries of tests about a daemon's runs. */
import { MosaicError } from "../../src/base/errors.ts";
import type { MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic, type Run } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import type { TestDaemon } from "./daemon.ts";
import { until } from "./wait.ts";

export async function submit(daemon: TestDaemon, configJson: string): Promise<string> {
  return (await daemon.client.unary(TrainerService.method.submitRun, { configJson })).runId;
}

export function getRun(daemon: TestDaemon, run: string): Promise<Run> {
  return daemon.client.unary(Mosaic.method.getRun, { run });
}

/** Waits until the run is in one of the states, also across a restart of the daemon. */
export async function untilState(
  daemon: TestDaemon,
  run: string,
  ...states: string[]
): Promise<Run> {
  let last: Run | undefined;
  return await until(async () => {
    try {
      last = await getRun(daemon, run);
    } catch (error) {
      if (daemon.died !== undefined) {
        throw new Error(`the daemon died: ${JSON.stringify(daemon.died)}\n${daemon.output()}`);
      }
      if (error instanceof MosaicError && error.code === "unavailable") return undefined;
      throw error;
    }
    if (states.includes(last.state)) return last;
    // An ended run does not change by itself.
    if (last.outcome !== "") {
      throw new Error(`${run} is ${last.state} (${last.reason}), not ${states.join(" or ")}`);
    }
    return undefined;
  }, {
    what: `${run} to be ${states.join(" or ")}`,
    state: () => ({
      state: last?.state,
      reason: last?.reason,
      daemon: daemon.output().slice(-3000),
    }),
  });
}

/** Waits until exactly this many steps of the run are stored or, with `atLeast`, more. */
export async function untilSteps(
  daemon: TestDaemon,
  run: string,
  count: number,
  atLeast = false,
): Promise<void> {
  let stored = 0;
  await until(async () => {
    stored = Number((await getRun(daemon, run)).telemetry?.steps);
    return stored === count || (atLeast && stored > count);
  }, { what: `${count} stored steps`, state: () => stored });
}

export interface StepLine {
  seq: number;
  step_index: number;
  episode_index: number;
  attempt: number;
}

/** All steps stored so far, as `mosaic steps -o jsonl` prints them. */
export async function steps(daemon: TestDaemon, run: string): Promise<StepLine[]> {
  return await records(daemon, run, "steps") as unknown as StepLine[];
}

/** All rows of a kind, as printed by `mosaic steps -o jsonl` and similar verbs. */
export async function records(
  { client }: { client: Pick<MosaicClient, "stream"> },
  run: string,
  kind: string,
): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  for await (const { jsonl } of client.stream(Mosaic.method.streamTelemetry, { run, kind })) {
    for (const line of new TextDecoder().decode(jsonl).split("\n")) {
      if (line !== "") rows.push(JSON.parse(line));
    }
  }
  return rows;
}
