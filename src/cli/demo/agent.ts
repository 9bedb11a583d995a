/**
 * The demo's learner: an actor-critic that learns from whole episodes (REINFORCE with a learned baseline and
 * generalised advantages). All random numbers come from one seeded generator, so a seed determines the whole run.
 */
import type { CartPoleAction, CartPoleState } from "./cartpole.ts";
import { Network, type NetworkState } from "./network.ts";
import { Random, type RandomState } from "./random.ts";

export interface AgentOptions {
  /** Discount factor per step. */
  gamma: number;
  /** Units of the hidden layer; 0: linear policy. */
  hidden: number;
  /** Weight of the entropy bonus. */
  entropy: number;
}

export interface AgentState {
  policy: NetworkState;
  value: NetworkState;
  random: RandomState;
}

/** Statistics of one update. */
export interface UpdateStats {
  policyLoss: number;
  valueLoss: number;
  /** Mean over the episode, in nats; ln 2: a uniform policy. */
  entropy: number;
  gradientNorm: number;
}

/** Trades the critic's bias against the return's variance. */
const LAMBDA = 0.95;
const VALUE_SCALE = 100;
/** The observation's components scaled to about ±1. */
const SCALE = [1 / 2.4, 1 / 2, 1 / 0.21, 1 / 2] as const;

interface Moment {
  x: number[];
  action: CartPoleAction;
  reward: number;
}

export class Agent {
  readonly #options: AgentOptions;
  readonly #policy: Network;
  readonly #value: Network;
  readonly random: Random;
  #episode: Moment[] = [];

  constructor(options: AgentOptions, from: Random | AgentState) {
    this.#options = options;
    const saved = from instanceof Random ? undefined : from;
    this.random = from instanceof Random ? from : new Random(from.random);
    this.#policy = new Network(4, options.hidden, saved?.policy ?? this.random);
    this.#value = new Network(4, options.hidden, saved?.value ?? this.random);
  }

  /** Call only between episodes: the state does not include an unfinished episode. */
  get state(): AgentState {
    return { policy: this.#policy.state, value: this.#value.state, random: this.random.state };
  }

  act(observation: CartPoleState): CartPoleAction {
    const x = observation.map((v, i) => v * SCALE[i]!);
    const action = this.random.next() < sigmoid(this.#policy.forward(x)) ? 1 : 0;
    this.#episode.push({ x, action, reward: 0 });
    return action;
  }

  /** The reward of the action last taken. */
  reward(value: number): void {
    this.#episode.at(-1)!.reward = value;
  }

  /** Learns from the episode. @param last the state at truncation; undefined when the episode terminated */
  learn(last: CartPoleState | undefined, learningRate: number): UpdateStats {
    const { gamma, entropy: bonus } = this.#options;
    const episode = this.#episode;
    this.#episode = [];
    const values = episode.map((m) => this.#value.forward(m.x) * VALUE_SCALE);
    let next = last === undefined ? 0 : this.#value.forward(last.map((v, i) => v * SCALE[i]!)) * VALUE_SCALE;
    const advantages = new Float64Array(episode.length);
    let running = 0;
    for (let t = episode.length - 1; t >= 0; t--) {
      running = episode[t]!.reward + gamma * next - values[t]! + gamma * LAMBDA * running;
      advantages[t] = running;
      next = values[t]!;
    }
    const spread = Math.sqrt(mean(advantages.map((a) => a * a))) + 1e-8;
    const n = episode.length;
    const stats: UpdateStats = { policyLoss: 0, valueLoss: 0, entropy: 0, gradientNorm: 0 };
    for (let t = 0; t < n; t++) {
      const { x, action } = episode[t]!;
      const logit = this.#policy.forward(x);
      const p = sigmoid(logit);
      const advantage = advantages[t]! / spread;
      // d/dlogit of −advantage·log π(action) − bonus·H(π)
      this.#policy.backward(x, (advantage * (p - action) + bonus * logit * p * (1 - p)) / n);
      const chosen = action === 1 ? p : 1 - p;
      stats.policyLoss -= (advantage * Math.log(chosen + 1e-12)) / n;
      stats.entropy -= (p * Math.log(p + 1e-12) + (1 - p) * Math.log(1 - p + 1e-12)) / n;
      const error = this.#value.forward(x) - (advantages[t]! + values[t]!) / VALUE_SCALE;
      this.#value.backward(x, (2 * error) / n);
      stats.valueLoss += (error * error) / n;
    }
    stats.gradientNorm = this.#policy.update(learningRate);
    this.#value.update(learningRate);
    return stats;
  }
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}
