import { strict as assert } from "node:assert";
import {
  advance,
  CartPole,
  type CartPoleAction,
  type CartPoleState,
  isLost,
  MAX_EPISODE_STEPS,
} from "../../../src/cli/demo/cartpole.ts";
import { Random } from "../../../src/cli/demo/random.ts";

function near(actual: readonly number[], expected: readonly number[]): void {
  actual.forEach((v, i) =>
    assert.ok(Math.abs(v - expected[i]!) < 1e-12, `${actual} is not ${expected}`)
  );
}

/** Computed by Gymnasium 1.3.0: `env.unwrapped.state` after each action. */
const VECTORS: { actions: CartPoleAction[]; from: CartPoleState; states: CartPoleState[] }[] = [{
  from: [0.01, -0.02, 0.03, 0.04],
  actions: [1, 1, 0, 1, 0, 0, 0, 1],
  states: [
    [0.009600000000000001, 0.17467919574755525, 0.030799999999999998, -0.2430687179600081],
    [0.013093583914951107, 0.3693479760579556, 0.025938625640799837, -0.5258796280501483],
    [0.02048054343611022, 0.17387081260481596, 0.01542103307979687, -0.22513741609237464],
    [0.02395795968820654, 0.3687690101747617, 0.010918284757949377, -0.5129163478026587],
    [0.03133333989170178, 0.17349499275068458, 0.0006599578018962032, -0.21681286835696195],
    [0.03480323974671547, -0.021636386741578473, -0.0036762995652430356, 0.07607816471983775],
    [0.034370512011883896, -0.21670544277345885, -0.0021547362708462803, 0.36759894183747555],
    [0.030036403156414718, -0.021552939941453797, 0.005197242565903231, 0.07423737516925016],
  ],
}];

Deno.test("cartpole: states follow Gymnasium's CartPole-v1", () => {
  for (const { from, actions, states } of VECTORS) {
    let state = from;
    actions.forEach((action, i) => {
      state = advance(state, action);
      near(state, states[i]!);
    });
  }
});

Deno.test("cartpole: pushed to one side from rest, the pole falls when Gymnasium's does", () => {
  let state: CartPoleState = [0, 0, 0, 0];
  let steps = 0;
  while (!isLost(state)) {
    state = advance(state, 0);
    steps += 1;
  }
  assert.equal(steps, 9);
  near(state, [-0.14065097203306187, -1.7603811257683097, 0.21518604988500967, 2.777886494012814]);
});

Deno.test("cartpole: an episode is lost beyond 12 degrees or 2.4 metres, on either side", () => {
  const angle = (12 * Math.PI) / 180;
  for (
    const [state, lost] of [
      [[0, 0, angle - 1e-9, 0], false],
      [[0, 0, angle + 1e-9, 0], true],
      [[0, 0, -angle - 1e-9, 0], true],
      [[2.4, 0, 0, 0], false],
      [[2.4000001, 0, 0, 0], true],
      [[-2.4000001, 0, 0, 0], true],
    ] as [CartPoleState, boolean][]
  ) assert.equal(isLost(state), lost, String(state));
});

Deno.test("cartpole: a balanced pole is truncated, not terminated, at step 500", () => {
  const environment = new CartPole();
  let state = environment.reset(new Random(3));
  for (let step = 1; step <= MAX_EPISODE_STEPS; step++) {
    // Pushing towards where the pole leans and moves keeps it up.
    const result = environment.step(
      state[2] + 0.5 * state[3] + 0.02 * state[0] + 0.1 * state[1] > 0 ? 1 : 0,
    );
    state = result.state;
    assert.equal(result.terminated, false, `lost at step ${step}`);
    assert.equal(result.truncated, step === MAX_EPISODE_STEPS);
  }
});

Deno.test("random: a saved state goes on with the same numbers", () => {
  const random = new Random(42);
  for (let i = 0; i < 10; i++) random.next();
  const copy = new Random(random.state);
  const more = (r: Random) => Array.from({ length: 20 }, () => r.next());
  assert.deepEqual(more(copy), more(random));
  assert.notDeepEqual(more(new Random(1)), more(new Random(2)));
});
