/** Where the daemon is to be reached: a restarted one may listen elsewhere, and says so in its daemon.json. */
import { dialable } from "../wire/dialable.ts";
import { readTextIfThere } from "../os/files.ts";

export class DaemonAddress {
  readonly #given: string;
  readonly #daemonJson: string;
  #current: string;
  /** Which daemon.json was read last. */
  #read: string | undefined;

  constructor(given: string, daemonJson: string) {
    this.#given = given;
    this.#daemonJson = daemonJson;
    this.#current = given;
  }

  get current(): string {
    return this.#current;
  }

  /** To be called when the current address did not answer. */
  refresh(): void {
    this.#read = this.#written();
    this.#current = this.#announced() ?? this.#given;
  }

  /**
   * Whether the one who answers here is the run's own daemon. Another daemon may have got the port of one that is gone;
   * that it does not know the run must not end the run. Without a daemon.json there is nobody to ask.
   */
  isAnnounced(): boolean {
    return this.#daemonJson === "" || this.#announced() === this.#current;
  }

  /** Whether a daemon has announced itself since the last refresh: it does so when it can be reached. */
  isAnnouncedAnew(): boolean {
    const written = this.#written();
    return written !== undefined && written !== this.#read;
  }

  #written(): string | undefined {
    if (this.#daemonJson === "") return undefined;
    try {
      const { ino, mtime } = Deno.statSync(this.#daemonJson);
      return `${ino} ${mtime?.getTime()}`;
    } catch {
      return undefined;
    }
  }

  #announced(): string | undefined {
    if (this.#daemonJson === "") return undefined;
    try {
      const { socket, http, advertise } = JSON.parse(readTextIfThere(this.#daemonJson) ?? "") as Record<
        string,
        unknown
      >;
      if (this.#given.startsWith("unix:")) {
        return typeof socket === "string" && socket !== "" ? `unix:${socket}` : undefined;
      }
      // For other hosts, and so for a proxy that was given one.
      if (typeof advertise === "string" && advertise !== "") return advertise;
      const scheme = /^https?:\/\//.exec(this.#given)?.[0] ?? "";
      return typeof http === "string" && http !== "" ? scheme + dialable(http) : undefined;
    } catch {
      return undefined;
    }
  }
}
