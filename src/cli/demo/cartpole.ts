/**
 * A pole on a cart, with the constants, the integrator (explicit Euler) and the termination rules
 * of Gymnasium's CartPole-v1, so that the demo's rewards mean what they mean there.
 */
import type { Random } from "./random.ts";

const GRAVITY = 9.8; // m/s²
const POLE_MASS = 0.1; // kg
const TOTAL_MASS = 1.0 + POLE_MASS; // with the cart
const HALF_POLE_LENGTH = 0.5; // m
const FORCE = 10.0; // N
const TIME_STEP = 0.02; // s

/** The episode terminates beyond these. */
const MAX_ANGLE = (12 * 2 * Math.PI) / 360; // rad
const MAX_POSITION = 2.4; // m
/** The episode is truncated at this many steps. */
export const MAX_EPISODE_STEPS = 500;

/** Cart position (m), cart velocity (m/s), pole angle (rad), pole angular velocity (rad/s). */
export type CartPoleState = readonly [number, number, number, number];
/** 0 pushes the cart to the left, 1 to the right. */
export type CartPoleAction = 0 | 1;

/** One time step of the physics. */
export function advance(state: CartPoleState, action: CartPoleAction): CartPoleState {
  const [x, xDot, theta, thetaDot] = state;
  const force = action === 1 ? FORCE : -FORCE;
  const cos = Math.cos(theta);
  const sin = Math.sin(theta);
  const temp = (force + POLE_MASS * HALF_POLE_LENGTH * (thetaDot * thetaDot) * sin) / TOTAL_MASS;
  const thetaAcc = (GRAVITY * sin - cos * temp) /
    (HALF_POLE_LENGTH * (4.0 / 3.0 - (POLE_MASS * (cos * cos)) / TOTAL_MASS));
  const xAcc = temp - (POLE_MASS * HALF_POLE_LENGTH * thetaAcc * cos) / TOTAL_MASS;
  const next = (value: number, slope: number) => value + TIME_STEP * slope;
  return [next(x, xDot), next(xDot, xAcc), next(theta, thetaDot), next(thetaDot, thetaAcc)];
}

/** Whether the pole has fallen or the cart has left the track. */
export function isLost(state: CartPoleState): boolean {
  return Math.abs(state[0]) > MAX_POSITION || Math.abs(state[2]) > MAX_ANGLE;
}

export interface StepResult {
  state: CartPoleState;
  reward: number;
  terminated: boolean;
  truncated: boolean;
}

/** The environment: physics, start states, termination and truncation. */
export class CartPole {
  #state: CartPoleState = [0, 0, 0, 0];
  #steps = 0;

  /** A new episode from a state drawn uniformly from ±0.05 in each component. */
  reset(random: Random): CartPoleState {
    const draw = () => random.next() * 0.1 - 0.05;
    this.#state = [draw(), draw(), draw(), draw()];
    this.#steps = 0;
    return this.#state;
  }

  step(action: CartPoleAction): StepResult {
    this.#state = advance(this.#state, action);
    this.#steps += 1;
    const terminated = isLost(this.#state);
    return {
      state: this.#state,
      reward: 1,
      terminated,
      truncated: !terminated && this.#steps >= MAX_EPISODE_STEPS,
    };
  }
}
