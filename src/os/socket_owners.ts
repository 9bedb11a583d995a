/**
 * The user of a TCP connection on this machine, from the kernel's table of sockets. Only on Linux: elsewhere users are
 * unknown.
 */
import { sleep } from "../base/sleep.ts";
import { shellOutputLater } from "./external_program.ts";

const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];
const ESTABLISHED = "01";
const LISTEN = "0A";
/** The kernel shows this uid for users that have no number in this user namespace. */
const OVERFLOW_UID = 65534;

export interface TcpEnd {
  /** An IP address, without brackets. */
  address: string;
  port: number;
}

/** Whether only this machine has the address, including IPv4 addresses of IPv6 sockets. */
function isLoopbackAddress(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127\./i.test(address);
}

/** The text of the kernel's tables; "" if there are none. */
export async function readSocketTables(): Promise<string> {
  let text = "";
  for (const path of TABLES) {
    try {
      text += await Deno.readTextFile(path);
    } catch (error) {
      // Under a permission set the runtime may not read it; a shell may.
      if (error instanceof Deno.errors.NotCapable) return await shellOutputLater(`cat ${TABLES.join(" ")}; :`) ?? "";
      // The protocol does not exist, or the kernel has no such tables.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return text;
}

/**
 * The user of the socket `peer`, the other end of a connection to `port` of this machine. Only an established connection
 * with an inode counts: the row of a closed socket shows user 0.
 * @returns undefined if no user is known, or several are possible
 */
export function ownerOfPeer(tables: string, peer: TcpEnd, port: number): number | undefined {
  return onlyUser(tables, peer, ESTABLISHED, (remote) => remote.port === port && remote.loopback);
}

/** The user of a listener. @returns undefined if there is none, or several are possible */
export function ownerOfListener(tables: string, at: TcpEnd): number | undefined {
  const any = at.address.includes(":") ? "::" : "0.0.0.0";
  const ends = [at.address, any, "::"].map((address) => ({ address, port: at.port }));
  const users = new Set(
    ends.map((end) => onlyUser(tables, end, LISTEN, () => true)).filter((uid) => uid !== undefined),
  );
  return users.size === 1 ? [...users][0] : undefined;
}

function onlyUser(
  tables: string,
  local: TcpEnd,
  state: string,
  isMeant: (remote: { port: number; loopback: boolean }) => boolean,
): number | undefined {
  const ends = new Set(formsOf(local.address).map((form) => `${form}:${hex(local.port, 4)}`));
  const port = `:${hex(local.port, 4)} `;
  const users = new Set<number>();
  for (let at = tables.indexOf(port); at !== -1; at = tables.indexOf(port, at + 1)) {
    const begin = tables.lastIndexOf("\n", at) + 1;
    const end = tables.indexOf("\n", at);
    const fields = tables.slice(begin, end === -1 ? undefined : end).trim().split(/\s+/);
    const [, from = "", to = "", found, , , , uid, , inode] = fields;
    if (!ends.has(from) || found !== state || inode === "0" || !/^\d+$/.test(uid ?? "")) continue;
    const [address = "", remotePort = ""] = to.split(":");
    if (!isMeant({ port: parseInt(remotePort, 16), loopback: LOOPBACK.test(address) })) continue;
    users.add(Number(uid));
  }
  const [user] = users;
  return users.size === 1 && user !== OVERFLOW_UID ? user : undefined;
}

/** 127.0.0.0/8, the same within IPv6, and ::1, in the form of the tables: words of 32 bits in the machine's byte order. */
const LOOPBACK = /^(0000000000000000FFFF0000)?[0-9A-F]{6}7F$|^0{24}01000000$/;

/** Forms in which the tables may show an address. */
function formsOf(address: string): string[] {
  const four = /^(?:::ffff:)?(\d+)\.(\d+)\.(\d+)\.(\d+)$/i.exec(address);
  if (four !== null) {
    const word = four.slice(1).reverse().map((byte) => hex(Number(byte), 2)).join("");
    return [word, `0000000000000000FFFF0000${word}`];
  }
  const groups = groupsOf(address);
  if (groups === undefined) return [];
  const bytes = groups.map((group) => hex(group, 4)).join("").match(/../g)!;
  const words = [0, 4, 8, 12].map((at) => bytes.slice(at, at + 4).reverse().join(""));
  return [words.join("")];
}

/** The eight groups of an IPv6 address; undefined if it is invalid. */
function groupsOf(address: string): number[] | undefined {
  const [head = "", tail] = address.split("::");
  const groups = (text: string | undefined) => text ? text.split(":").map((group) => parseInt(group, 16)) : [];
  const [before, after] = [groups(head), groups(tail)];
  const all = tail === undefined
    ? before
    : [...before, ...Array<number>(Math.max(0, 8 - before.length - after.length)).fill(0), ...after];
  return all.length === 8 && all.every((group) => group >= 0 && group <= 0xffff) ? all : undefined;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}

/** Reading the tables takes at most this fraction of the time. */
const READING_PART = 1 / 4;

/**
 * Answers many questions with few readings of the tables: all who asked before a reading began share it, so that each sees
 * its own connection.
 */
export class PeerOwners {
  readonly #read: () => Promise<string>;
  #next: Promise<string> | undefined;
  /** Settles when the current reading, and the pause after it, have ended. */
  #rested: Promise<void> = Promise.resolve();

  constructor(read: () => Promise<string> = readSocketTables) {
    this.#read = read;
  }

  /**
   * @param port of this machine, to which the peer is connected @returns undefined also if the tables cannot be read: such a
   *   peer is unknown
   */
  async of(peer: TcpEnd, port: number): Promise<number | undefined> {
    if (!isLoopbackAddress(peer.address)) return undefined;
    const tables = await (this.#next ??= this.#readNext()).catch(() => "");
    return ownerOfPeer(tables, peer, port);
  }

  async #readNext(): Promise<string> {
    await this.#rested;
    this.#next = undefined;
    const began = performance.now();
    const reading = this.#read();
    const rest = () => sleep((performance.now() - began) * (1 / READING_PART - 1));
    this.#rested = reading.then(rest, rest);
    return await reading;
  }
}
