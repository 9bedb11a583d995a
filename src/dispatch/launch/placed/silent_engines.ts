import type { Logger } from "../../../base/log.ts";
import type { Launcher } from "../engine/launcher.ts";

/**
 * Engines that did not answer when they were last asked, and why: logged when it begins and when it
 * ends.
 */
export class SilentEngines {
  readonly #log: Logger;
  readonly #why = new Map<string, string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Why the engine did not answer; undefined: it did, or was not asked yet. */
  why({ name }: Launcher): string | undefined {
    return this.#why.get(name);
  }

  hasNotAnswered({ name }: Launcher, why: string): void {
    if (!this.#why.has(name)) {
      this.#log.warn({ launcher: name, error: why }, "the engine does not answer; its runs wait");
    }
    this.#why.set(name, why);
  }

  hasAnswered({ name }: Launcher): void {
    if (this.#why.delete(name)) this.#log.info({ launcher: name }, "the engine answers again");
  }
}
