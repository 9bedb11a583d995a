/**
 * The daemon's address: a restarted daemon may listen elsewhere, and writes its address to its
 * daemon.json.
 */
import { dialable } from "../../wire/address/dialable.ts";
import { readTextIfThere } from "../../os/files/files.ts";

export class DaemonAddress {
  readonly #given: string;
  readonly #daemonJson: string;
  #current: string;
  /** Identifies the last daemon.json that was read. */
  #read: string | undefined;

  constructor(given: string, daemonJson: string) {
    this.#given = given;
    this.#daemonJson = daemonJson;
    this.#current = given;
  }

  get current(): string {
    return this.#current;
  }

  /** Call it when the current address did not answer. */
  refresh(): void {
    this.#read = this.#written();
    this.#current = this.#announced() ?? this.#given;
  }

  /**
   * Whether the daemon at this address is the run's own. Another daemon may have the port of one
   * that has ended; it does not know the run, and must not end it. Without a daemon.json this
   * cannot be checked.
   */
  isAnnounced(): boolean {
    return this.#daemonJson === "" || this.#announced() === this.#current;
  }

  /**
   * Whether a daemon has written daemon.json since the last refresh: it does so when it can be
   * reached.
   */
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
      const { socket, http, advertise } = JSON.parse(
        readTextIfThere(this.#daemonJson) ?? "",
      ) as Record<
        string,
        unknown
      >;
      if (this.#given.startsWith("unix:")) {
        return typeof socket === "string" && socket !== "" ? `unix:${socket}` : undefined;
      }
      // Meant for other hosts, and so for a proxy that was started with such an address.
      if (typeof advertise === "string" && advertise !== "") return advertise;
      const scheme = /^https?:\/\//.exec(this.#given)?.[0] ?? "";
      return typeof http === "string" && http !== "" ? scheme + dialable(http) : undefined;
    } catch {
      return undefined;
    }
  }
}
