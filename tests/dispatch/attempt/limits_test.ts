import assert from "node:assert/strict";
import { RunClock, type RunLimits } from "../../../src/dispatch/attempt/state/limits.ts";

const LIMITS: RunLimits = {
  handshakeMs: 60,
  heartbeatMs: 300,
  stallMs: null,
  maxDurationMs: null,
  maxSteps: null,
};

Deno.test("limits: a proxy that does not register in time, a run that gives no sign of life", () => {
  const clock = new RunClock(0);
  assert.equal(clock.exceeded("HANDSHAKE", LIMITS, 0, 60), undefined);
  assert.equal(clock.exceeded("HANDSHAKE", LIMITS, 0, 61), "handshake_timeout");
  assert.equal(clock.exceeded("EXECUTING", LIMITS, 0, 300), undefined);
  assert.equal(clock.exceeded("EXECUTING", LIMITS, 0, 301), "heartbeat_timeout");
  clock.signOfLife(250);
  assert.equal(clock.exceeded("EXECUTING", LIMITS, 0, 301), undefined);
});

Deno.test("limits: time in which nobody listened is no silence, and nothing is heard in the future", () => {
  const clock = new RunClock(0);
  const limits = { ...LIMITS, stallMs: 400 };
  clock.output(100);
  clock.signOfLife(150);
  clock.unheard(10_000, 10_200);
  assert.equal(clock.lifelessMs(10_200), 50);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 10_450), undefined);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 10_451), "heartbeat_timeout");
  clock.signOfLife(10_460);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 10_500), undefined);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 10_501), "stall_timeout");
  assert.equal(clock.exceeded("HANDSHAKE", limits, 0, 10_060), undefined);
  assert.equal(clock.exceeded("HANDSHAKE", limits, 0, 10_061), "handshake_timeout");
  clock.output(20_000);
  clock.unheard(9000, 20_010);
  assert.equal(clock.lifelessMs(20_010), 0);
  assert.equal(clock.used(20_010), 20_010, "its time goes on");
});

Deno.test("limits: a heartbeat is no output, so a silent worker stalls all the same", () => {
  const clock = new RunClock(0);
  const limits = { ...LIMITS, stallMs: 100 };
  clock.output(50);
  clock.signOfLife(140);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 150), undefined);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 151), "stall_timeout");
});

Deno.test("limits: a worker that has sent heartbeats and falls silent is faulted though its proxy is alive", () => {
  const clock = new RunClock(0);
  clock.output(20);
  clock.output(130);
  clock.signOfLife(1000);
  assert.equal(
    clock.exceeded("EXECUTING", LIMITS, 0, 1000),
    undefined,
    "it never sent one: it may just print nothing",
  );
  clock.workerBeat();
  // Its longest silence so far took 110, three times that is 330; the heartbeat timeout alone would
  // be 300.
  assert.equal(clock.exceeded("EXECUTING", LIMITS, 0, 130 + 330), undefined);
  assert.equal(clock.exceeded("EXECUTING", LIMITS, 0, 130 + 331), "heartbeat_timeout");
  clock.output(400);
  clock.pausedIs(true, 410);
  clock.pausedIs(false, 9000);
  clock.signOfLife(9700);
  assert.equal(
    clock.exceeded("EXECUTING", LIMITS, 0, 9000 + 810),
    undefined,
    "a pause is no silence",
  );
  assert.equal(clock.exceeded("EXECUTING", LIMITS, 0, 9000 + 811), "heartbeat_timeout");
});

Deno.test("limits: the pause counts for nothing", () => {
  const clock = new RunClock(0);
  const limits = { ...LIMITS, stallMs: 100, maxDurationMs: 150 };
  clock.pausedIs(true, 50);
  assert.equal(clock.exceeded("PAUSED", limits, 0, 10_000), undefined);
  clock.pausedIs(false, 10_000);
  assert.equal(clock.used(10_000), 50);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 10_100), undefined);
  assert.equal(clock.exceeded("EXECUTING", limits, 0, 10_101), "max_duration");
});

Deno.test("limits: max_steps is passed by the first step too many, and time used before a restart counts", () => {
  const clock = new RunClock(0, 140);
  assert.equal(clock.exceeded("EXECUTING", { ...LIMITS, maxSteps: 10 }, 10, 1), undefined);
  assert.equal(clock.exceeded("EXECUTING", { ...LIMITS, maxSteps: 10 }, 11, 1), "max_steps");
  assert.equal(
    clock.exceeded("EXECUTING", { ...LIMITS, maxDurationMs: 150 }, 0, 11),
    "max_duration",
  );
});
