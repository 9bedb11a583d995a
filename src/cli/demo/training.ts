/** The demo's training as a sequence of events, without clock, files or output. */
import { Agent, type AgentState, type UpdateStats } from "./agent.ts";
import { CartPole, type CartPoleAction, type CartPoleState } from "./cartpole.ts";
import type { DemoWorkerOptions } from "./worker_options.ts";
import { Random } from "./random.ts";

export type TrainingRecord =
  | {
    type: "step";
    episode: number;
    step: number;
    action: CartPoleAction;
    /** State before the action. */
    observation: CartPoleState;
    reward: number;
    terminated: boolean;
    truncated: boolean;
  }
  | {
    type: "episode";
    episode: number;
    totalReward: number;
    steps: number;
    terminated: boolean;
    truncated: boolean;
    totalSteps: number;
    stats: UpdateStats;
    learningRate: number;
    meanReward100: number;
  };

/** State from which training continues exactly after an episode. */
export interface Checkpoint {
  format: "mosaic-demo-cartpole";
  version: 1;
  /** Completed episodes and steps. */
  episode: number;
  totalSteps: number;
  recentRewards: number[];
  hidden: number;
  agent: AgentState;
}

/** The learning rate decreases to this fraction over the run, so that a good policy is not lost. */
const FINAL_RATE = 0.05;

export class Training {
  readonly #options: DemoWorkerOptions;
  readonly #agent: Agent;
  #episode: number;
  #totalSteps: number;
  #recentRewards: number[];

  /** @throws {RangeError} when the checkpoint's network has another size */
  constructor(options: DemoWorkerOptions, checkpoint?: Checkpoint) {
    this.#options = options;
    this.#agent = new Agent(options, checkpoint?.agent ?? new Random(options.seed));
    this.#episode = checkpoint?.episode ?? 0;
    this.#totalSteps = checkpoint?.totalSteps ?? 0;
    this.#recentRewards = [...checkpoint?.recentRewards ?? []];
  }

  get episodes(): number {
    return this.#episode;
  }
  get totalSteps(): number {
    return this.#totalSteps;
  }
  /** Mean reward of the last 100 episodes or fewer; 0 before the first. */
  get meanReward100(): number {
    const r = this.#recentRewards;
    return r.length === 0 ? 0 : r.reduce((a, b) => a + b, 0) / r.length;
  }

  checkpoint(): Checkpoint {
    return {
      format: "mosaic-demo-cartpole",
      version: 1,
      episode: this.#episode,
      totalSteps: this.#totalSteps,
      recentRewards: [...this.#recentRewards],
      hidden: this.#options.hidden,
      agent: this.#agent.state,
    };
  }

  /** Trains to the end; stops when the consumer stops iterating. An episode that reaches `maxSteps` is truncated. */
  *records(): Generator<TrainingRecord, void, void> {
    const { episodes, maxSteps, learningRate } = this.#options;
    const environment = new CartPole();
    while (this.#episode < episodes && (maxSteps === 0 || this.#totalSteps < maxSteps)) {
      let observation = environment.reset(this.#agent.random);
      let totalReward = 0;
      let steps = 0;
      for (let ended = false; !ended;) {
        const action = this.#agent.act(observation);
        const result = environment.step(action);
        this.#agent.reward(result.reward);
        this.#totalSteps += 1;
        const terminated = result.terminated;
        const truncated = result.truncated || (!terminated && this.#totalSteps === maxSteps);
        totalReward += result.reward;
        yield {
          type: "step",
          episode: this.#episode,
          step: steps,
          action,
          observation,
          reward: result.reward,
          terminated,
          truncated,
        };
        steps += 1;
        observation = result.state;
        ended = terminated || truncated;
        if (!ended) continue;
        const progress = Math.max(this.#episode / episodes, maxSteps === 0 ? 0 : this.#totalSteps / maxSteps);
        const rate = learningRate * (1 - (1 - FINAL_RATE) * progress);
        const stats = this.#agent.learn(truncated ? observation : undefined, rate);
        this.#recentRewards.push(totalReward);
        if (this.#recentRewards.length > 100) this.#recentRewards.shift();
        const episode = this.#episode++;
        yield {
          type: "episode",
          episode,
          totalReward,
          steps,
          terminated,
          truncated,
          totalSteps: this.#totalSteps,
          stats,
          learningRate: rate,
          meanReward100: this.meanReward100,
        };
      }
    }
  }
}

/** @throws {Error} when the text is not a checkpoint of this worker */
export function parseCheckpoint(text: string): Checkpoint {
  const value = JSON.parse(text) as Partial<Checkpoint> | null;
  if (typeof value !== "object" || value === null || value.format !== "mosaic-demo-cartpole") {
    throw new Error("it is not a checkpoint of the demo worker");
  }
  if (value.version !== 1) throw new Error(`its version is ${value.version}; this worker reads version 1`);
  return value as Checkpoint;
}
