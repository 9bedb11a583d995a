/**
 * The demo's training as a sequence of records, without clock, files or output. The cross-entropy
 * method: each episode tries a linear policy drawn from a normal distribution; after `population`
 * episodes, the distribution is fitted to the best of them. All random numbers come from one seeded
 * generator, so a seed determines the whole run.
 */
import { CartPole, type CartPoleAction, type CartPoleState, type StepResult } from "./cartpole.ts";
import type { DemoWorkerOptions } from "./worker_options.ts";
import { Random } from "./random.ts";

type Common = { episode: number } & Pick<StepResult, "terminated" | "truncated">;
export type TrainingRecord =
  /** `step` counts from 0 in its episode; `observation` is the state before the action. */
  | Common & {
    type: "step";
    step: number;
    action: CartPoleAction;
    observation: CartPoleState;
    reward: number;
  }
  /** With statistics if it is the last of its generation. */
  | Common & {
    type: "episode";
    totalReward: number;
    steps: number;
    learned: GenerationStats | undefined;
  };

/** Statistics of one update of the distribution. */
export interface GenerationStats {
  generation: number;
  /**
   * Reward of the generation's best episode, and mean rewards of those that the update uses and of
   * all.
   */
  bestReward: number;
  eliteReward: number;
  populationReward: number;
  /** Mean standard deviation of the weights after the update. */
  weightStd: number;
}

/** State from which training continues exactly after an episode. */
export interface Checkpoint {
  format: "mosaic-demo-cartpole";
  version: 2;
  /** Completed episodes, steps and generations. */
  episode: number;
  totalSteps: number;
  generation: number;
  recentRewards: number[];
  /** The distribution of the weights. */
  mean: number[];
  std: number[];
  /** The current generation's episodes. */
  tried: { weights: number[]; reward: number }[];
  random: number;
}

/** Scales an observation's components to about ±1. The last weight is a bias. */
const SCALE = [1 / 2.4, 1 / 2, 1 / 0.21, 1 / 2];
/**
 * With its wide bias most policies of the first generation always push to the same side, and the
 * pole falls at once.
 */
const FIRST_STD = [1, 1, 1, 1, 2];
/**
 * Added to the standard deviations, so that the search does not stop early; decreases to 0 in 10
 * generations.
 */
const ADDED_STD = 0.1;

export class Training {
  readonly #options: DemoWorkerOptions;
  readonly #random: Random;
  readonly #done: Checkpoint;

  constructor(options: DemoWorkerOptions, checkpoint?: Checkpoint) {
    this.#options = options;
    this.#done = structuredClone(checkpoint) ?? {
      format: "mosaic-demo-cartpole",
      version: 2,
      episode: 0,
      totalSteps: 0,
      generation: 0,
      recentRewards: [],
      mean: FIRST_STD.map(() => 0),
      std: FIRST_STD,
      tried: [],
      random: options.seed,
    };
    this.#random = new Random(this.#done.random);
  }

  get episodes(): number {
    return this.#done.episode;
  }
  get totalSteps(): number {
    return this.#done.totalSteps;
  }
  /** Mean reward of the last 100 episodes or fewer; 0 before the first. */
  get meanReward100(): number {
    return this.#done.recentRewards.length === 0 ? 0 : mean(this.#done.recentRewards);
  }

  /** Call only between episodes: a checkpoint does not include an unfinished one. */
  checkpoint(): Checkpoint {
    return structuredClone({ ...this.#done, random: this.#random.state });
  }

  /**
   * Trains to the end; stops when the consumer stops iterating. An episode that reaches `maxSteps`
   * is truncated.
   */
  *records(): Generator<TrainingRecord, void, void> {
    const { episodes, maxSteps, population } = this.#options;
    const done = this.#done;
    const environment = new CartPole();
    while (done.episode < episodes && (maxSteps === 0 || done.totalSteps < maxSteps)) {
      const weights = done.mean.map((m, i) => m + done.std[i]! * this.#random.normal());
      let [observation, totalReward, steps] = [environment.reset(this.#random), 0, 0];
      for (let ended = false; !ended;) {
        const action = act(weights, observation);
        const { state, reward, terminated, ...result } = environment.step(action);
        done.totalSteps += 1;
        const truncated = result.truncated || (!terminated && done.totalSteps === maxSteps);
        totalReward += reward;
        const episode = done.episode;
        yield {
          type: "step",
          episode,
          step: steps++,
          action,
          observation,
          reward,
          terminated,
          truncated,
        };
        observation = state;
        ended = terminated || truncated;
        if (!ended) continue;
        done.tried.push({ weights, reward: totalReward });
        done.recentRewards = [...done.recentRewards, totalReward].slice(-100);
        done.episode += 1;
        const learned = done.tried.length >= population ? this.#learn() : undefined;
        yield { type: "episode", episode, totalReward, steps, terminated, truncated, learned };
      }
    }
  }

  /** Fits the distribution to the best policies of the generation. */
  #learn(): GenerationStats {
    const done = this.#done;
    const tried = done.tried.toSorted((a, b) => b.reward - a.reward);
    const elite = tried.slice(0, Math.max(2, Math.round(tried.length * this.#options.elite)));
    const added = Math.max(0, ADDED_STD * (1 - done.generation / 10));
    const columns = FIRST_STD.map((_, i) => elite.map(({ weights }) => weights[i]!));
    done.mean = columns.map(mean);
    done.std = columns.map((values, i) =>
      Math.sqrt(mean(values.map((v) => (v - done.mean[i]!) ** 2))) + added
    );
    done.tried = [];
    return {
      generation: done.generation++,
      bestReward: tried[0]!.reward,
      eliteReward: mean(elite.map(({ reward }) => reward)),
      populationReward: mean(tried.map(({ reward }) => reward)),
      weightStd: mean(done.std),
    };
  }
}

function act(weights: readonly number[], observation: CartPoleState): CartPoleAction {
  return observation.reduce((sum, v, i) => sum + weights[i]! * v * SCALE[i]!, weights[4]!) > 0
    ? 1
    : 0;
}

function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** @throws {Error} when the text is not a checkpoint of this worker */
export function parseCheckpoint(text: string): Checkpoint {
  const value = JSON.parse(text) as Partial<Checkpoint> | null;
  if (typeof value !== "object" || value === null || value.format !== "mosaic-demo-cartpole") {
    throw new Error("it is not a checkpoint of the demo worker");
  }
  if (value.version !== 2) {
    throw new Error(`its version is ${value.version}; this worker reads version 2`);
  }
  return value as Checkpoint;
}
