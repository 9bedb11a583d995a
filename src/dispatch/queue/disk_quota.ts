/**
 * `--max-disk-per-user`: files and telemetry of each owner's runs, those in the trash included,
 * measured once a minute. Beyond it the owner's submissions are refused, and what waits stays
 * waiting; running runs go on.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { bytes } from "../../base/text/format.ts";
import { bytesOfOwners, type DiskUsage } from "../../registry/retention/disk_usage.ts";

const MEASURE_MS = 60_000;

export interface DiskQuotaOptions {
  maxBytes: number | undefined;
  measure: () => Promise<DiskUsage>;
  owners: () => ReadonlyMap<string, string>;
  /** Somebody is beyond it now, or no longer. */
  onChanged: () => void;
  log: Logger;
}

export class DiskQuota {
  readonly #options: DiskQuotaOptions;
  #over: ReadonlyMap<string, number> = new Map();
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(options: DiskQuotaOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#options.maxBytes === undefined) return;
    const look = () =>
      this.look().catch((error) =>
        this.#options.log.warn({ err: messageOf(error) }, "cannot measure the disk use of users")
      );
    void look();
    this.#timer = setInterval(look, MEASURE_MS);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async look(): Promise<void> {
    const { maxBytes = Infinity, measure, owners, onChanged, log } = this.#options;
    const used = bytesOfOwners(await measure(), owners());
    const before = this.#over;
    this.#over = new Map([...used].filter(([, taken]) => taken > maxBytes));
    for (const [owner, used] of this.#over) {
      if (!before.has(owner)) log.warn({ owner, bytes: used, max: maxBytes }, this.#words(owner)!);
    }
    const ended = [...before.keys()].filter((owner) => !this.#over.has(owner));
    for (const owner of ended) log.info({ owner }, "is within --max-disk-per-user again");
    if (ended.length > 0 || this.#over.size > before.size) onChanged();
  }

  /** The owners who are beyond it, and how. */
  get over(): ReadonlyMap<string, string> {
    return new Map([...this.#over.keys()].map((owner) => [owner, this.#words(owner)!]));
  }

  #words(owner: string): string | undefined {
    const taken = this.#over.get(owner);
    return taken === undefined
      ? undefined
      : `${owner || "anybody"}'s runs take ${bytes(taken)} of disk, and may take ${
        bytes(this.#options.maxBytes!)
      }`;
  }

  /** @throws MosaicError `resource_exhausted` */
  requireRoom(owner: string): void {
    const words = this.#words(owner);
    if (words === undefined) return;
    throw new MosaicError("resource_exhausted", `${words} (--max-disk-per-user)`, {
      hint: '"mosaic du" shows the largest; "mosaic delete --forever RUN" and ' +
        '"mosaic prune --trash" make room, which counts within a minute.',
    });
  }
}
