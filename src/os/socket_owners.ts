/**
 * Which user a TCP connection on this machine belongs to, by the kernel's table of sockets. Linux only: elsewhere nobody is
 * known.
 */
import { sleep } from "../base/sleep.ts";
import { askShellLater } from "./shell.ts";

const TABLES = ["/proc/net/tcp", "/proc/net/tcp6"];
const ESTABLISHED = "01";
const LISTEN = "0A";
/** How the kernel shows users of a user namespace that has no number here. */
const OVERFLOW_UID = 65534;

export interface TcpEnd {
  /** An IP address, without brackets. */
  address: string;
  port: number;
}

/** Whether the address is this machine's own and no other's, also where an IPv6 socket shows an IPv4 one. */
function isLoopbackAddress(address: string): boolean {
  return address === "::1" || /^(::ffff:)?127\./i.test(address);
}

/** The text of the kernel's tables; "" where there are none. */
export async function readSocketTables(): Promise<string> {
  let text = "";
  for (const path of TABLES) {
    try {
      text += await Deno.readTextFile(path);
    } catch (error) {
      // Under a permission set the runtime reads nothing there; a shell may.
      if (error instanceof Deno.errors.NotCapable) return await askShellLater(`cat ${TABLES.join(" ")}; :`) ?? "";
      // No such protocol, or no such kernel.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return text;
}

/**
 * The user whose socket is `peer`, the other end of a connection to `port` of this machine. Only an established connection
 * counts that has an inode: the row of a socket that was closed says user 0.
 *
 * @returns undefined when nobody is known, or several users may be meant
 */
export function ownerOfPeer(tables: string, peer: TcpEnd, port: number): number | undefined {
  return onlyUser(tables, peer, ESTABLISHED, (remote) => remote.port === port && remote.loopback);
}

/** The user who listens there. @returns undefined when nobody does, or several users may be meant */
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

/** 127.0.0.0/8, the same within IPv6, and ::1, as the tables have them: words of 32 bits in the machine's order. */
const LOOPBACK = /^(0000000000000000FFFF0000)?[0-9A-F]{6}7F$|^0{24}01000000$/;

/** An address as the tables may write it. */
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

/** The eight groups of an IPv6 address; undefined for what is none. */
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

/** The tables are not read for more than this part of the time. */
const READING_PART = 1 / 4;

/**
 * Answers many questions with few readings: one reading is shared by all who asked before it began, so that each sees its
 * own connection, and readings take at most a quarter of the time, however many ask.
 */
export class PeerOwners {
  readonly #read: () => Promise<string>;
  #next: Promise<string> | undefined;
  /** Settles when the reading under way has ended, and the rest after it. */
  #rested: Promise<void> = Promise.resolve();

  constructor(read: () => Promise<string> = readSocketTables) {
    this.#read = read;
  }

  /**
   * @param port of this machine, to which the peer is connected
   * @returns undefined also where the tables cannot be read: a peer that cannot be looked up is not known
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
