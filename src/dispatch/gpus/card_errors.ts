/**
 * Errors of cards: memory errors that could not be corrected, as the tool counts them, and NVIDIA's
 * errors (Xid) in the kernel's log. Only what happens while this daemon runs is an event.
 */
import type { Logger } from "../../base/log.ts";
import type { Card } from "../../os/gpus/card.ts";
import type { GpuReading, GpuTools } from "../../os/gpus/gpu_tools.ts";

/** The kernel's log is read at most so often. */
const EVERY_MS = 30_000;

export interface CardError {
  uuid: string;
  /** For the event. */
  data: { xid: number; text: string } | { ecc_errors: number };
}

export class CardErrors {
  readonly #tools: Pick<GpuTools, "xids">;
  readonly #log: Logger;
  readonly #everyMs: number;
  /** By UUID: the tool's counter. */
  readonly #ecc = new Map<string, number>();
  readonly #counts = new Map<string, number>();
  readonly #lastXid = new Map<string, string>();
  /** A card that is lost has an error on its bus, too. */
  readonly #uuidAt = new Map<string, string>();
  /** Seconds since the boot, of the newest entry that is known; undefined: none was read yet. */
  #newest: number | undefined;
  #readAt = -Infinity;
  #refused = false;

  constructor(tools: Pick<GpuTools, "xids">, log: Logger, everyMs = EVERY_MS) {
    this.#tools = tools;
    this.#log = log;
    this.#everyMs = everyMs;
  }

  countOf(uuid: string): number {
    return this.#counts.get(uuid) ?? 0;
  }

  /** "slowed down by heat; 2 memory errors (ECC); Xid 79: GPU has fallen off the bus". */
  healthOf(uuid: string, card: Card | undefined): string {
    const { eccErrors = null, slowedBy = null } = card ?? {};
    return [
      slowedBy ? `slowed down by ${slowedBy}` : "",
      eccErrors ? `${eccErrors} memory error${eccErrors === 1 ? "" : "s"} (ECC)` : "",
      this.#lastXid.get(uuid) ?? "",
    ].filter((text) => text !== "").join("; ");
  }

  /** Never throws. @returns what is new */
  async look({ cards }: GpuReading, signal: AbortSignal): Promise<CardError[]> {
    const found: CardError[] = [];
    for (const { uuid, eccErrors, bus } of cards) {
      if (bus !== "" && uuid !== "") this.#uuidAt.set(bus, uuid);
      if (eccErrors === null || uuid === "") continue;
      const before = this.#ecc.get(uuid);
      this.#ecc.set(uuid, eccErrors);
      // A driver that is loaded anew counts from zero.
      if (before === undefined || eccErrors <= before) continue;
      found.push({ uuid, data: { ecc_errors: eccErrors } });
      this.#counts.set(uuid, this.countOf(uuid) + eccErrors - before);
    }
    if (this.#uuidAt.size > 0 && performance.now() - this.#readAt >= this.#everyMs) {
      this.#readAt = performance.now();
      found.push(...await this.#xids(signal));
    }
    return found;
  }

  async #xids(signal: AbortSignal): Promise<CardError[]> {
    if (this.#refused) return [];
    const xids = await this.#tools.xids(signal);
    if (typeof xids === "string") {
      if (signal.aborted) return [];
      this.#refused = true;
      this.#log.info(
        { why: xids },
        "the kernel's log cannot be read: errors of GPUs in it (Xid) are not seen",
      );
      return [];
    }
    const known = this.#newest;
    this.#newest = Math.max(known ?? 0, ...xids.map(({ at }) => at));
    return xids.flatMap(({ bus, code, text, at }): CardError[] => {
      const uuid = this.#uuidAt.get(bus);
      if (uuid === undefined) return [];
      this.#lastXid.set(uuid, text === "" ? `Xid ${code}` : `Xid ${code}: ${text}`);
      if (known === undefined || at <= known) return [];
      this.#counts.set(uuid, this.countOf(uuid) + 1);
      return [{ uuid, data: { xid: code, text } }];
    });
  }
}
