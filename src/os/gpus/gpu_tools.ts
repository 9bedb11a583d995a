/**
 * Asks the drivers' tools. A driver that hangs hangs its tool: each call has a limit, and only one
 * is in progress.
 */
import { messageOf } from "../../base/errors.ts";
import { hostEnvironment } from "../processes/environment.ts";
import { runProgram } from "../processes/external_program.ts";
import type { Known } from "./amd_smi.ts";
import type { Answer, Card, GpuProcess, Link } from "./card.ts";
import { KERNEL_LOGS, parseXids, type Xid } from "./kernel_log.ts";
import {
  cardQuery,
  LIST,
  type Output,
  parseCards,
  parseProcesses,
  parseTopology,
  PROCESS_QUERY,
  TOPOLOGY,
  unknownField,
  withInstances,
} from "./nvidia_smi.ts";

/** With many cards and without persistence mode the driver needs that long. */
const LIMIT_MS = 20_000;
const NO_SUCH_PROGRAM = 127;
/** A tool that is not there is looked for again after this time. */
const ABSENT_MS = 300_000;

export type RunTool = (argv: readonly string[], signal: AbortSignal | undefined) => Promise<Output>;

const runTool: RunTool = (argv, signal) =>
  runProgram(argv, {
    env: hostEnvironment(),
    limitMs: LIMIT_MS,
    signal,
    // A script's own programs end with it.
    group: argv[0] === "/bin/sh",
  });

export interface GpuReading extends Answer {
  /** Some tool is installed. */
  tool: boolean;
  /** How cards are connected, as far as the tools say. */
  links: readonly Link[];
  /** Of `performance.now()`. */
  at: number;
}

export class GpuTools {
  readonly #run: RunTool;
  /** Of KERNEL_LOGS: the one that may be read; past the last: none. */
  #kernelLog = 0;
  readonly #absentSince = new Map<string, number>();
  /** Fields that the NVIDIA driver does not know. */
  readonly #unknown = new Set<string>();
  /** Of amd-smi. */
  #amdCards: Known = new Map();
  /** Of Intel's cards, by UUID. */
  readonly #intelMemory = new Map<string, number | null>();
  /** By tool, and of which cards they are. */
  readonly #links = new Map<string, { of: string; links: Link[] }>();

  constructor(run: RunTool = runTool) {
    this.#run = run;
  }

  /** Never throws: a tool that fails or hangs is a problem of the reading. */
  async read(signal?: AbortSignal): Promise<GpuReading> {
    const answers = (await Promise.all([
      this.#nvidia(signal),
      this.#amd(signal),
      this.#intel(signal),
      this.#apple(signal),
    ])).filter((answer) => answer !== undefined);
    return {
      cards: answers.flatMap(({ cards }) => cards),
      complete: answers.every(({ complete }) => complete),
      problem: answers.map(({ problem }) => problem).filter((problem) => problem !== "").join("; "),
      tool: answers.length > 0,
      links: [...this.#links.values()].flatMap(({ links }) => links),
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

  /** NVIDIA's errors in the kernel's log. @returns why it cannot be read, as a text */
  async xids(signal?: AbortSignal): Promise<Xid[] | string> {
    let refused = "";
    for (; this.#kernelLog < KERNEL_LOGS.length; this.#kernelLog++) {
      try {
        const { code, stdout } = await this.#run(KERNEL_LOGS[this.#kernelLog]!, signal);
        if (code === 0) return parseXids(stdout);
        refused = stdout.trim().slice(0, 200) || `exited with ${code}`;
      } catch (error) {
        refused = messageOf(error);
      }
    }
    return refused;
  }

  async #nvidia(signal: AbortSignal | undefined): Promise<Answer | undefined> {
    try {
      let query = cardQuery(this.#unknown);
      let output = await this.#output(query.argv, signal);
      for (;;) {
        const field = output === undefined ? undefined : unknownField(output);
        if (field === undefined || this.#unknown.has(field)) break;
        this.#unknown.add(field);
        query = cardQuery(this.#unknown);
        output = await this.#output(query.argv, signal);
      }
      if (output === undefined) return undefined;
      const { divided, ...answer } = parseCards(output, query.fields);
      await this.#connect(TOPOLOGY, answer.cards, parseTopology, signal);
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
        const { CARD_QUERY, parseCards, parseTopology, TOPOLOGY } = await import("./rocm_smi.ts");
        const output = await this.#output(CARD_QUERY, signal);
        if (output !== undefined) {
          const answer = parseCards(output);
          await this.#connect(TOPOLOGY, answer.cards, parseTopology, signal);
          return answer;
        }
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

  async #intel(signal: AbortSignal | undefined): Promise<Answer | undefined> {
    if (this.#isAbsent("xpu-smi")) return undefined;
    try {
      const { detailOf, DISCOVERY, FIGURES, parseCards, parseMemory } = await import(
        "./xpu_smi.ts"
      );
      const output = await this.#output(DISCOVERY, signal);
      if (output === undefined) return undefined;
      const figures = (await this.#output(FIGURES, signal))?.stdout ?? "";
      const { cards } = parseCards(output, figures, this.#intelMemory);
      for (const { index, uuid } of cards) {
        if (this.#intelMemory.has(uuid)) continue;
        const detail = await this.#output(detailOf(index), signal);
        this.#intelMemory.set(uuid, parseMemory(detail?.stdout ?? ""));
      }
      return parseCards(output, figures, this.#intelMemory);
    } catch (error) {
      return { cards: [], complete: false, problem: messageOf(error) };
    }
  }

  async #apple(signal: AbortSignal | undefined): Promise<Answer | undefined> {
    if (this.#isAbsent("system_profiler")) return undefined;
    try {
      const { CARD_QUERY, parseCards } = await import("./system_profiler.ts");
      const output = await this.#output(CARD_QUERY, signal);
      return output && parseCards(output);
    } catch (error) {
      return { cards: [], complete: false, problem: messageOf(error) };
    }
  }

  /** How these cards are connected: asked for when they are others than before. */
  async #connect(
    argv: readonly string[],
    cards: readonly Card[],
    parse: (output: string) => Link[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const of = cards.map(({ index, uuid }) => `${index} ${uuid}`).join();
    const name = argv[0]!;
    if (this.#links.get(name)?.of === of) return;
    this.#links.set(name, { of, links: [] });
    if (cards.length < 2) return;
    try {
      const output = await this.#output(argv, signal);
      this.#links.set(name, { of, links: parse(output?.stdout ?? "") });
    } catch {
      // Cards are then given out by their numbers.
    }
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
