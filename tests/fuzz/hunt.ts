/**
 * Gives a reader inputs of many shapes. A finding is an error that the reader does not take for one
 * of its own, or time that grows faster than the input. The machines that run this are busy, so no
 * finding depends on one measurement: time counts only if the same shape, eight times as long,
 * takes more than `GROWTH` times as long in each of several tries.
 */
import { changed, Choices, type Shape, shapeOf } from "./shapes.ts";

export interface Target {
  name: string;
  /** Texts that the format gives a meaning. */
  tokens: readonly string[];
  /** Where a text is put in an input. */
  forms: readonly ((text: string) => Uint8Array)[];
  /** Valid inputs. */
  samples: readonly Uint8Array[];
  /**
   * Inputs have at most 64 KiB, and a library reads them whose time grows faster: only the time per
   * byte counts.
   */
  isShort?: true;
  /** @throws for anything that is not one of the reader's own refusals */
  read: (input: Uint8Array) => void | Promise<void>;
}

export interface Report {
  target: string;
  inputs: number;
  bytes: number;
  ms: number;
  /** Of inputs of `JUDGED` bytes or more. */
  worst: { nsPerByte: number; input: string };
  findings: string[];
}

const LENGTHS = [256, 2048, 16_384];
/** The greatest length of an input with a bound of its own. */
const SHORT = 65_536;
/** Fewer bytes say little about time per byte. */
const JUDGED = 2048;
/** Times the cost of a byte in JSON.parse: from here on the growth is looked at. */
const SUSPECT = 40;
/** Times the cost of a byte in JSON.parse: too slow, however it grows. */
const TOO_SLOW = 20_000;
/** Of the time, for eight times the input: 8 is linear, 64 quadratic. */
const GROWTH = 24;
const TRIES = 3;
/** Shorter measurements are noise. */
const LEAST_MS = 2;
const SLOW_MS = 200;
const MOST_FINDINGS = 20;

export async function hunt(
  target: Target,
  seed: number,
  seconds: number,
  log?: (text: string) => void,
): Promise<Report> {
  const choices = new Choices(seed);
  const nsPerByte = jsonCost();
  const report: Report = {
    ...{ target: target.name, inputs: 0, bytes: 0, ms: 0, findings: [] },
    worst: { nsPerByte: 0, input: "" },
  };
  const timed = async (input: Uint8Array, name: string): Promise<number | undefined> => {
    log?.(`${target.name}: ${input.length} bytes of ${name}`);
    const begun = performance.now();
    try {
      await target.read(input);
    } catch (error) {
      const what = error instanceof Error
        ? `${error.name}: ${error.message.slice(0, 200)}`
        : String(error);
      report.findings.push(
        `${input.length} bytes of ${name}: ${what}\n${(error as Error)?.stack ?? ""}`,
      );
      return undefined;
    }
    const ms = performance.now() - begun;
    report.inputs++;
    report.bytes += input.length;
    report.ms += ms;
    return ms;
  };
  const best = async (input: Uint8Array, name: string): Promise<number> => {
    let least = Infinity;
    for (let i = 0; i < 3; i++) least = Math.min(least, await timed(input, name) ?? 0);
    return least;
  };
  const judge = (input: Uint8Array, ms: number, name: string): number => {
    // What a short input costs is mostly the same for every input.
    const perByte = ms * 1e6 / Math.max(JUDGED, input.length);
    if (input.length >= JUDGED && perByte > report.worst.nsPerByte) {
      report.worst = { nsPerByte: perByte, input: `${input.length} bytes of ${name}` };
    }
    return perByte;
  };
  const look = async (shape: Shape, form: Target["forms"][number], name: string): Promise<void> => {
    for (const length of target.isShort ? [...LENGTHS, SHORT] : LENGTHS) {
      const input = form(shape.at(length));
      let ms = await timed(input, name);
      if (ms === undefined) return;
      if (ms < LEAST_MS || ms * 1e6 / input.length < SUSPECT * nsPerByte) {
        judge(input, ms, name);
        continue;
      }
      let growth = Infinity;
      for (let i = 0; i < TRIES && growth > GROWTH; i++) {
        const short = Math.max(0.02, await best(form(shape.at(length / 8)), name));
        ms = await best(input, name);
        growth = Math.min(growth, ms / short);
        // A short input says little: what is slow enough already needs no second look.
        if (growth > GROWTH && ms < SLOW_MS) {
          growth = await best(form(shape.at(length * 8)), name) / ms;
        }
      }
      const grows = growth > GROWTH && ms > LEAST_MS && !target.isShort;
      if (judge(input, ms, name) > TOO_SLOW * Math.max(nsPerByte, jsonCost()) || grows) {
        const times = `${growth.toFixed(0)} times as long for eight times the length`;
        report.findings.push(`${input.length} bytes of ${name}: ${ms.toFixed(1)} ms, ${times}`);
        return;
      }
    }
  };
  const until = performance.now() + seconds * 1000;
  for (
    let round = 0;
    performance.now() < until && report.findings.length < MOST_FINDINGS;
    round++
  ) {
    if (round % 2 === 1 && target.samples.length > 0) {
      const sample = choices.below(target.samples.length);
      const input = changed(choices, target.samples[sample]!);
      const name = `sample ${sample}, changed in round ${round} of seed ${seed}`;
      let ms = await timed(input, name);
      if (ms === undefined) continue;
      // This machine may have done something else meanwhile.
      if (ms * 1e6 / input.length > SUSPECT * nsPerByte) ms = await best(input, name);
      if (judge(input, ms, name) > TOO_SLOW * Math.max(nsPerByte, jsonCost()) && ms > LEAST_MS) {
        report.findings.push(`${input.length} bytes of ${name}: ${ms.toFixed(1)} ms`);
      }
      continue;
    }
    const shape = shapeOf(choices, target.tokens);
    const form = choices.below(target.forms.length);
    await look(shape, target.forms[form]!, `form ${form}, ${shape.name}`);
  }
  return report;
}

/** Nanoseconds per byte of a usual JSON text, at this moment on this machine. */
function jsonCost(): number {
  const text = JSON.stringify(
    Array.from({ length: 4000 }, (_, i) => ({ type: "step", step: i, reward: i / 7 })),
  );
  let least = Infinity;
  for (let i = 0; i < 7; i++) {
    const begun = performance.now();
    JSON.parse(text);
    least = Math.min(least, performance.now() - begun);
  }
  return least * 1e6 / text.length;
}
