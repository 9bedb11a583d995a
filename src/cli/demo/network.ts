/** A small network (inputs → tanh layer → one output) with its gradients and Adam, for an agent of a few hundred weights. */
import type { Random } from "./random.ts";

export interface NetworkState {
  weights: number[];
  /** Adam's first and second moments and its step count. */
  first: number[];
  second: number[];
  updates: number;
}

const BETA1 = 0.9;
const BETA2 = 0.999;
const EPSILON = 1e-8;

/**
 * All weights are in one array: for each hidden unit its input weights and bias, then the output weights and bias.
 * `hidden` 0 is a linear model: the input weights, then the bias.
 */
export class Network {
  readonly inputs: number;
  readonly hidden: number;
  readonly #state: NetworkState;
  readonly #gradient: Float64Array;
  readonly #activation: Float64Array;

  constructor(inputs: number, hidden: number, from: Random | NetworkState) {
    this.inputs = inputs;
    this.hidden = hidden;
    const size = hidden === 0 ? inputs + 1 : hidden * (inputs + 1) + hidden + 1;
    if ("weights" in from) {
      if (from.weights.length !== size) {
        throw new RangeError(`the checkpoint has ${from.weights.length} weights and the network needs ${size}`);
      }
      this.#state = structuredClone(from);
    } else {
      this.#state = {
        weights: initialWeights(inputs, hidden, from),
        first: new Array(size).fill(0),
        second: new Array(size).fill(0),
        updates: 0,
      };
    }
    this.#gradient = new Float64Array(size);
    this.#activation = new Float64Array(hidden);
  }

  get state(): NetworkState {
    return structuredClone(this.#state);
  }

  /** The output for `x`; stores the activations for `backward`. */
  forward(x: ArrayLike<number>): number {
    const w = this.#state.weights;
    const n = this.inputs;
    if (this.hidden === 0) {
      let sum = w[n]!;
      for (let i = 0; i < n; i++) sum += w[i]! * x[i]!;
      return sum;
    }
    const outputs = this.hidden * (n + 1);
    let out = w[outputs + this.hidden]!;
    for (let h = 0; h < this.hidden; h++) {
      const base = h * (n + 1);
      let sum = w[base + n]!;
      for (let i = 0; i < n; i++) sum += w[base + i]! * x[i]!;
      const a = Math.tanh(sum);
      this.#activation[h] = a;
      out += w[outputs + h]! * a;
    }
    return out;
  }

  /** Adds d(loss)/d(weights) for d(loss)/d(output) = `slope` at the `x` last given to `forward`. */
  backward(x: ArrayLike<number>, slope: number): void {
    const w = this.#state.weights;
    const g = this.#gradient;
    const n = this.inputs;
    if (this.hidden === 0) {
      for (let i = 0; i < n; i++) g[i]! += slope * x[i]!;
      g[n]! += slope;
      return;
    }
    const outputs = this.hidden * (n + 1);
    for (let h = 0; h < this.hidden; h++) {
      const a = this.#activation[h]!;
      g[outputs + h]! += slope * a;
      const inner = slope * w[outputs + h]! * (1 - a * a);
      const base = h * (n + 1);
      for (let i = 0; i < n; i++) g[base + i]! += inner * x[i]!;
      g[base + n]! += inner;
    }
    g[outputs + this.hidden]! += slope;
  }

  /** One Adam step with the accumulated gradients, which are then reset. @returns their norm */
  update(learningRate: number): number {
    const { weights, first, second } = this.#state;
    const t = ++this.#state.updates;
    const correct1 = 1 - BETA1 ** t;
    const correct2 = 1 - BETA2 ** t;
    let squares = 0;
    for (let i = 0; i < weights.length; i++) {
      const g = this.#gradient[i]!;
      squares += g * g;
      first[i] = BETA1 * first[i]! + (1 - BETA1) * g;
      second[i] = BETA2 * second[i]! + (1 - BETA2) * g * g;
      weights[i]! -= (learningRate * (first[i]! / correct1)) / (Math.sqrt(second[i]! / correct2) + EPSILON);
    }
    this.#gradient.fill(0);
    return Math.sqrt(squares);
  }
}

/** Hidden weights ~ N(0, 1/inputs); output weights near zero, so that the initial policy is nearly uniform. */
function initialWeights(inputs: number, hidden: number, random: Random): number[] {
  if (hidden === 0) return new Array(inputs + 1).fill(0);
  const weights: number[] = [];
  for (let h = 0; h < hidden; h++) {
    for (let i = 0; i < inputs; i++) weights.push(random.normal() / Math.sqrt(inputs));
    weights.push(0);
  }
  for (let h = 0; h < hidden; h++) weights.push((0.1 * random.normal()) / Math.sqrt(hidden));
  weights.push(0);
  return weights;
}
