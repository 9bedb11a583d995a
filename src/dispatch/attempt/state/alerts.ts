/**
 * Rules on what a run records (`metadata.alerts`, `--alerts`): a metric that is no number, is too
 * high or too low, or no longer improves, silence, and idle or full GPUs. Each rule alerts once per
 * attempt. Only decides; the performer writes events and acts.
 */
import type { AlertRule } from "../../../config/alerts.ts";
import type { IngestBatch } from "../../../records/ingest_batch.ts";
import type { EpisodeRecord } from "../../../gen/records/record_types.ts";
import { bytes, duration } from "../../../base/text/format.ts";
import { Window } from "./gpu_idleness.ts";
import { namedNonFinite } from "../../../base/text/json_text.ts";
import { numberOf as pointValue } from "../../../records/points.ts";

export interface Alert {
  rule: AlertRule;
  /** What has happened, such as "loss is NaN". */
  what: string;
}

/** What was just stored. */
export interface Recorded {
  steps: IngestBatch["steps"];
  episodes: readonly EpisodeRecord[];
  events: readonly { dataJson: string }[];
}

export class Alerts {
  readonly #watches: Watch[];
  /** Alerts of broken rules that have no event yet. */
  readonly due: Alert[] = [];

  /** @param alerted names of rules that have alerted in this attempt already */
  constructor(rules: readonly AlertRule[], alerted: ReadonlySet<string>) {
    this.#watches = rules.filter(({ name }) => !alerted.has(name)).map((rule) => new Watch(rule));
  }

  /** Adds alerts for the rules that the newly stored records break. */
  recorded({ steps, episodes, events }: Recorded): void {
    this.#apply((watch) => {
      const { metric } = watch.rule;
      if (metric === "reward") {
        for (const value of rewardsOf(steps)) watch.point(numberOf(value));
      } else if (metric === "episode_reward") {
        for (const { totalReward } of episodes) watch.point(numberOf(totalReward));
      } else if (metric === "episode_length") {
        for (const { steps: length } of episodes) watch.point(length);
      } else if (metric !== undefined) {
        for (const { dataJson } of events) watch.record(dataJson);
        for (const { metadataJson } of episodes) watch.record(metadataJson);
        for (const info of steps.infoJson ?? []) watch.record(info);
      }
    });
  }

  /** Adds an alert if the worker has been silent for too long; milliseconds, pauses excluded. */
  silent(ms: number): void {
    this.#apply((watch) => watch.silent(ms));
  }

  /**
   * Adds alerts for the rules that a sample of the run's use breaks. @param now monotonic
   * milliseconds
   */
  sampled(points: readonly (readonly [name: string, value: number])[], now: number): void {
    const figures = new Map(points);
    this.#apply((watch) => {
      const { metric } = watch.rule;
      const value = metric === undefined ? undefined : figures.get(metric);
      if (value !== undefined) watch.point(value);
      const percent = figures.get("system/gpu_percent");
      if (percent !== undefined) watch.gpu(percent, now);
      const filled = figures.get("system/gpu_memory_percent");
      if (filled !== undefined) watch.gpuMemory(filled, figures.get("system/gpu_memory_mb"));
    });
  }

  /** The run is held: its GPUs are idle for a reason. */
  held(): void {
    for (const watch of this.#watches) watch.held();
  }

  #apply(check: (watch: Watch) => void): void {
    for (let i = this.#watches.length - 1; i >= 0; i--) {
      const watch = this.#watches[i]!;
      check(watch);
      if (watch.broken === undefined) continue;
      this.due.push({ rule: watch.rule, what: watch.broken });
      this.#watches.splice(i, 1);
    }
  }
}

class Watch {
  readonly rule: AlertRule;
  /** What broke the rule. */
  broken: string | undefined;
  #beyond = 0;
  #best: number | undefined;
  #worse = 0;
  #window: Window | undefined;

  constructor(rule: AlertRule) {
    this.rule = rule;
  }

  record(json: string): void {
    const metric = this.rule.metric!;
    // The text uses the last part of a dotted name.
    const key = metric.slice(metric.lastIndexOf(".") + 1);
    if (!json.includes(`"${key}"`) && !json.includes(`"${metric}"`)) return;
    const object = namedNonFinite(json);
    if (object === undefined) return;
    const inner = metric.includes(".") ? object[metric.slice(0, metric.indexOf("."))] : undefined;
    const value = Object.hasOwn(object, metric)
      ? object[metric]
      : (inner as Record<string, unknown> | null | undefined)
        ?.[metric.slice(metric.indexOf(".") + 1)];
    // Earlier proxies sent null for NaN and infinities.
    const number = value === null ? NaN : pointValue(value);
    if (number !== undefined) this.point(number);
  }

  point(value: number): void {
    const { rule } = this;
    if (this.broken !== undefined) return;
    if (!Number.isFinite(value)) {
      if (rule.when === "nan") {
        this.broken = `${rule.metric} is ${Number.isNaN(value) ? "NaN" : value}`;
      }
      return;
    }
    if (rule.when === "above" || rule.when === "below") {
      const beyond = rule.when === "above" ? value > rule.value : value < rule.value;
      this.#beyond = beyond ? this.#beyond + 1 : 0;
      if (this.#beyond < rule.points) return;
      const many = rule.points === 1 ? "" : `, ${rule.points} points in a row`;
      this.broken = `${rule.metric} is ${value}, ${rule.when} ${rule.value}${many}`;
    } else if (rule.when === "stuck") {
      const better = this.#best === undefined ||
        (rule.goal === "max" ? value > this.#best : value < this.#best);
      if (better) [this.#best, this.#worse] = [value, 0];
      else if (++this.#worse >= rule.points) {
        this.broken = `${rule.metric} has not improved on ${this.#best} for ${rule.points} points`;
      }
    }
  }

  gpu(percent: number, now: number): void {
    const { when, seconds, value } = this.rule;
    if (when !== "gpu_idle" || this.broken !== undefined) return;
    this.#window ??= new Window(seconds * 1000);
    const mean = this.#window.add(percent, now);
    if (mean === undefined || mean >= value) return;
    const used = `${Math.round(mean * 10) / 10} %`;
    this.broken = `the run's GPUs were used to ${used} in the last ${
      duration(seconds * 1000)
    }, below ${value} %`;
  }

  gpuMemory(percent: number, mb: number | undefined): void {
    const { when, value } = this.rule;
    if (when !== "gpu_memory" || this.broken !== undefined || percent <= value) return;
    const used = mb === undefined ? "" : ` (${bytes(mb * (1 << 20))})`;
    this.broken = `the run uses ${
      Math.round(percent)
    } %${used} of the GPU memory that it has, above ${value} %`;
  }

  held(): void {
    this.#window?.clear();
  }

  silent(ms: number): void {
    const { when, seconds } = this.rule;
    if (when === "silent" && ms > seconds * 1000) {
      this.broken = `the worker has printed nothing for ${seconds} s`;
    }
  }
}

function rewardsOf(steps: Recorded["steps"]): readonly unknown[] {
  if (!("block" in steps)) return steps.reward ?? [];
  const { n, reward } = steps.curve;
  return typeof reward === "number" ? new Array<number>(n).fill(reward) : reward;
}

const numberOf = (value: unknown): number => typeof value === "number" ? value : NaN;
