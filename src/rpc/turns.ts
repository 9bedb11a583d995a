/**
 * Fair turns on the one thread. Whoever has much to do does it in chunks of some milliseconds and asks for a turn before
 * each. Turns are given in the order of asking, so runs and readers alternate however much any of them has to do; after
 * a slice of time everything else (unary calls, timers, heartbeats) goes first.
 */
const SLICE_MS = 4;

/**
 * While there are immediates to run, the runtime polls its sockets only once in 61 rounds of its loop. And a call that
 * has come in needs some rounds more until it is answered. An empty round costs two microseconds. Still a rest after
 * every 2 ms cost a daemon with 19 readers half of its processor time again, so a slice is no shorter than it is.
 */
const REST_ROUNDS = 66;

const waiting: (() => void)[] = [];
let running = false;
/** Milliseconds of turns since the last rest. */
let worked = 0;

/** Resolves when it is the caller's turn: until it waits for something, nobody else has one. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (!running) next();
  });
}

function next(): void {
  running = waiting.length > 0;
  if (!running) return;
  if (worked < SLICE_MS) return void setImmediate(give);
  worked = 0;
  let rounds = REST_ROUNDS;
  const rest = () => void setImmediate(--rounds > 0 ? rest : give);
  rest();
}

function give(): void {
  const start = performance.now();
  waiting.shift()!();
  // What was waiting for its turn works before the loop's next round.
  setImmediate(() => {
    worked += performance.now() - start;
    next();
  });
}
