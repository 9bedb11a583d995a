/**
 * Asks the drivers' tools. A driver that hangs hangs its tool: each call has a limit, and only one
 * is in progress.
 */
import { messageOf } from "../../base/errors.ts";
import { hostEnvironment } from "../processes/environment.ts";
import { runProgram } from "../processes/external_program.ts";
import type { Known } from "./amd_smi.ts";
import type { Answer, GpuProcess } from "./card.ts";
import {
  cardQuery,
  isOldDriver,
  LIST,
  type Output,
  parseCards,
  parseProcesses,
  PROCESS_QUERY,
  withInstances,
} from "./nvidia_smi.ts";

/** With many cards and without persistence mode the driver needs that long. */
const LIMIT_MS = 20_000;
const NO_SUCH_PROGRAM = 127;
/** A tool that is not there is looked for again after this time. */
const ABSENT_MS = 300_000;

export type RunTool = (argv: readonly string[], signal: AbortSignal | undefined) => Promise<Output>;

const runTool: RunTool = (argv, signal) =>
  runProgram(argv, { env: hostEnvironment(), limitMs: LIMIT_MS, signal });

export interface GpuReading extends Answer {
  /** Some tool is installed. */
  tool: boolean;
  /** Of `performance.now()`. */
  at: number;
}

export class GpuTools {
  readonly #run: RunTool;
  readonly #absentSince = new Map<string, number>();
  #old = false;
  /** Of amd-smi. */
  #amdCards: Known = new Map();

  constructor(run: RunTool = runTool) {
    this.#run = run;
  }

  /** Never throws: a tool that fails or hangs is a problem of the reading. */
  async read(signal?: AbortSignal): Promise<GpuReading> {
    const answers = (await Promise.all([this.#nvidia(signal), this.#amd(signal)])).filter((a) =>
      a !== undefined
    );
    return {
      cards: answers.flatMap(({ cards }) => cards),
      complete: answers.every(({ complete }) => complete),
      problem: answers.map(({ problem }) => problem).filter((problem) => problem !== "").join("; "),
      tool: answers.length > 0,
      at: performance.now(),
    };
  }

  /** Processes that compute on the cards; undefined if a tool does not answer. */
  async processes(signal?: AbortSignal): Promise<GpuProcess[] | undefined> {
    try {
      const nvidia = await this.#output(PROCESS_QUERY, signal);
      return [...parseProcesses(nvidia?.stdout ?? ""), ...await this.#amdProcesses(signal)];
    } catch {
      // The cards' own figures are still known.
      return undefined;
    }
  }

  async #nvidia(signal: AbortSignal | undefined): Promise<Answer | undefined> {
    try {
      let query = cardQuery(this.#old);
      let output = await this.#output(query.argv, signal);
      if (output !== undefined && !this.#old && isOldDriver(output.stdout + output.stderr)) {
        this.#old = true;
        query = cardQuery(true);
        output = await this.#output(query.argv, signal);
      }
      if (output === undefined) return undefined;
      const { divided, ...answer } = parseCards(output, query.fields);
      if (!divided) return answer;
      const list = await this.#output(LIST, signal);
      return { ...answer, cards: withInstances(answer.cards, list?.stdout ?? "") };
    } catch (error) {
      return { cards: [], complete: false, problem: messageOf(error) };
    }
  }

  /** rocm-smi, and where that is not installed, its successor. */
  async #amd(signal: AbortSignal | undefined): Promise<Answer | undefined> {
    try {
      if (!this.#isAbsent("rocm-smi")) {
        const { CARD_QUERY, parseCards } = await import("./rocm_smi.ts");
        const output = await this.#output(CARD_QUERY, signal);
        if (output !== undefined) return parseCards(output);
      }
      if (this.#isAbsent("amd-smi")) return undefined;
      const { CARD_QUERY, LIST, NAMES, parseCards, parseKnown } = await import("./amd_smi.ts");
      const output = await this.#output(CARD_QUERY, signal);
      if (output === undefined) return undefined;
      const answer = parseCards(output, this.#amdCards);
      if (answer.cards.every(({ index }) => this.#amdCards.has(index))) return answer;
      // Names and UUIDs take half a second: they are asked for when there is a card that is not
      // known.
      const [list, names] = [await this.#output(LIST, signal), await this.#output(NAMES, signal)];
      this.#amdCards = parseKnown(list?.stdout ?? "", names?.stdout ?? "");
      return parseCards(output, this.#amdCards);
    } catch (error) {
      return { cards: [], complete: false, problem: messageOf(error) };
    }
  }

  async #amdProcesses(signal: AbortSignal | undefined): Promise<GpuProcess[]> {
    if (!this.#isAbsent("rocm-smi")) {
      const { PROCESS_QUERY, parseProcesses } = await import("./rocm_smi.ts");
      const output = await this.#output(PROCESS_QUERY, signal);
      if (output !== undefined) return parseProcesses(output.stdout);
    }
    if (this.#isAbsent("amd-smi")) return [];
    const { PROCESS_QUERY, parseProcesses } = await import("./amd_smi.ts");
    return parseProcesses(
      (await this.#output(PROCESS_QUERY, signal))?.stdout ?? "",
      this.#amdCards,
    );
  }

  /** Undefined: not installed. */
  async #output(
    argv: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<Output | undefined> {
    const name = argv[0]!;
    if (this.#isAbsent(name)) return undefined;
    const output = await this.#run(argv, signal);
    if (output.code !== NO_SUCH_PROGRAM) return output;
    this.#absentSince.set(name, performance.now());
    return undefined;
  }

  #isAbsent(name: string): boolean {
    return performance.now() - (this.#absentSince.get(name) ?? -Infinity) < ABSENT_MS;
  }
}
