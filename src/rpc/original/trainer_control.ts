/**
 * ControlStream: pauses, resumes and throttles a run, grants credits, and reports such changes by
 * others.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ControlEvent, ControlEventSchema } from "../../gen/gymgui/trainer_pb.ts";
import type { Core } from "../../dispatch/core/core.ts";
import type { DesiredControl } from "../../dispatch/attempt/state/connected_proxy.ts";
import { MosaicError } from "../../base/errors.ts";
import { bearerOf } from "../call/calls.ts";
import type { Credits } from "../call/credits.ts";
import type { Caller, Incoming, Outgoing } from "../call/handlers.ts";
import { anyOf, firstOf, pause } from "../../wire/http/waiting.ts";

const POLL_MS = 250;

type ControlInit = MessageInitShape<typeof ControlEventSchema>;

type Desired = Omit<DesiredControl, "workerHears">;

function desiredOf(core: Core, runId: string): Desired | undefined {
  const row = core.runs.get(runId);
  return row && { paused: row.pauseRequested || row.state === "PAUSED", maxRateHz: row.maxRateHz };
}

/** The events that turn one into the other. */
function controlChanges(runId: string, before: Desired, now: Desired): ControlInit[] {
  const changes: ControlInit[] = [];
  if (now.paused !== before.paused) {
    changes.push({ runId, event: { case: now.paused ? "pause" : "resume", value: true } });
  }
  if (now.maxRateHz !== before.maxRateHz) {
    changes.push({ runId, event: { case: "maxRateHz", value: now.maxRateHz } });
  }
  return changes;
}

function apply(core: Core, credits: Credits, message: ControlEvent, caller: Caller): void {
  const { runId, event } = message;
  core.runs.require(runId);
  if (caller.principal.type === "session" && event.case !== undefined) {
    throw new MosaicError(
      "permission_denied",
      `the session token of run ${runId} may follow its control, not change it`,
    );
  }
  switch (event.case) {
    case "pause":
      if (event.value) core.pause(runId);
      return;
    case "resume":
      if (event.value) core.resume(runId);
      return;
    case "maxRateHz":
      core.throttle(runId, event.value);
      return;
    case "grantSteps":
      credits.grant(caller, runId, event.value);
      return;
    case undefined:
      // Only subscribes to this run.
      return;
  }
}

/**
 * The client names runs by sending events (one without an `event` only subscribes). From then on it
 * receives each change of those runs' desired control, beginning with the current one.
 */
export async function controlStream(
  core: Core,
  credits: Credits,
  incoming: Incoming<ControlEvent>,
  out: Outgoing<typeof ControlEventSchema>,
  caller: Caller,
): Promise<void> {
  const sent = new Map<string, Desired>();
  const leave: (() => void)[] = [];
  const ended = new AbortController();
  /** Resolves when the client names another run. */
  let named = Promise.withResolvers<void>();

  const reader = (async () => {
    try {
      for (;;) {
        const messages = await incoming.take();
        if (messages.length === 0) return;
        for (const message of messages) {
          if (message.runId === "") {
            throw new MosaicError("invalid_argument", "run_id is empty: name the run to control");
          }
          apply(core, credits, message, caller);
          if (sent.has(message.runId)) continue;
          sent.set(message.runId, { paused: false, maxRateHz: 0 });
          leave.push(
            core.workerListens(message.runId, bearerOf(caller.header("authorization"))) ??
              (() => {}),
          );
        }
        named.resolve();
      }
    } finally {
      for (const leaves of leave) leaves();
      ended.abort();
    }
  })();
  // Awaited below; until then a failure must not count as unhandled.
  reader.catch(() => {});

  using open = anyOf(caller.signal, ended.signal);
  while (!caller.signal.aborted) {
    const seen = core.runs.eventHead();
    named = Promise.withResolvers();
    for (const [runId, before] of sent) {
      const now = desiredOf(core, runId);
      if (now === undefined) {
        sent.delete(runId);
        continue;
      }
      sent.set(runId, now);
      for (const change of controlChanges(runId, before, now)) await out.send(change);
    }
    if (open.signal.aborted) break;
    await firstOf(
      open.signal,
      () => named.promise,
      (stop) => core.runs.waitEventsBeyond(seen, stop),
      // A desired control that is not applied yet causes no event.
      (stop) => sent.size === 0 ? named.promise : pause(POLL_MS, stop),
    );
  }
  await reader;
}
