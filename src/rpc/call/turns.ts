/**
 * Fair turns on the one thread. Long work is done in chunks of some milliseconds, with a request
 * for a turn before each. Turns are given in the order of requests, so runs and readers alternate,
 * however much work each has. After a slice of time all other work (unary calls, timers,
 * heartbeats) goes first.
 */
const SLICE_MS = 4;

/**
 * While there are immediates to run, the runtime polls its sockets only once in 61 iterations of
 * its loop, and a call needs some further iterations until it is answered. An empty iteration costs
 * two microseconds. Nevertheless, a rest after every 2 ms increased the processor time of a daemon
 * with 19 readers by half, so slices are not shorter.
 */
const REST_ROUNDS = 66;

const waiting: (() => void)[] = [];
let running = false;
/** Milliseconds of turns since the last rest. */
let worked = 0;

/** Resolves when it is the caller's turn, which lasts until it waits for something. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (!running) next();
  });
}

function next(): void {
  running = waiting.length > 0;
  if (!running) return;
  if (worked < SLICE_MS) return void setImmediate(runNext);
  worked = 0;
  let rounds = REST_ROUNDS;
  const rest = () => void setImmediate(--rounds > 0 ? rest : runNext);
  rest();
}

function runNext(): void {
  const start = performance.now();
  waiting.shift()!();
  // Waiting work runs before the loop's next iteration.
  setImmediate(() => {
    worked += performance.now() - start;
    next();
  });
}
